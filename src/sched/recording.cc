#include "sched/recording.h"

#include <array>
#include <charconv>
#include <ostream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sched/recording_config.h"

namespace skipjack {
namespace {

class Line {
 public:
  explicit Line(std::string_view call) : text_(call) {}

  template <typename Value>
  Line& operator<<(const Value& value) {
    text_ += ' ';
    Put(value);
    return *this;
  }
  template <typename Value>
  void Named(std::string_view name, const Value& value) {
    text_ += ' ';
    text_ += name;
    text_ += '=';
    Put(value);
  }
  // Bytes, in hexadecimal.
  Line& Hex(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text_ += bytes.empty() ? " -" : " ";
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      text_ += kDigits[byte >> 4];
      text_ += kDigits[byte & 15];
    }
    return *this;
  }
  void WriteTo(std::ostream* out) {
    text_ += '\n';
    *out << text_;
  }

 private:
  void Put(const std::string& value) { text_ += value; }
  void Put(Duration value) { Put(value.count()); }
  void Put(TimePoint value) { Put(value.time_since_epoch().count()); }
  void Put(bool value) { text_ += value ? '1' : '0'; }
  void Put(SwapMode value) { Put(static_cast<int>(value)); }
  void Put(PriorityClass value) { Put(static_cast<int>(value)); }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void Put(Number value) {
    std::array<char, 32> buffer;
    text_.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
  }

  std::string text_;
};

class Recorder final : public Scheduler {
 public:
  Recorder(std::unique_ptr<Scheduler> scheduler, const SchedulerConfig& config,
           std::unique_ptr<std::ostream> out)
      : scheduler_(std::move(scheduler)), out_(std::move(out)) {
    Line line("config");
    VisitConfig(config, [&](std::string_view name, const auto& value) { line.Named(name, value); });
    line.WriteTo(out_.get());
  }

  Status Submit(SubmitRequest request) override {
    Line line("submit");
    line << request.sequence << request.max_tokens << request.priority << request.arrival;
    if (request.deadline.has_value()) {
      line << *request.deadline;
    } else {
      line << std::string("-");
    }
    line.Hex(request.cache_salt).Hex(request.tenant);
    for (const TokenId token : request.prompt) line << token;
    line.WriteTo(out_.get());
    return scheduler_->Submit(std::move(request));
  }

  void Cancel(SequenceId sequence) override {
    (Line("cancel") << sequence).WriteTo(out_.get());
    scheduler_->Cancel(sequence);
  }

  void Plan(TimePoint now, StepPlan* plan) override {
    scheduler_->Plan(now, plan);
    (Line("plan") << now << plan->Hash()).WriteTo(out_.get());
  }

  void Complete(const StepResult& result, TimePoint now) override {
    Line line("complete");
    line << now << result.step << result.failed << result.dropped << result.host_copy_seconds
         << result.disk_copy_seconds << result.outcomes.size();
    for (const SliceOutcome& outcome : result.outcomes)
      line << outcome.sequence << outcome.token << outcome.finished << outcome.tainted;
    for (const BlockId block : result.failed_copies) line << block;
    line.WriteTo(out_.get());
    scheduler_->Complete(result, now);
  }

  std::optional<SequenceState> Find(SequenceId sequence) const override { return scheduler_->Find(sequence); }
  std::optional<SequenceExplanation> Explain(SequenceId sequence, TimePoint now) const override {
    return scheduler_->Explain(sequence, now);
  }
  std::optional<SequenceId> FirstWaiting() const override { return scheduler_->FirstWaiting(); }
  SchedulerStats Stats() const override { return scheduler_->Stats(); }
  LatencyCoefficients Latency() const override { return scheduler_->Latency(); }
  std::optional<Duration> ExpectedTime() const override { return scheduler_->ExpectedTime(); }
  bool admits_between_steps() const override { return scheduler_->admits_between_steps(); }
  std::string DebugString() const override { return scheduler_->DebugString(); }

 private:
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<std::ostream> out_;
};

}  // namespace

std::unique_ptr<Scheduler> RecordScheduler(std::unique_ptr<Scheduler> scheduler,
                                           const SchedulerConfig& config, std::unique_ptr<std::ostream> out) {
  return std::make_unique<Recorder>(std::move(scheduler), config, std::move(out));
}

}  // namespace skipjack
