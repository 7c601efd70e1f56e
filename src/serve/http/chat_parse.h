// The chat half of a request: messages, tools and template switches into the variables a chat template sees.
#pragma once

#include "serve/http/field_reader.h"
#include "serve/http/json_checked.h"
#include "serve/inference_service.h"

namespace skipjack::http {

// Reads messages, tools, tool_choice, documents, add_generation_prompt, continue_final_message,
// reasoning_effort and chat_template_kwargs. Mistakes go to `reader`. Text parts of a message are joined by a
// line break, "developer" becomes "system", and arguments of earlier tool calls become objects: what
// templates expect.
ChatPrompt ReadChatPrompt(FieldReader* reader, const JsonLimits& limits);

}  // namespace skipjack::http
