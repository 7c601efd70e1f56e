#include "tests/unit/text/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long long> live{0};
std::atomic<long long> peak{0};
std::atomic<long long> allocations{0};

void* Allocate(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const long long now = live += static_cast<long long>(malloc_usable_size(memory));
  peak = std::max(peak.load(), now);
  ++allocations;
  return memory;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  live -= static_cast<long long>(malloc_usable_size(memory));
  std::free(memory);
}

long long live_at_start = 0;

}  // namespace

void* operator new(std::size_t size) {
  return Allocate(size);
}
void* operator new[](std::size_t size) {
  return Allocate(size);
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Allocate(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Allocate(size);
}
void operator delete(void* memory) noexcept {
  Free(memory);
}
void operator delete[](void* memory) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  Free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  Free(memory);
}

namespace skipjack {

void StartMeasuringMemory() {
  live_at_start = live;
  peak = live.load();
  allocations = 0;
}

MeasuredMemory StopMeasuringMemory() {
  return {static_cast<std::size_t>(peak - live_at_start), static_cast<std::size_t>(allocations)};
}

}  // namespace skipjack
