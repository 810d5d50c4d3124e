// Everything that a kernel case runs on.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <new>
#include <thread>

#include "backend/cpu/simd/tiers.h"
#include "backend/cpu/worker.h"
#include "backend/registry.h"
#include "support/gpu.h"
#include "support/kernel_case.h"

namespace sluice::test {
namespace {

namespace cpu = backend::cpu;

constexpr uint32_t kThreads[] = {1, 2, 3, 7}, kMostThreads = 7;

constexpr cpu::KernelFn kReference[] = {
#define SLUICE_KERNEL(name, Args, quant) &cpu::call<kernels::Args, &cpu::reference::name>,
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
};

// Memory in blocks of exactly the size asked for, so that a sanitizer sees every step outside.
class HostBlocks {
 public:
  uint64_t allocate(size_t n_bytes) {
    blocks_.emplace_back(static_cast<std::byte*>(::operator new (n_bytes, std::align_val_t{64})));
    return reinterpret_cast<uint64_t>(blocks_.back().get());
  }
  void clear() { blocks_.clear(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
};

// Kernel functions called by plain threads: no pool, no plan.
class KernelDevice final : public Device {
 public:
  KernelDevice(cpu::Tier tier, uint32_t n_threads) : tier_(tier), n_threads_(n_threads) {}

  bool has(const KernelKey& key) const override { return find(key) != nullptr; }
  uint64_t allocate(size_t n_bytes) override { return memory_.allocate(n_bytes); }
  void release() override { memory_.clear(); }
  void upload(uint64_t to, std::span<const std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
  }
  void download(std::span<std::byte> bytes, uint64_t from) override {
    if (!bytes.empty()) std::memcpy(bytes.data(), reinterpret_cast<const void*>(from), bytes.size());
  }

  void launch(const KernelKey& key, Grid, std::span<const std::byte> args) override {
    alignas(8) std::byte copy[128];
    std::memcpy(copy, args.data(), args.size());
    const cpu::KernelFn fn = find(key);
    std::atomic<uint64_t> next{0};
    const auto work = [&](uint32_t idx) {
      cpu::Worker worker(key, idx, n_threads_, next, std::span(scratch_of(idx), cpu::kScratchBytes));
      fn(copy, worker);
    };
    std::vector<std::jthread> threads;
    for (uint32_t idx = 1; idx < n_threads_; ++idx) threads.emplace_back(work, idx);
    work(0);
  }

 private:
  // Shared by all devices, whose launches never overlap; NaN in whatever is read before it is written.
  static std::byte* scratch_of(uint32_t idx) {
    static HostBlocks blocks;
    static const std::vector<std::byte*> kScratch = [] {
      std::vector<std::byte*> all;
      for (uint32_t i = 0; i < kMostThreads; ++i) {
        all.push_back(reinterpret_cast<std::byte*>(blocks.allocate(cpu::kScratchBytes)));
        std::memset(all.back(), 0xff, cpu::kScratchBytes);
      }
      return all;
    }();
    return kScratch[idx];
  }

  cpu::KernelFn find(const KernelKey& key) const {
    if ((key.variant & backend::kMatrixVariant) != 0) return nullptr;
    if (tier_ == cpu::Tier::scalar) return kReference[static_cast<size_t>(key.id)];
    for (const cpu::TierKernel& kernel : cpu::kernels_of(tier_)) {
      if (kernel.key == key) return kernel.fn;
    }
    return nullptr;
  }

  cpu::Tier tier_;
  uint32_t n_threads_;
  HostBlocks memory_;
};

// A whole backend, one launch per plan.
class BackendDevice final : public Device {
 public:
  explicit BackendDevice(std::unique_ptr<backend::Backend> backend) : backend_(std::move(backend)) {}

  bool has(const KernelKey& key) const override { return backend_->has(key); }
  uint64_t allocate(size_t n_bytes) override {
    auto buffer = backend_->allocate(std::max<size_t>(n_bytes, 1), backend::Use::activations);
    if (!buffer) throw std::bad_alloc();
    buffers_.push_back(std::move(*buffer));
    return buffers_.back().address();
  }
  void release() override { buffers_.clear(); }
  void upload(uint64_t to, std::span<const std::byte> bytes) override { require(backend_->upload(to, bytes)); }
  void download(std::span<std::byte> bytes, uint64_t from) override { require(backend_->download(bytes, from)); }

  void launch(const KernelKey& key, Grid grid, std::span<const std::byte> args) override {
    backend::Launch launch;
    launch.key = key;
    launch.grid = grid;
    std::memcpy(launch.args, args.data(), args.size());
    auto plan = backend_->prepare(std::span(&launch, 1));
    if (!plan) FAIL() << plan.error().message;
    require(backend_->wait(backend_->run(**plan)));
  }

 private:
  static void require(const Result<void>& result) { ASSERT_TRUE(result.has_value()); }

  std::unique_ptr<backend::Backend> backend_;
  std::vector<backend::Buffer> buffers_;
};

// Whether 2^-127 + 0 is zero there.
bool flushes_subnormals(Device& device) {
  Job job(device);
  const kernels::AddArgs args{.y = job.out<float>(1),
                              .a = job.in(std::vector<float>{0x1p-127f}),
                              .b = job.in(std::vector<float>{0.0f}),
                              .step = job.step(make_step(1)),
                              .rows = {kernels::kRowsOfTokens, 1},
                              .n = 1,
                              .b_is_row = 0};
  job.launch({.id = KernelId::add}, args, {1, 1, 1});
  return job.read(args.y, 1)[0] == 0;
}

std::vector<Subject> make_subjects() {
  std::vector<Subject> all;
  for (const cpu::Tier tier : cpu::tiers()) {
    const std::string family(tier == cpu::Tier::scalar ? "reference" : cpu::tier_name(tier));
    for (const uint32_t n : kThreads) {
      all.push_back({.name = fmt::format("{} with {} threads", family, n),
                     .family = family,
                     .host_memory = true,
                     .flushes = false,
                     .device = std::make_unique<KernelDevice>(tier, n)});
    }
  }
  for (const std::string& name : backend::backend_names()) {
    auto opened = backend::open({.name = name});
    if (!opened) {
      if (backend_required(name)) ADD_FAILURE() << "SLUICE_REQUIRE=" << name << ": " << opened.error().message;
      continue;
    }
    all.push_back({.name = fmt::format("backend {}", name),
                   .family = fmt::format("backend {}", name),
                   .host_memory = (*opened)->caps().unified,
                   .flushes = false,
                   .device = std::make_unique<BackendDevice>(std::move(*opened))});
    all.back().flushes = flushes_subnormals(*all.back().device);
  }
  return all;
}

}  // namespace

std::span<const Subject> subjects() {
  static const std::vector<Subject> kSubjects = make_subjects();
  return kSubjects;
}

}  // namespace sluice::test
