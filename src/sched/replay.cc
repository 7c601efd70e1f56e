#include <algorithm>
#include <charconv>
#include <istream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sched/recording.h"
#include "sched/recording_config.h"

namespace skipjack {
namespace {

// The words of one line, taken one by one. After the first that is missing or wrong all others are, too.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) { SkipBlanks(); }

  bool good() const { return good_; }
  bool empty() const { return rest_.empty(); }

  std::string_view Word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    SkipBlanks();
    good_ &= !word.empty();
    return word;
  }

  template <typename Value>
  void Take(Value* value) {
    Read(Word(), value);
  }
  template <typename Value>
  Value Take() {
    Value value{};
    Take(&value);
    return value;
  }
  std::optional<TimePoint> TakeOptional() {
    TimePoint time;
    const std::string_view word = Word();
    if (word == "-") return std::nullopt;
    Read(word, &time);
    return time;
  }
  std::string TakeHex() {
    std::string_view word = Word();
    std::string bytes;
    if (word == "-") return bytes;
    good_ &= word.size() % 2 == 0;
    for (; good_ && !word.empty(); word.remove_prefix(2)) {
      int byte = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + 2, byte, 16);
      good_ &= error == std::errc() && end == word.data() + 2;
      bytes += static_cast<char>(byte);
    }
    return bytes;
  }

  void Read(std::string_view word, std::string* value) { *value = word; }
  void Read(std::string_view word, Duration* value) {
    std::int64_t count = 0;
    Read(word, &count);
    *value = Duration(count);
  }
  void Read(std::string_view word, TimePoint* value) {
    Duration since{};
    Read(word, &since);
    *value = TimePoint(since);
  }
  void Read(std::string_view word, bool* value) {
    good_ &= word == "0" || word == "1";
    *value = word == "1";
  }
  void Read(std::string_view word, SwapMode* value) { ReadEnum(word, SwapMode::kProactive, value); }
  void Read(std::string_view word, PriorityClass* value) { ReadEnum(word, PriorityClass::kBatch, value); }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void Read(std::string_view word, Number* value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    good_ &= error == std::errc() && end == word.data() + word.size();
  }

 private:
  void SkipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  template <typename Enum>
  void ReadEnum(std::string_view word, Enum last, Enum* value) {
    int number = -1;
    Read(word, &number);
    good_ &= number >= 0 && number <= static_cast<int>(last);
    if (good_) *value = static_cast<Enum>(number);
  }

  std::string_view rest_;
  bool good_ = true;
};

bool ReadConfig(Words words, SchedulerConfig* config) {
  bool known = true;
  std::size_t fields = 0;
  std::vector<std::string_view> seen;
  while (words.good() && !words.empty()) {
    const std::string_view word = words.Word();
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = word.substr(0, equals);
    bool found = false;
    fields = 0;
    VisitConfig(*config, [&](std::string_view name, auto& value) {
      ++fields;
      if (name != key) return;
      found = true;
      words.Read(word.substr(equals + 1), &value);
    });
    known &= found && std::ranges::find(seen, key) == seen.end();
    seen.push_back(key);
  }
  return known && words.good() && fields > 0 && seen.size() == fields;
}

class Replay {
 public:
  explicit Replay(std::istream* in) : in_(*in) {}

  Result<ReplayReport> Run() {
    std::string line;
    for (std::uint64_t number = 1; std::getline(in_, line); ++number) {
      // A daemon that was killed leaves half a line.
      if (in_.eof()) break;
      if (!Do(Words(line))) {
        return refused_.ok() ? Status::InvalidArgument("line " + std::to_string(number) +
                                                       " is no part of a recording of this version")
                             : refused_;
      }
      if (report_.differs_at.has_value()) break;
    }
    if (scheduler_ == nullptr) return Status::InvalidArgument("the recording is empty");
    report_.stats = scheduler_->Stats();
    return report_;
  }

 private:
  bool Do(Words words) {
    const std::string_view call = words.Word();
    if (call == "config") return scheduler_ == nullptr && Make(words);
    if (scheduler_ == nullptr) return false;
    if (call == "submit") return Submit(words);
    if (call == "cancel") {
      const auto sequence = words.Take<SequenceId>();
      if (!words.good()) return false;
      scheduler_->Cancel(sequence);
      return true;
    }
    if (call == "plan") return Plan(words);
    return call == "complete" && Complete(words);
  }

  bool Make(Words words) {
    SchedulerConfig config;
    if (!ReadConfig(words, &config)) return false;
    Result<std::unique_ptr<Scheduler>> scheduler = Scheduler::Create(config);
    if (scheduler.ok()) {
      scheduler_ = *std::move(scheduler);
    } else {
      refused_ = scheduler.status();
    }
    return scheduler_ != nullptr;
  }

  bool Submit(Words words) {
    SubmitRequest request;
    words.Take(&request.sequence);
    words.Take(&request.max_tokens);
    words.Take(&request.priority);
    words.Take(&request.arrival);
    request.deadline = words.TakeOptional();
    request.cache_salt = words.TakeHex();
    request.tenant = words.TakeHex();
    while (words.good() && !words.empty()) request.prompt.push_back(words.Take<TokenId>());
    if (!words.good()) return false;
    ++report_.sequences;
    // What was refused then is refused now.
    (void)scheduler_->Submit(std::move(request));
    return true;
  }

  bool Plan(Words words) {
    const auto now = words.Take<TimePoint>();
    const auto hash = words.Take<std::uint64_t>();
    if (!words.good()) return false;
    scheduler_->Plan(now, &plan_);
    if (plan_.Hash() != hash) report_.differs_at = plan_.step;
    if (!plan_.empty()) ++report_.plans;
    return true;
  }

  bool Complete(Words words) {
    const auto now = words.Take<TimePoint>();
    words.Take(&result_.step);
    words.Take(&result_.failed);
    words.Take(&result_.dropped);
    words.Take(&result_.host_copy_seconds);
    words.Take(&result_.disk_copy_seconds);
    const auto outcomes = words.Take<std::size_t>();
    result_.outcomes.clear();
    for (std::size_t i = 0; i < outcomes && words.good(); ++i) {
      SliceOutcome& outcome = result_.outcomes.emplace_back();
      words.Take(&outcome.sequence);
      words.Take(&outcome.token);
      words.Take(&outcome.finished);
      words.Take(&outcome.tainted);
    }
    result_.failed_copies.clear();
    while (words.good() && !words.empty()) result_.failed_copies.push_back(words.Take<BlockId>());
    if (!words.good()) return false;
    scheduler_->Complete(result_, now);
    return true;
  }

  std::istream& in_;
  std::unique_ptr<Scheduler> scheduler_;
  Status refused_;
  StepPlan plan_;
  StepResult result_;
  ReplayReport report_;
};

}  // namespace

Result<ReplayReport> ReplayRecording(std::istream* in) {
  return Replay(in).Run();
}

}  // namespace skipjack
