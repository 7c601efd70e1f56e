#include "model/architecture.h"

#include <array>

#include "model/gguf_errors.h"

namespace skipjack {
namespace {

constexpr std::array kArchitectures{
    Architecture{"llama", ReadLlamaConfig, ListLlamaTensors},
};

}  // namespace

std::span<const Architecture> KnownArchitectures() {
  return kArchitectures;
}

Result<const Architecture*> FindArchitecture(std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    if (!known.empty()) known += ", ";
    known += architecture.name;
  }
  return Status::Unimplemented("the architecture " + Quoted(name) + " is not supported (supported: " + known +
                               ")");
}

}  // namespace skipjack
