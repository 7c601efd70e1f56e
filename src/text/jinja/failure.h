// How an evaluation or a parse ends early.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/status.h"

namespace skipjack::jinja {

// Caught where the module's border is (chat_template.cc) and nowhere else.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  explicit Failure(std::string message) : Failure(Status::InvalidArgument(std::move(message))) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

}  // namespace skipjack::jinja
