// From a request's prompt to token ids. CPU work: call it on a worker.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "registry/model_registry.h"
#include "serve/inference_service.h"

namespace skipjack {

// Each is looked up by name, and a template uses a handful.
inline constexpr std::size_t kMaxTemplateVariables = 64;

struct PromptOptions {
  bool add_special_tokens = true;
  bool parse_special = false;  // text may spell control tokens; a chat's messages never may
  // Tokens that prompt and answer may have together: text that cannot fit, whatever tokens it becomes, is
  // refused before it is tokenised. 0: no limit.
  std::int32_t context_length = 0;
};

// Text is tokenised as user text; chat messages are rendered with the model's template, whose own text may
// yield control tokens; ids are taken as they are. InvalidArgument says what is wrong; the result may be
// empty.
Result<std::vector<TokenId>> BuildPrompt(const ServedModel& model, const Prompt& prompt,
                                         const PromptOptions& options);

// Bytes of text in it, for bounds on what waits.
std::size_t PromptBytes(const Prompt& prompt);

}  // namespace skipjack
