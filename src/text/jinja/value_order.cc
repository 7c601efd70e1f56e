// Equality and order of values. Both recurse as deep as values nest, which is bounded.
#include <algorithm>

#include "text/jinja/value.h"

namespace skipjack::jinja {
namespace {

bool EqualLists(Meter& meter, const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!Equal(meter, a[i], b[i])) return false;
  }
  return true;
}

bool EqualDicts(Meter& meter, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const Pair& entry : a.entries) {
    const Value* other = b.Find(meter, entry.first);
    if (other == nullptr || !Equal(meter, entry.second, *other)) return false;
  }
  return true;
}

// 1, 0 or -1.
template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : static_cast<int>(a > b);
}

int CompareLists(Meter& meter, const List& a, const List& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const int order = Compare(meter, a[i], b[i]); order != 0) return order;
  }
  return Order(a.size(), b.size());
}

}  // namespace

bool Equal(Meter& meter, const Value& a, const Value& b) {
  meter.Step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.is_text() && b.is_text()) {
    if (a.bytes().size() != b.bytes().size()) return false;
    meter.Read(a.bytes().size());
    return a.bytes() == b.bytes();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_list() && b.is_list())
    return a.is_tuple() == b.is_tuple() && EqualLists(meter, a.list(), b.list());
  return a.is_dict() && b.is_dict() && EqualDicts(meter, a.dict(), b.dict());
}

int Compare(Meter& meter, const Value& a, const Value& b) {
  meter.Step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return Order(a.integer(), b.integer());
    return Order(a.number(), b.number());
  }
  // UTF-8 sorts bytewise as its code points do.
  if (a.is_text() && b.is_text()) {
    meter.Read(std::min(a.bytes().size(), b.bytes().size()));
    return Order(a.bytes().compare(b.bytes()), 0);
  }
  if (a.is_list() && b.is_list()) return CompareLists(meter, a.list(), b.list());
  throw Failure(std::string("values of type ") + a.TypeName() + " and " + b.TypeName() + " have no order");
}

}  // namespace skipjack::jinja
