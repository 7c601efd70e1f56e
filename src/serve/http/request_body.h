// The body of a request: its bytes count against what all bodies may hold together, from their arrival until
// they have been read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "serve/byte_budget.h"

namespace skipjack::http {

// Used by one thread at a time: the connection's while it arrives, then by whoever reads it.
class RequestBody {
 public:
  explicit RequestBody(std::shared_ptr<ByteBudget> budget) : share_(std::move(budget)) {}

  // False, with nothing appended, when the budget has not that much left.
  bool Append(std::string_view data) {
    if (!share_.Grow(static_cast<std::int64_t>(data.size()))) return false;
    text_.append(data);
    return true;
  }
  std::string_view text() const { return text_; }
  std::size_t size() const { return text_.size(); }

  // Lets the bytes go: nobody reads them again.
  void Drop() {
    text_ = std::string();
    share_.Release();
  }

 private:
  std::string text_;
  ByteShare share_;
};

}  // namespace skipjack::http
