#include "text/jinja/loop_state.h"

#include <array>
#include <utility>

namespace skipjack::jinja {
namespace {

Value Number(std::size_t value) {
  return Value(static_cast<std::int64_t>(value));
}

// In the order of the values below; those of a round come first.
const std::array<Value, 12>& Names() {
  const auto text = [](const char* name) { return Value::MakeText(name, true); };
  static const std::array<Value, 12> names = {
      text("index"),    text("index0"),   text("first"), text("last"),   text("revindex"), text("revindex0"),
      text("previtem"), text("nextitem"), text("cycle"), text("length"), text("depth"),    text("depth0")};
  return names;
}

}  // namespace

LoopState::LoopState(Meter& meter, const List& items) : items_(items), height_(HeightOver(items)) {
  meter.GrowItems(2 * Names().size());
  if (height_ > Value::kMaxHeight) throw Failure("the items of a loop are nested too deeply");
  for (const Value& name : Names()) attributes_->entries.emplace_back(name, Value());
  auto* value = &attributes_->entries[8];
  (value++)->second = Value::MakeFunction([round = round_](Interpreter&, const Arguments& arguments) {
    if (arguments.positional.empty()) throw Failure("loop.cycle needs at least one value");
    return arguments.positional[*round % arguments.positional.size()];
  });
  (value++)->second = Number(items.size());
  (value++)->second = Number(1);
  (value++)->second = Number(0);
}

void LoopState::BeginRound(std::size_t index) {
  const std::size_t count = items_.size();
  *round_ = index;
  auto* value = attributes_->entries.data();
  (value++)->second = Number(index + 1);
  (value++)->second = Number(index);
  (value++)->second = Value(index == 0);
  (value++)->second = Value(index + 1 == count);
  (value++)->second = Number(count - index);
  (value++)->second = Number(count - index - 1);
  (value++)->second = index > 0 ? items_[index - 1] : Value::MakeUndefined("loop.previtem");
  (value++)->second = index + 1 < count ? items_[index + 1] : Value::MakeUndefined("loop.nextitem");
}

}  // namespace skipjack::jinja
