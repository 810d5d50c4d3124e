#include "backend/cpu/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>

#include "backend/cpu/limits.h"
#include "backend/cpu/phases.h"
#include "backend/cpu/simd/tiers.h"
#include "backend/cpu/worker.h"
#include "base/cpu_info.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice::backend::cpu {
namespace {

using Clock = std::chrono::steady_clock;

enum class QuantSet : uint8_t { none, weights, kv };

struct Reference {
  KernelFn fn;
  QuantSet quant;
};

// In the order of KernelId.
constexpr Reference kReference[] = {
#define SLUICE_KERNEL(name, Args, quant) {&call<kernels::Args, &reference::name>, QuantSet::quant},
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
};

bool is_cache_type(Type type) { return type == Type::F32 || type == Type::F16 || type == Type::Q8_0; }

struct Step {
  Launch launch;
  KernelFn fn;
};

class CpuPlan final : public Plan {
 public:
  std::vector<Step> steps;
  std::vector<Phase> phases;
  std::vector<uint8_t> alone;  // (phases)
  // One per launch; a cache line each, since all threads claim from it.
  struct alignas(64) Next {
    std::atomic<uint64_t> value{0};
    std::atomic<Clock::rep> began{0};  // where the stages are timed
  };
  std::vector<Next> next;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Options& options, Tier tier, const CpuInfo& info, uint32_t n_threads)
      : pool_(n_threads, n_threads <= info.n_usable), scratch_(n_threads) {
    // From the chosen tier downwards: what a tier lacks, a lower one or the reference computes.
    const std::vector<Tier> available = tiers();
    const auto chosen = std::find(available.rbegin(), available.rend(), tier);
    for (auto it = chosen; it != available.rend(); ++it) {
      if (*it != Tier::scalar) tiers_.push_back(*it);
    }
    caps_.name = "cpu";
    caps_.device = info.model;
    caps_.memory_bytes = read_memory_info().total_bytes;
    caps_.unified = true;
    caps_.reference = options.reference;
    caps_.isa = options.reference ? "reference" : std::string(tier_name(tier));
    caps_.n_threads = n_threads;
  }

  Result<void> allocate_scratch() {
    for (auto& scratch : scratch_) scratch = TRY(HostMemory::allocate(kScratchBytes));
    return {};
  }

  const Caps& caps() const override { return caps_; }

  Result<Buffer> allocate(size_t n_bytes, Use use) override {
    (void)use;
    auto memory = std::make_shared<HostMemory>(TRY(HostMemory::allocate(std::max<size_t>(n_bytes, 64))));
    const auto address = reinterpret_cast<uint64_t>(memory->data());
    return Buffer(address, n_bytes, std::move(memory));
  }

  Result<Buffer> adopt(std::span<const std::byte> bytes, Use use) override {
    (void)use;
    return Buffer(reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), nullptr);
  }

  Result<void> upload(uint64_t destination, std::span<const std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(destination), bytes.data(), bytes.size());
    return {};
  }

  Result<void> download(std::span<std::byte> bytes, uint64_t source) override {
    if (!bytes.empty()) std::memcpy(bytes.data(), reinterpret_cast<const void*>(source), bytes.size());
    ++counters_.host_reads;
    counters_.host_read_bytes += bytes.size();
    return {};
  }

  Result<void> copy(uint64_t destination, uint64_t source, size_t n_bytes) override {
    if (n_bytes != 0)
      std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), n_bytes);
    return {};
  }

  bool has(const KernelKey& key) const override { return find(key).fn != nullptr; }

  Result<std::unique_ptr<Plan>> prepare(std::span<const Launch> launches) override {
    auto plan = std::make_unique<CpuPlan>();
    plan->next = std::vector<CpuPlan::Next>(launches.size());
    for (const Launch& launch : launches) {
      const Found found = find(launch.key);
      if (found.fn == nullptr) {
        return Error(Code::unsupported, fmt::format("the cpu backend has no kernel {} for type {}; choose another type",
                                                    kernel_name(launch.key.id), type_info(launch.key.type).name));
      }
      plan->steps.push_back({launch, found.fn});
    }
    plan->phases = phases_of(launches);
    for (const Phase& phase : plan->phases) plan->alone.push_back(phase.alone ? 1 : 0);
    return std::unique_ptr<Plan>(std::move(plan));
  }

  Ticket run(Plan& plan) override {
    auto& cpu_plan = static_cast<CpuPlan&>(plan);
    for (const Phase& phase : cpu_plan.phases) {
      if (phase.alone) continue;
      for (uint32_t i = phase.first; i < phase.end; ++i) cpu_plan.next[i].value.store(0, std::memory_order_relaxed);
    }
    if (profile_)
      for (auto& next : cpu_plan.next) next.began.store(0, std::memory_order_relaxed);
    Walk walk{*this, cpu_plan};
    pool_.walk({static_cast<uint32_t>(cpu_plan.phases.size()), &Walk::phase, &walk, cpu_plan.alone.data()});
    if (profile_) add_seconds(cpu_plan);
    ++counters_.submits;
    return {counters_.submits};
  }

  Result<void> wait(Ticket ticket) override {
    (void)ticket;
    return {};
  }

  Counters counters() const override { return counters_; }

  void profile(bool on) override {
    profile_ = on;
    seconds_.assign(on ? kStages : 0, 0.0);
  }

  std::vector<double> stage_seconds() override {
    auto result = seconds_;
    seconds_.assign(profile_ ? kStages : 0, 0.0);
    return result;
  }

  Limits measure_limits() override {
    return cpu::measure_limits(pool_, tiers_.empty() ? plain_peak() : peak_of(tiers_.front()));
  }

  struct Found {
    KernelFn fn = nullptr;
    std::string_view tier;
  };

  Found find(const KernelKey& key) const {
    if (caps_.reference) {
      return key.layout == Layout::row_major && key.id != KernelId::quantize_q8 && reference_has(key)
                 ? Found{kReference[static_cast<size_t>(key.id)].fn, "reference"}
                 : Found{};
    }
    for (Tier tier : tiers_) {
      for (const TierKernel& kernel : kernels_of(tier)) {
        if (kernel.key == key) return {kernel.fn, tier_name(tier)};
      }
    }
    // A panel product that no tier computes would be slower than the rows it was made from. Look-ups in panels are
    // fine.
    const bool product = key.id == KernelId::gemv || key.id == KernelId::gemm || key.id == KernelId::moe_gemv ||
                         key.id == KernelId::moe_gemm;
    if (key.layout != Layout::row_major && product && tiers_.empty()) return {};
    return reference_has(key) ? Found{kReference[static_cast<size_t>(key.id)].fn, "reference"} : Found{};
  }

 private:
  static bool reference_has(const KernelKey& key) {
    if ((key.variant & kMatrixVariant) != 0) return false;
    switch (kReference[static_cast<size_t>(key.id)].quant) {
      case QuantSet::none:
        return key.type == Type::F32 && key.layout == Layout::row_major;
      case QuantSet::weights:
        // Fused products are for speed: where no tier has them, their parts are quicker than the reference.
        if (key.id == KernelId::gate_up || key.id == KernelId::moe_gate_up) return false;
        return key.layout == Layout::row_major || quant::has_panel16(key.type);
      case QuantSet::kv:
        return is_cache_type(key.type) &&
               (key.id == KernelId::kv_store || is_cache_type(static_cast<Type>(key.variant)));
    }
    return false;
  }

  struct Walk {
    CpuBackend& backend;
    CpuPlan& plan;
    static void phase(void* context, uint32_t phase, uint32_t idx) {
      auto& walk = *static_cast<Walk*>(context);
      walk.backend.run_phase(walk.plan, walk.plan.phases[phase], idx);
    }
  };

  void run_phase(CpuPlan& plan, const Phase& phase, uint32_t idx) {
    const std::span scratch(scratch_[idx].data(), kScratchBytes);
    for (uint32_t i = phase.first; i < phase.end; ++i) {
      const Step& step = plan.steps[i];
      // Read where the stage changes: the clock takes as long as a short launch.
      const bool changes = i == 0 || plan.steps[i - 1].launch.stage != step.launch.stage;
      if (profile_ && changes && (phase.alone || i == phase.first)) stamp(plan.next[i].began);
      std::atomic<uint64_t> own{0};
      Worker worker(step.launch.key, idx, phase.alone ? 1 : pool_.size(), phase.alone ? own : plan.next[i].value,
                    scratch);
      step.fn(step.launch.args, worker);
    }
  }

  // When the first thread came.
  static void stamp(std::atomic<Clock::rep>& began) {
    Clock::rep none = 0;
    began.compare_exchange_strong(none, Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }

  // A launch lasts until the next one that has a time begins; those without ran at the same time as one that has.
  void add_seconds(const CpuPlan& plan) {
    Clock::rep until = Clock::now().time_since_epoch().count();
    for (size_t i = plan.steps.size(); i-- > 0;) {
      const Clock::rep began = plan.next[i].began.load(std::memory_order_relaxed);
      if (began == 0) continue;
      seconds_[static_cast<size_t>(plan.steps[i].launch.stage)] +=
          std::chrono::duration<double>(Clock::duration(until - began)).count();
      until = began;
    }
  }

  Caps caps_;
  Counters counters_;
  ThreadPool pool_;
  std::vector<Tier> tiers_;  // in use, best first
  std::vector<HostMemory> scratch_;
  bool profile_ = false;
  std::vector<double> seconds_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open(const Options& options) {
  const std::vector<Tier> available = tiers();
  Tier tier = available.back();
  if (options.reference) {
    tier = Tier::scalar;
  } else if (!options.cpu_isa.empty()) {
    const std::optional<Tier> asked = parse_tier(options.cpu_isa);
    if (!asked) {
      return Error(Code::invalid_argument,
                   fmt::format("unknown CPU instruction set '{}'; choose scalar, avx2, avx512, neon or neon_i8mm",
                               printable(options.cpu_isa)));
    }
    if (std::find(available.begin(), available.end(), *asked) == available.end()) {
      return Error(Code::unsupported,
                   fmt::format("this CPU does not run {}; choose {}", options.cpu_isa, tier_name(tier)));
    }
    tier = *asked;
  }
  constexpr uint32_t kMostThreads = 512;
  if (options.n_threads > kMostThreads) {
    return Error(Code::invalid_argument,
                 fmt::format("{} threads are too many; give at most {}", options.n_threads, kMostThreads));
  }
  const CpuInfo info = read_cpu_info();
  const uint32_t n_threads = options.n_threads != 0 ? options.n_threads : info.n_default_threads;
  try {
    auto backend = std::make_unique<CpuBackend>(options, tier, info, n_threads);
    TRY(backend->allocate_scratch());
    return std::unique_ptr<Backend>(std::move(backend));
  } catch (const std::system_error& e) {
    return Error(Code::out_of_memory,
                 fmt::format("the system gives no {} threads ({}); give fewer with --threads", n_threads, e.what()));
  }
}

std::string_view kernel_tier(const Backend& backend, const KernelKey& key) {
  return static_cast<const CpuBackend&>(backend).find(key).tier;
}

}  // namespace sluice::backend::cpu
