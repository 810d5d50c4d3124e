// The smallest interface that a device must offer: memory, and lists of launches prepared once and run many times.
// No model names a backend, and no backend names a model. One thread per Backend object.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel_id.h"
#include "lib/args.h"
#include "sluice/result.h"
#include "sluice/type.h"

namespace sluice::backend {

// How a weight's bytes lie in memory: as in the file, or repacked once at load (quant/panel.h).
enum class Layout : uint8_t { row_major, panel16 };

// Added to a variant: on cooperative matrices, f16 operands and F32 sums. Such a kernel takes x as lib/f16_row.h has
// it, its grid counts tiles of kMatrixTile, and its sums are near those of the plain kernel, not equal.
inline constexpr uint8_t kMatrixVariant = 0x80;
inline constexpr uint32_t kMatrixTile = 128;

// `variant` is 0 but for kernels whose contract says otherwise.
struct KernelKey {
  KernelId id{};
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint8_t variant = 0;
  bool operator==(const KernelKey&) const = default;
};

// What a launch is for: the rows of `sluice bench`.
enum class Stage : uint8_t { gate, experts, attention, convolution, head, rest };
inline constexpr size_t kStages = 6;
std::string_view stage_name(Stage stage);

// What a launch must move and compute; bench compares it with the device's limits. Bytes are those of weights, cache
// and state, each once: activations stay in caches. A multiply-add is two operations.
struct Cost {
  double bytes = 0;
  double int8_operations = 0;
  double f32_operations = 0;

  Cost& operator+=(const Cost& o) {
    bytes += o.bytes;
    int8_operations += o.int8_operations;
    f32_operations += o.f32_operations;
    return *this;
  }
};

// What a device does in a second at best, measured; 0: not known, or it has no such instructions.
struct Limits {
  double read_bytes = 0;
  double int8_operations = 0;
  double f32_operations = 0;
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  KernelKey key;
  Grid grid;                       // upper bound
  uint64_t grid_dev = 0;           // 0, or the address of u32[3] on the device
  bool overlaps_previous = false;  // may run at the same time as the launch before it
  Stage stage = Stage::rest;
  Cost cost;  // of a step as large as the plan allows
  alignas(8) std::byte args[128] = {};

  template <class Args>
  static Launch of(KernelKey key, const Args& args, Grid grid, Stage stage);
};

// host_weights: weights in host memory that kernels read in place. staging: small, written by the host before each
// step. readback: small, read by the host after it.
enum class Use : uint8_t { weights, host_weights, activations, cache, staging, readback };

struct Caps {
  std::string name;    // "cpu"
  std::string device;  // what people call it
  uint64_t memory_bytes = 0;
  uint64_t max_allocation_bytes = 0;  // 0: no limit but the memory's
  uint32_t subgroup = 1;
  // Thousands of threads: attention of few tokens is split over the cache; products of few rows are fused, while those
  // of many are faster in parts.
  bool wide = false;
  bool deterministic = false;  // asked for: sums do not depend on how many rows are computed together
  bool unified = false;        // device memory is host memory: adopt() works
  std::string isa;             // CPU: the tier in use
  uint32_t n_threads = 1;      // CPU
  bool reference = false;      // only the plain F32 kernels
};

// What can still be allocated.
struct FreeMemory {
  uint64_t device = 0;
  uint64_t host = 0;      // for Use::host_weights
  bool one_heap = false;  // what the device takes is missing in `host`
};

// Device memory. Frees itself; must not outlive its Backend.
class Buffer {
 public:
  Buffer() = default;
  Buffer(uint64_t address, size_t n_bytes, std::shared_ptr<void> owner)
      : address_(address), n_bytes_(n_bytes), owner_(std::move(owner)) {}
  uint64_t address() const { return address_; }
  size_t size() const { return n_bytes_; }
  explicit operator bool() const { return address_ != 0; }

 private:
  uint64_t address_ = 0;
  size_t n_bytes_ = 0;
  std::shared_ptr<void> owner_;
};

class Plan {
 public:
  virtual ~Plan() = default;
};

struct Ticket {
  uint64_t id = 0;
};

// Counted since the backend was made. Per generated token only the sampled id, or the logits, may be read back.
struct Counters {
  uint64_t host_reads = 0;
  uint64_t host_read_bytes = 0;
  uint64_t submits = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const Caps& caps() const = 0;
  // Nothing where device memory is the host's, or the device does not tell.
  virtual std::optional<FreeMemory> free_memory() const { return std::nullopt; }
  virtual Result<Buffer> allocate(size_t n_bytes, Use use) = 0;
  // Device memory that is these bytes, without a copy; `unsupported` where the device cannot. The bytes outlive the
  // Buffer.
  virtual Result<Buffer> adopt(std::span<const std::byte> bytes, Use use) = 0;
  virtual Result<void> upload(uint64_t destination, std::span<const std::byte> bytes) = 0;
  virtual Result<void> download(std::span<std::byte> bytes, uint64_t source) = 0;  // waits; counted
  virtual Result<void> copy(uint64_t destination, uint64_t source,
                            size_t n_bytes) = 0;     // on the device, after earlier runs
  virtual bool has(const KernelKey& key) const = 0;  // the code exists and this device runs it
  virtual Result<std::unique_ptr<Plan>> prepare(std::span<const Launch> launches) = 0;
  virtual Ticket run(Plan& plan) = 0;  // enqueues a whole step; cannot fail
  virtual Result<void> wait(Ticket ticket) = 0;
  virtual Counters counters() const = 0;
  // Seconds spent per stage by the steps since the last call, where profiling is on; else empty.
  virtual void profile(bool on) = 0;
  virtual std::vector<double> stage_seconds() = 0;
  // With the threads and instructions in use; takes up to a second and memory of its own meanwhile.
  virtual Limits measure_limits() { return {}; }
};

// What of() was given.
template <class Args>
Args args_of(const Launch& launch) {
  Args args;
  __builtin_memcpy(&args, launch.args, sizeof(Args));
  return args;
}

template <class Args>
Launch Launch::of(KernelKey key, const Args& args, Grid grid, Stage stage) {
  static_assert(sizeof(Args) <= sizeof(Launch::args));
  Launch launch;
  launch.key = key;
  launch.grid = grid;
  launch.stage = stage;
  __builtin_memcpy(launch.args, &args, sizeof(Args));
  return launch;
}

}  // namespace sluice::backend
