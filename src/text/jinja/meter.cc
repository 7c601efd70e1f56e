#include "text/jinja/meter.h"

#include <algorithm>
#include <string>

#include "text/jinja/failure.h"

namespace skipjack::jinja {

Meter::Meter(const TemplateLimits& limits)
    : limits_(limits), memory_left_(limits.memory_bytes), text_bytes_(limits.output_bytes) {
  limits_.steps = std::max<std::int64_t>(limits_.steps, 0);
  steps_left_ = static_cast<std::uint64_t>(limits_.steps);
}

void Meter::OutOfSteps() const {
  throw Failure(Status::ResourceExhausted("the chat template took more than " +
                                          std::to_string(limits_.steps) + " steps"));
}

void Meter::OutOfMemory() const {
  throw Failure(Status::ResourceExhausted("the chat template made values of more than " +
                                          std::to_string(limits_.memory_bytes) + " bytes altogether"));
}

void Meter::TextTooLong() const {
  throw Failure(Status::ResourceExhausted("the chat template made a text of more than " +
                                          std::to_string(limits_.output_bytes) + " bytes"));
}

}  // namespace skipjack::jinja
