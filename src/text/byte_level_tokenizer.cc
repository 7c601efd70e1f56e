#include "text/byte_level_tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "text/nfc.h"
#include "text/utf8.h"

namespace skipjack {
namespace {

// Letters, digits and white space only. Models use user-defined tokens for two things: text that is to stay
// whole (a word, a run of spaces) and markers (<tool_call>, <｜User｜>). The first belongs to the way the
// model reads all text; the second would let a user forge scaffolding.
bool IsWord(std::string_view name) {
  if (FindInvalidUtf8(name) != std::string_view::npos) return false;
  for (std::size_t position = 0; position < name.size();) {
    const CodePoint c = DecodeUtf8(name.data() + position);
    if ((ClassesOf(c.value) & (kLetter | kMark | kNumber | kSpace)) == 0) return false;
    position += c.length;
  }
  return true;
}

std::vector<TokenId> TrustedTokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < vocabulary.kinds.size(); ++i) {
    const TokenKind kind = vocabulary.kinds[i];
    if (kind == TokenKind::kControl || kind == TokenKind::kUserDefined)
      ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

std::vector<TokenId> UntrustedTokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < vocabulary.kinds.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::kUserDefined && IsWord(vocabulary.bytes[i])) {
      ids.push_back(static_cast<TokenId>(i));
    }
  }
  return ids;
}

// Of the tokens that text can become.
std::size_t LongestToken(const Vocabulary& vocabulary) {
  std::size_t longest = 1;
  const auto consider = [&](TokenId id) {
    longest = std::max(longest, vocabulary.bytes[static_cast<std::size_t>(id)].size());
  };
  for (const TokenId id : vocabulary.pieces) consider(id);
  for (const TokenId id : TrustedTokens(vocabulary)) consider(id);
  return longest;
}

bool LeavesBytesOut(const Vocabulary& vocabulary) {
  return std::find(vocabulary.byte_tokens.begin(), vocabulary.byte_tokens.end(), -1) !=
         vocabulary.byte_tokens.end();
}

PatternAutomaton Backwards(const StringArena& bytes, std::span<const TokenId> tokens) {
  std::vector<std::string> reversed;
  reversed.reserve(tokens.size());
  for (const TokenId id : tokens) {
    const std::string_view name = bytes[static_cast<std::size_t>(id)];
    reversed.emplace_back(name.rbegin(), name.rend());
  }
  return PatternAutomaton(reversed);
}

}  // namespace

WholeTokenMatcher::WholeTokenMatcher(const StringArena& bytes, std::vector<TokenId> tokens)
    : tokens_(std::move(tokens)), backwards_(Backwards(bytes, tokens_)) {
  lengths_.reserve(tokens_.size());
  for (const TokenId id : tokens_) lengths_.push_back(bytes[static_cast<std::size_t>(id)].size());
}

// Going backwards, the longest pattern that ends at a position is the longest token that begins there, so one
// pass gives the choice at each position and a second one takes them from the left.
void WholeTokenMatcher::Find(std::string_view text, std::size_t begin, std::size_t end,
                             std::vector<Match>& matches) const {
  if (backwards_.empty()) return;
  std::vector<Match> found;
  PatternAutomaton::State state = PatternAutomaton::kStart;
  for (std::size_t position = end; position-- > begin;) {
    state = backwards_.Step(state, text[position]);
    const std::int32_t pattern = backwards_.Match(state);
    if (pattern == PatternAutomaton::kNone) continue;
    const auto i = static_cast<std::size_t>(pattern);
    found.push_back({position, lengths_[i], tokens_[i]});
  }
  std::size_t free_from = begin;
  for (auto match = found.rbegin(); match != found.rend(); ++match) {
    if (match->begin < free_from) continue;
    free_from = match->begin + match->length;
    matches.push_back(*match);
  }
}

ByteLevelTokenizer::ByteLevelTokenizer(Vocabulary vocabulary, const PreTokenizer& pre_tokenizer,
                                       const Settings& settings)
    : vocabulary_(std::move(vocabulary)),
      pre_tokenizer_(pre_tokenizer),
      settings_(settings),
      longest_token_(LongestToken(vocabulary_)),
      leaves_bytes_out_(LeavesBytesOut(vocabulary_)),
      model_(vocabulary_.bytes, vocabulary_.byte_tokens, vocabulary_.merges),
      trusted_tokens_(vocabulary_.bytes, TrustedTokens(vocabulary_)),
      untrusted_tokens_(vocabulary_.bytes, UntrustedTokens(vocabulary_)) {
  model_.IndexWholePieces(vocabulary_.pieces, /*only_reachable=*/!settings_.ignore_merges);
  vocabulary_.merges = {};  // the model has them now
}

Result<std::vector<TokenId>> ByteLevelTokenizer::Encode(std::span<const Segment> segments,
                                                        const EncodeOptions& options) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t invalid = FindInvalidUtf8(segments[i].text);
    if (invalid != std::string_view::npos) {
      return Status::InvalidArgument(
          fmt::format("the text is not UTF-8: byte {} of segment {} belongs to no character", invalid, i));
    }
    bytes += segments[i].text.size();
  }
  if (bytes > BpeModel::kMaxPieceBytes) {
    return Status::InvalidArgument(
        fmt::format("the text has {} bytes; at most {} can be encoded", bytes, BpeModel::kMaxPieceBytes));
  }
  const std::vector<Run> runs = RunsOf(segments);
  if (segments.size() == 1) return EncodeRuns(segments.front().text, runs, options.add_special);
  std::string text;
  text.reserve(bytes);
  for (const Segment& segment : segments) text += segment.text;
  return EncodeRuns(text, runs, options.add_special);
}

// Neighbours of equal trust are one run: how a template cuts its own text must not matter.
std::vector<ByteLevelTokenizer::Run> ByteLevelTokenizer::RunsOf(std::span<const Segment> segments) {
  std::vector<Run> runs;
  std::size_t position = 0;
  for (const Segment& segment : segments) {
    if (segment.text.empty()) continue;
    const std::size_t end = position + segment.text.size();
    if (!runs.empty() && runs.back().trusted == segment.trusted) {
      runs.back().end = end;
    } else {
      runs.push_back({position, end, segment.trusted});
    }
    position = end;
  }
  return runs;
}

std::vector<TokenId> ByteLevelTokenizer::EncodeRuns(std::string_view text, std::span<const Run> runs,
                                                    bool add_special) const {
  std::vector<WholeTokenMatcher::Match> matches;
  for (const Run& run : runs) {
    (run.trusted ? trusted_tokens_ : untrusted_tokens_).Find(text, run.begin, run.end, matches);
  }
  const bool wants_bos = add_special && settings_.add_bos;
  const bool has_bos = !matches.empty() && matches.front().begin == 0 && matches.front().id == settings_.bos;
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  if (wants_bos && !has_bos) ids.push_back(*settings_.bos);

  BpeWorkspace work;
  std::size_t position = 0;
  for (const WholeTokenMatcher::Match& match : matches) {
    EncodeOrdinary(text.substr(position, match.begin - position), work, ids);
    ids.push_back(match.id);
    position = match.begin + match.length;
  }
  EncodeOrdinary(text.substr(position), work, ids);
  if (add_special && settings_.add_eos && (ids.empty() || ids.back() != *settings_.eos))
    ids.push_back(*settings_.eos);
  return ids;
}

std::size_t ByteLevelTokenizer::MinimumTokens(std::span<const Segment> segments) const {
  // Which bytes are left out of a composed text cannot be said of the text before.
  if (leaves_bytes_out_ && pre_tokenizer_.normalize_nfc) return 0;
  std::size_t bytes = 0;
  for (const Segment& segment : segments) {
    if (!leaves_bytes_out_) {
      bytes += segment.text.size();
      continue;
    }
    bytes += static_cast<std::size_t>(std::count_if(segment.text.begin(), segment.text.end(), [&](char c) {
      return vocabulary_.byte_tokens[static_cast<unsigned char>(c)] >= 0;
    }));
  }
  if (pre_tokenizer_.normalize_nfc) bytes = (bytes + kMaxNfcShrink - 1) / kMaxNfcShrink;
  return (bytes + longest_token_ - 1) / longest_token_;
}

void ByteLevelTokenizer::EncodeOrdinary(std::string_view text, BpeWorkspace& work,
                                        std::vector<TokenId>& out) const {
  if (text.empty()) return;
  std::string composed;
  if (pre_tokenizer_.normalize_nfc && MayNeedNfc(text)) {
    composed = NormalizeNfc(text);
    text = composed;
  }
  auto emit = [&](std::string_view piece) { model_.Encode(piece, work, out); };
  pretokenize::ForEachPiece(pre_tokenizer_.stages, text, emit);
}

std::string_view ByteLevelTokenizer::TokenBytes(TokenId id) const {
  return Holds(id) ? vocabulary_.bytes[static_cast<std::size_t>(id)] : std::string_view();
}

bool ByteLevelTokenizer::IsControl(TokenId id) const {
  if (!Holds(id)) return false;
  const TokenKind kind = vocabulary_.kinds[static_cast<std::size_t>(id)];
  return kind == TokenKind::kControl || kind == TokenKind::kReserved;
}

bool ByteLevelTokenizer::IsEndOfGeneration(TokenId id) const {
  return std::binary_search(vocabulary_.end_of_generation.begin(), vocabulary_.end_of_generation.end(), id);
}

}  // namespace skipjack
