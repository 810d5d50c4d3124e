// What the kernel tests share: things that run kernels, the buffers of one launch, and the comparison of all of them.
//
// A case is a struct with a name, a key, `run` (inputs, arguments, launch, outputs) and `expected` (the same outputs,
// computed plainly in f64). The reference must come near `expected`; every other backend, tier and number of threads
// near the reference.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "kernels/all_contracts.h"
#include "support/gguf_builder.h"

namespace sluice::test {

using backend::Grid;
using backend::KernelId;
using backend::KernelKey;
using backend::Layout;
using kernels::DevPtr;
using kernels::uint;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr uint32_t kStale = 0xfff7c0de;  // what outputs hold before a launch: a NaN, and no valid index

// Memory, and a way to run one kernel at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual bool has(const KernelKey& key) const = 0;
  virtual uint64_t allocate(size_t n_bytes) = 0;  // lives until release()
  virtual void release() = 0;
  virtual void upload(uint64_t to, std::span<const std::byte> bytes) = 0;
  virtual void download(std::span<std::byte> bytes, uint64_t from) = 0;
  virtual void launch(const KernelKey& key, Grid grid, std::span<const std::byte> args) = 0;
};

struct Subject {
  std::string name;    // "avx2, 3 threads"
  std::string family;  // "avx2": all its members must agree to the bit
  bool host_memory;    // any address of this process may be given to a kernel
  bool flushes;        // subnormal results become zero, as Vulkan allows
  std::unique_ptr<Device> device;
};

// The reference with one thread comes first.
std::span<const Subject> subjects();

// Tokens of a step as the host sees them; pages are scattered.
struct Sequence {
  uint32_t n_tokens = 1, first_pos = 0, slot = 0;
};
struct Step {
  std::vector<uint> token, pos, seq, page_table, out_token;
  std::vector<kernels::SeqSlice> seqs;
  std::vector<kernels::SamplingRule> rules;
  std::vector<kernels::Penalty> penalties;
  uint32_t n_pages = 0;

  uint32_t n_tokens() const { return static_cast<uint32_t>(pos.size()); }
  uint64_t page_of(uint64_t token_idx, uint64_t position) const {
    return page_table[seqs[seq[token_idx]].first_page + position / kernels::kPageTokens];
  }
};
Step make_step(std::span<const Sequence> sequences);
Step make_step(uint32_t n_tokens);  // one sequence from position 0

// Deterministic inputs.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(bits() % n); }
  float uniform();  // -1 .. 1
  float normal();
  std::vector<float> normals(size_t n, float scale = 1.0f);

 private:
  uint64_t state_;
};

// The buffers of one case on one device.
class Job {
 public:
  explicit Job(Device& device) : device_(device) {}
  ~Job() { device_.release(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  template <class T>
  DevPtr<T> in(const std::vector<T>& values) {
    const DevPtr<T> p{device_.allocate(values.size() * sizeof(T))};
    device_.upload(p.address, std::as_bytes(std::span(values)));
    return p;
  }
  DevPtr<uint> bytes(std::span<const std::byte> values);
  // Holds kStale in every word.
  template <class T>
  DevPtr<T> out(size_t n) {
    static_assert(sizeof(T) == sizeof(kStale));
    const DevPtr<uint> p = in(std::vector<uint>(n, kStale));
    return {p.address};
  }
  template <class T>
  std::vector<T> read(DevPtr<T> p, size_t n) {
    std::vector<T> values(n);
    device_.download(std::as_writable_bytes(std::span(values)), p.address);
    return values;
  }
  std::vector<std::byte> read_bytes(DevPtr<uint> p, size_t n) { return read(DevPtr<std::byte>{p.address}, n); }

  DevPtr<kernels::StepState> step(const Step& step);
  std::vector<uint> row_error() { return read(row_error_, n_tokens_); }

  template <class Args>
  void launch(const KernelKey& key, const Args& args, Grid grid) {
    device_.launch(key, grid, std::as_bytes(std::span(&args, 1)));
  }

 private:
  Device& device_;
  DevPtr<uint> row_error_;
  size_t n_tokens_ = 0;
};

// One output of a kernel. Integers are compared exactly, reals by their normalised mean square error; NaN equals NaN.
struct Output {
  std::string name;
  std::vector<double> reals = {};
  std::vector<uint32_t> ints = {};
  double truth_bound = 1e-10;  // of the reference against the f64 computation
  double tier_bound = 1e-10;   // of the others against the reference; 0: the same bits
  double flush_bound = 0;      // instead of tier_bound where subnormal results become zero; 0: no difference
};
using Outputs = std::vector<Output>;

std::vector<double> reals(std::span<const float> values);
std::vector<uint32_t> words(std::span<const std::byte> bytes);  // one per byte
double nmse(std::span<const double> got, std::span<const double> want);

void conform(const KernelKey& key, const std::function<Outputs(Job&)>& run, const Outputs& expected);

// Words joined by '_', as test names want them.
std::string test_name(std::string_view text);

inline uint32_t ceil_div(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

// The rows of matrix `values` of type `type` as in a file.
std::vector<float> dequantised(Type type, std::span<const std::byte> rows, size_t n_rows, size_t k);

// kernels/lib/q8.h, written a second time.
std::vector<std::byte> q8_rows(std::span<const float> x, size_t n_rows, size_t k);
std::vector<float> q8_values(std::span<const std::byte> rows, size_t n_rows, size_t k);

// kernels/lib/f16_row.h, written a second time.
std::vector<std::byte> f16_rows(std::span<const float> x, size_t n_rows, size_t k);

// Of kernels that round their operands to f16 and sum in F32.
inline constexpr double kF16Bound = 1e-6;

// Cases that share a test: a process each would take longer than the cases.
template <class Case>
struct Group {
  std::string name;
  std::vector<Case> cases;
};

template <class Case>
void PrintTo(const Group<Case>& group, std::ostream* out) {
  *out << group.name;
}

template <class Case>
void conform(const Case& c) {
  SCOPED_TRACE("case " + c.name);
  conform(
      c.key(), [&](Job& job) { return c.run(job); }, c.expected());
}
template <class Case>
KernelKey key_of(const Case& c) {
  return c.key();
}
template <class Case>
KernelKey key_of(const Group<Case>& group) {
  return group.cases.at(0).key();
}
template <class Case>
void conform(const Group<Case>& group) {
  for (const Case& c : group.cases) conform(c);
}

// Whether anything here has a kernel at all: those on cooperative matrices have no reference of their own.
bool somebody_has(const KernelKey& key);

}  // namespace sluice::test

// A test per item of `list`: cases, or groups of them. PrintTo: gtest would show bytes, which differ from run to run.
#define SLUICE_KERNEL_CASES(Name, Case, list)                                                      \
  [[maybe_unused]] inline void PrintTo(const Case& item, std::ostream* out) { *out << item.name; } \
  class Name : public ::testing::TestWithParam<Case> {};                                           \
  TEST_P(Name, conforms) { ::sluice::test::conform(GetParam()); }                                  \
  INSTANTIATE_TEST_SUITE_P(kernel, Name, ::testing::ValuesIn(list),                                \
                           [](const auto& item) { return ::sluice::test::test_name(item.param.name); })

// More of them in the same file, for kernels that not every backend has.
#define SLUICE_MATRIX_CASES(Name, Case, list)                                                         \
  class Name : public ::testing::TestWithParam<Case> {};                                              \
  TEST_P(Name, conforms) {                                                                            \
    if (!::sluice::test::somebody_has(key_of(GetParam()))) GTEST_SKIP() << "no cooperative matrices"; \
    ::sluice::test::conform(GetParam());                                                              \
  }                                                                                                   \
  INSTANTIATE_TEST_SUITE_P(kernel, Name, ::testing::ValuesIn(list),                                   \
                           [](const auto& item) { return ::sluice::test::test_name(item.param.name); })
