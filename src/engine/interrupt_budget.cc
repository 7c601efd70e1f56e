#include "engine/interrupt_budget.h"

#include <algorithm>

namespace skipjack {

double InterruptBudget::LostAt(TimePoint now) const {
  return std::max(lost_seconds_ - max_part_ * ToSeconds(now - lost_at_), 0.0);
}

bool InterruptBudget::Allows(TimePoint now) const {
  if (max_part_ <= 0 || in_a_row_ >= kMostInARow) return false;
  return LostAt(now) <= max_part_ * ToSeconds(kAllowance);
}

void InterruptBudget::NoteDropped(Duration lost, TimePoint now) {
  ++in_a_row_;
  lost_seconds_ = LostAt(now) + ToSeconds(lost);
  lost_at_ = now;
}

}  // namespace skipjack
