// The `loop` object of one for statement.
#pragma once

#include <cstddef>
#include <memory>

#include "text/jinja/value.h"

namespace skipjack::jinja {

// One object for all rounds, brought up to date at the beginning of each, as Jinja has it.
class LoopState {
 public:
  // `items` must outlive it.
  LoopState(Meter& meter, const List& items);

  Value Object() const {
    return Value::MakeNamespace({.attributes = attributes_, .height = height_, .writable = false});
  }
  void BeginRound(std::size_t index);

 private:
  const List& items_;
  std::shared_ptr<Dict> attributes_ = std::make_shared<Dict>();
  std::shared_ptr<std::size_t> round_ = std::make_shared<std::size_t>(0);
  int height_;
};

}  // namespace skipjack::jinja
