// Matrix products per level, format, shape and number of rows: MAC per core cycle and bytes of weights per
// second.
//
//   gemm_bench --benchmark_filter='avx2/Q4_1/.*/M:8$'
//
// Shapes are SmolLM2-135M's; "cold" runs walk over enough copies of the matrix to leave every cache, which is
// what a decode step of a real model does; the others show the kernel itself.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {
namespace {

double NowNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Core cycles per nanosecond, from a chain of dependent additions (one cycle each). Like all figures here it
// is the best of many short runs: on a shared machine the others measure the neighbours.
double CyclesPerNanosecond() {
  constexpr int kSteps = 100'000;
  double best = 0.0;
  for (int run = 0; run < 400; ++run) {
    const double start = NowNanoseconds();
    std::uint64_t value = 1;
    for (int i = 0; i < kSteps / 4; ++i) {
      __asm__ volatile("add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
                       : "+r"(value)
                       : "r"(std::uint64_t{1}));
    }
    best = std::max(best, kSteps / (NowNanoseconds() - start));
  }
  return best;
}

struct FreeBytes {
  void operator()(std::byte* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, FreeBytes>;

Bytes Allocate(std::size_t size) {
  constexpr std::size_t kHugePage = 2 << 20;
  size = (size + kHugePage - 1) / kHugePage * kHugePage;
  return Bytes(static_cast<std::byte*>(std::aligned_alloc(kHugePage, size)));
}

struct Case {
  const KernelTable* table;
  SourceType type;
  Precision precision;
  std::int64_t rows, columns;
  int batch;
  bool cold;
};

constexpr std::size_t kColdBytes = 256u << 20;

void RunCase(benchmark::State& state, const Case& c) {
  static const double cycles_per_ns = CyclesPerNanosecond();
  PackedMatrix matrix;
  matrix.format = *FormatFor(c.type, c.precision);
  matrix.rows = c.rows;
  matrix.columns = c.columns;
  matrix.panel_bytes = PanelBytes(matrix.format, c.columns);
  const std::size_t bytes = PackedBytes(matrix.format, c.rows, c.columns);
  const std::size_t copies = c.cold ? kColdBytes / bytes + 1 : 1;
  const Bytes weights = Allocate(bytes * copies);
  std::memset(weights.get(), 0x11, bytes * copies);

  const ActivationKind kind = c.table->ActivationFor(matrix.format);
  const std::size_t row_bytes = ActivationRowBytes(kind, c.columns);
  const Bytes x = Allocate(row_bytes * static_cast<std::size_t>(c.batch));
  std::vector<float> values(static_cast<std::size_t>(c.columns * c.batch));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& v : values) v = normal(random);
  QuantizeRows(*c.table, kind, values.data(), c.batch, c.columns, c.columns, x.get(), row_bytes);
  std::vector<float> out(static_cast<std::size_t>(c.rows * c.batch));

  LinearArgs args;
  args.weights = &matrix;
  args.activations = {kind, x.get(), row_bytes};
  args.rows = c.batch;
  args.panel_count = matrix.panels();
  args.out = out.data();
  args.out_stride = c.rows;
  std::size_t copy = 0;
  double ns = std::numeric_limits<double>::infinity();  // of the fastest run
  for (auto _ : state) {
    matrix.data = weights.get() + copy * bytes;
    copy = copy + 1 == copies ? 0 : copy + 1;
    const double start = NowNanoseconds();
    c.table->linear(args);
    ns = std::min(ns, NowNanoseconds() - start);
    benchmark::ClobberMemory();
  }
  const double macs = static_cast<double>(c.rows * c.columns) * c.batch;
  state.counters["MAC/cycle"] = macs / (ns * cycles_per_ns);
  state.counters["GMAC/s"] = macs / ns;
  state.counters["GB/s"] = static_cast<double>(bytes) / ns;
}

struct NamedType {
  const char* name;
  SourceType type;
  Precision precision;
};
constexpr NamedType kTypes[] = {
    {"Q4_0", SourceType::kQ4_0, Precision::kInt8},   {"Q4_1", SourceType::kQ4_1, Precision::kInt8},
    {"Q4_K", SourceType::kQ4_K, Precision::kInt8},   {"Q5_0", SourceType::kQ5_0, Precision::kInt8},
    {"Q5_K", SourceType::kQ5_K, Precision::kInt8},   {"Q6_K", SourceType::kQ6_K, Precision::kInt8},
    {"Q2_K", SourceType::kQ2_K, Precision::kInt8},   {"Q3_K", SourceType::kQ3_K, Precision::kInt8},
    {"Q8_0", SourceType::kQ8_0, Precision::kInt8},   {"IQ4_NL", SourceType::kIQ4_NL, Precision::kInt8},
    {"MXFP4", SourceType::kMXFP4, Precision::kInt8}, {"F16", SourceType::kF16, Precision::k16Bit},
    {"BF16", SourceType::kBF16, Precision::k16Bit},  {"F32", SourceType::kF32, Precision::kF32},
};

void Register(IsaLevel level, const NamedType& type, std::int64_t rows, std::int64_t columns, int batch,
              bool cold) {
  const std::string name = std::string(IsaName(level)) + "/" + type.name + "/" + std::to_string(rows) + "x" +
                           std::to_string(columns) + (cold ? "/cold" : "") + "/M:" + std::to_string(batch);
  const Case c{Select(level), type.type, type.precision, rows, columns, batch, cold};
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) {
    RunCase(state, c);
  })->MinTime(0.05);
}

void RegisterAll() {
  constexpr std::int64_t kShapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}, {2048, 2048}, {49152, 576}};
  for (IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    if (!IsSupported(level)) continue;
    for (const NamedType& type : kTypes) {
      for (const auto& shape : kShapes) {
        if (shape[1] % SourceBlockElements(type.type) != 0) continue;
        for (int batch : {1, 2, 4, 8, 32, 512}) Register(level, type, shape[0], shape[1], batch, false);
        for (int batch : {1, 8}) Register(level, type, shape[0], shape[1], batch, true);
      }
    }
  }
}

}  // namespace
}  // namespace skipjack::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  skipjack::kernels::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
