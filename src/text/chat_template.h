// A model's chat template: a small Jinja interpreter with limits on steps, output size and nesting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "text/tokenizer.h"

namespace skipjack {

struct TemplateLimits {
  std::int64_t steps = 1'000'000;       // evaluated nodes, visited values, 64 bytes of text looked through
  std::size_t output_bytes = 8u << 20;  // of any one text
  std::size_t memory_bytes =
      64u << 20;  // of everything that is made, freed or not; the process never needs more than thrice that
  std::size_t source_bytes = 256u << 10;
  int nesting = 100;
};

struct ChatTemplateContext {
  std::string bos_token, eos_token;
  std::int64_t unix_seconds = 0;  // for strftime_now; UTC
};

class ChatTemplate {
 public:
  // Parses once; errors give the line. Thread-safe to render afterwards.
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source,
                                                           TemplateLimits limits = {});

  virtual ~ChatTemplate() = default;

  // `variables`: a JSON object (in the order the client sent, which templates print) with messages, tools,
  // documents, add_generation_prompt, ... (JSON null is none; an absent key is undefined). bos_token and
  // eos_token come from the context unless `variables` has them. Text that stems from the template, bos_token
  // and eos_token is trusted; every character that stems from another variable is untrusted, also after
  // filters and string operations. raise_exception gives InvalidArgument with its message; exceeding a limit
  // gives ResourceExhausted.
  virtual Result<std::vector<Segment>> Render(const nlohmann::ordered_json& variables,
                                              const ChatTemplateContext& context) const = 0;
};

}  // namespace skipjack
