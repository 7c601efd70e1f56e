// The chat half of a request: messages, tools and template switches into the variables a chat template sees.
#pragma once

#include "serve/http/field_reader.h"
#include "serve/inference_service.h"

namespace skipjack::http {

// Reads messages, tools, tool_choice, documents, add_generation_prompt, continue_final_message,
// reasoning_effort and chat_template_kwargs. Mistakes go to `reader`; what is inside of the messages is
// prompt_builder's to check.
ChatPrompt ReadChatPrompt(FieldReader* reader);

}  // namespace skipjack::http
