// Random weights in every source type, packed; the same weights as doubles; and the kernel tables to test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {

// 64-byte aligned, zeroed memory.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

// A level to test, by the name that shows in test names. The list holds what this machine can run.
struct Level {
  std::string name;
  const KernelTable* table;
};
const std::vector<Level>& TestedLevels();
std::ostream& operator<<(std::ostream& stream, const Level& level);

const std::vector<SourceType>& AllSourceTypes();
std::string TypeName(SourceType type);

enum class Fill { kRandom, kLargestCodes, kSmallestCodes };

// Source blocks as a model file holds them, with scales around 2^-4.
std::vector<std::byte> MakeBlocks(SourceType type, std::int64_t rows, std::int64_t columns, Fill fill,
                                  unsigned seed);

// A packed matrix and the values it stands for.
class TestMatrix {
 public:
  TestMatrix(SourceType type, Precision precision, std::int64_t rows, std::int64_t columns,
             Fill fill = Fill::kRandom, unsigned seed = 1);
  const PackedMatrix& packed() const { return packed_; }
  double Value(std::int64_t row, std::int64_t column) const {
    return values_[static_cast<std::size_t>(row * packed_.columns + column)];
  }

 private:
  PackedMatrix packed_;
  std::vector<double> values_;
  AlignedBytes memory_;
};

// `rows` x `columns` floats, and the same as the kernels take them.
class TestActivations {
 public:
  TestActivations(const KernelTable& table, ActivationKind kind, std::int64_t rows, std::int64_t columns,
                  std::vector<float> values);
  const Activations& view() const { return view_; }
  float Original(std::int64_t row, std::int64_t column) const {
    return values_[static_cast<std::size_t>(row * columns_ + column)];
  }
  // What the quantised code stands for.
  double Value(std::int64_t row, std::int64_t column) const;

 private:
  std::int64_t columns_;
  std::vector<float> values_;
  AlignedBytes memory_;
  Activations view_;
};

std::vector<float> RandomFloats(std::size_t count, unsigned seed, float scale = 1.0f);

}  // namespace skipjack::kernels
