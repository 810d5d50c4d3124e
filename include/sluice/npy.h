// NumPy's array files: .npy, and .npz without compression.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"

namespace sluice {

enum class NpyType : uint8_t { f32, i64 };

// Writes a .npy file row by row; it appears under its name only when finish() succeeds.
class NpyWriter {
 public:
  // `shape`: slowest dimension first.
  static Result<NpyWriter> create(const std::string& path, NpyType type, std::span<const uint64_t> shape);
  NpyWriter(NpyWriter&&) noexcept;
  NpyWriter& operator=(NpyWriter&&) noexcept;
  ~NpyWriter();

  Result<void> write(std::span<const float> values);
  Result<void> write(std::span<const int64_t> values);
  // `invalid_argument` where fewer or more elements came than the shape says.
  Result<void> finish();

 private:
  struct Impl;
  explicit NpyWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The arrays of an .npz file, written at once: at most 4 GB.
class NpzWriter {
 public:
  void add(std::string_view name, std::span<const uint64_t> shape, std::span<const float> values);
  void add(std::string_view name, std::span<const uint64_t> shape, std::span<const int64_t> values);
  Result<void> write(const std::string& path);

 private:
  void add(std::string_view name, NpyType type, std::span<const uint64_t> shape, std::span<const std::byte> data);
  std::string out_, directory_;
  uint32_t n_entries_ = 0;
};

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<uint64_t> shape;
  std::vector<float> f32;  // filled by type
  std::vector<int64_t> i64;
};

// `corrupt_file` for bytes that are not such a file, `unsupported` for other element types, orders or compression.
Result<NpyArray> parse_npy(std::span<const std::byte> bytes);
Result<std::map<std::string, NpyArray>> parse_npz(std::span<const std::byte> bytes);

}  // namespace sluice
