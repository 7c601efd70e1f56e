#include "serve/continue_message.h"

#include <cstddef>

namespace skipjack {
namespace {

constexpr std::string_view kBlank = " \t\n\r\f\v";

std::string_view WithoutLeadingBlanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view WithoutTrailingBlanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

}  // namespace

Status CutAfterFinalMessage(std::string_view content, std::vector<Segment>* segments) {
  const std::string_view kept = WithoutLeadingBlanks(content);
  const std::string_view trimmed = WithoutTrailingBlanks(kept);
  if (trimmed.empty())
    return Status::InvalidArgument("continue_final_message needs text in the last message");
  for (std::size_t i = segments->size(); i-- > 0;) {
    Segment& segment = (*segments)[i];
    const std::size_t found = segment.trusted ? std::string::npos : segment.text.rfind(trimmed);
    if (found == std::string::npos) continue;
    const bool blanks_kept = segment.text.compare(found, kept.size(), kept) == 0;
    segment.text.resize(found + (blanks_kept ? kept.size() : trimmed.size()));
    segments->resize(i + 1);
    return {};
  }
  return Status::InvalidArgument(
      "continue_final_message: the chat template does not show the last message's text as it is");
}

}  // namespace skipjack
