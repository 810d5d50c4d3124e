#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "engine/core.h"

namespace sluice::engine {
namespace {

using kernels::kPageTokens;

// A context that nobody asked for shrinks to this before experts leave the device.
constexpr uint32_t kLeastContext = 4096;
// For the driver, for buffers rounded up, and for other programs.
constexpr uint64_t kMostReserve = uint64_t{1} << 30;
constexpr uint64_t kReserveShare = 16;

std::string size_text(uint64_t n_bytes) { return bytes_text(static_cast<double>(n_bytes)); }

uint64_t whole_pages(uint64_t n_positions) { return (n_positions + kPageTokens - 1) / kPageTokens * kPageTokens; }

class Planner {
 public:
  Planner(const MemoryNeeds& needs, const backend::FreeMemory& free, uint32_t n_ctx, const EngineOptions& options)
      : needs_(needs),
        usable_(free.device - std::min(free.device / kReserveShare, kMostReserve)),
        usable_host_(free.host / 20 * 19),
        one_heap_(free.one_heap),
        wanted_(n_ctx),
        least_(options.n_ctx != 0 ? n_ctx : std::min(n_ctx, kLeastContext)),
        options_(options) {}

  Result<MemoryPlan> plan() const {
    const auto n_layers = static_cast<uint32_t>(needs_.experts.size());
    const bool forced = options_.n_cpu_moe >= 0;
    const uint32_t first = forced ? std::min(static_cast<uint32_t>(options_.n_cpu_moe), n_layers) : 0;
    const uint32_t last = forced ? first : options_.fit ? n_layers : 0;
    uint32_t n_host = first;
    while (n_host < last && positions(n_host) < least_) ++n_host;
    // Where nothing more can go, a short context is better than none.
    const uint64_t enough = options_.n_ctx != 0 ? least_ : std::min(least_, kPageTokens);
    if (positions(n_host) < enough) return too_large(n_host);
    if (host_bytes(n_host) > usable_host(n_host)) return too_large_for_host(n_host);

    MemoryPlan plan;
    for (const auto& [layer, n_bytes] : needs_.experts) {
      if (plan.host_layers.size() < n_host) plan.host_layers.push_back(layer);
    }
    if (forced) {
      plan.host_reason = fmt::format("-ncmoe {}", options_.n_cpu_moe);
    } else if (n_host != 0) {
      plan.host_reason = fmt::format("with all of them the device would need {} for {} positions, of {} that are free",
                                     size_text(device_bytes(0, least_)), least_, size_text(usable_));
    }
    plan.n_ctx = static_cast<uint32_t>(std::min<uint64_t>(wanted_, positions(n_host)));
    if (plan.n_ctx < wanted_) {
      plan.n_ctx_reason = fmt::format("{} would need {} of the GPU's memory, and {} are free", wanted_,
                                      size_text(device_bytes(n_host, wanted_)), size_text(usable_));
    }
    return plan;
  }

 private:
  uint64_t host_bytes(uint32_t n_host) const {
    uint64_t n_bytes = 0;
    for (auto it = needs_.experts.begin(); n_host > 0; --n_host, ++it) n_bytes += it->second;
    return n_bytes;
  }
  uint64_t weight_bytes(uint32_t n_host) const {
    const auto n_layers = static_cast<uint32_t>(needs_.experts.size());
    return needs_.weights + host_bytes(n_layers) - host_bytes(n_host);
  }
  uint64_t run_bytes(uint64_t n_positions) const {
    return needs_.fixed + whole_pages(n_positions) * needs_.per_position;
  }
  uint64_t device_bytes(uint32_t n_host, uint64_t n_positions) const {
    return weight_bytes(n_host) + run_bytes(n_positions);
  }

  // Beside the smallest context.
  uint64_t usable_host(uint32_t n_host) const {
    const uint64_t taken = one_heap_ ? device_bytes(n_host, least_) : 0;
    return usable_host_ - std::min(usable_host_, taken);
  }

  // How many fit.
  uint64_t positions(uint32_t n_host) const {
    if (device_bytes(n_host, wanted_) <= usable_) return wanted_;
    const uint64_t taken = device_bytes(n_host, 0);
    if (taken >= usable_ || needs_.per_position == 0) return 0;
    return (usable_ - taken) / needs_.per_position / kPageTokens * kPageTokens;
  }

  Error too_large(uint32_t n_host) const {
    const uint64_t n_positions = options_.n_ctx != 0 ? wanted_ : std::min(least_, kPageTokens);
    std::string_view remedy = "give a smaller --ctx-size or --ubatch-size, or use --backend cpu";
    if (n_host < needs_.experts.size())
      remedy = options_.n_cpu_moe >= 0
                   ? "give a larger -ncmoe, or leave it out"
                   : "leave out --fit off, so that experts lie in host memory, or use --backend cpu";
    return {Code::out_of_memory,
            fmt::format("{}the GPU's memory would need {} ({} of weights, {} of cache and working memory for {} "
                        "positions), and {} are free; {}",
                        n_host == 0 ? "" : fmt::format("with the experts of {} layers in host memory, ", n_host),
                        size_text(device_bytes(n_host, n_positions)), size_text(weight_bytes(n_host)),
                        size_text(run_bytes(n_positions)), n_positions, size_text(usable_), remedy)};
  }

  Error too_large_for_host(uint32_t n_host) const {
    return {Code::out_of_memory,
            fmt::format("the experts of {} layers take {} of host memory, and {} are free; free some memory, or give a "
                        "smaller {}",
                        n_host, size_text(host_bytes(n_host)), size_text(usable_host(n_host)),
                        options_.n_cpu_moe >= 0 ? "-ncmoe" : "--ctx-size or model")};
  }

  const MemoryNeeds& needs_;
  const uint64_t usable_, usable_host_;
  const bool one_heap_;
  const uint32_t wanted_, least_;  // positions
  const EngineOptions& options_;
};

}  // namespace

MemoryNeeds memory_needs(const Core& core, const models::WeightSizes& weights, const EngineOptions& options,
                         uint32_t n_ctx) {
  const models::Config& config = core.model->config();
  const uint64_t cache = cache_bytes_per_token(config, core.info.type_k, core.info.type_v);
  const StepSizes sizes = step_sizes(options, n_ctx);
  MemoryNeeds needs{.weights = weights.rest, .experts = weights.experts};
  needs.fixed = config.state_floats(options.n_rewind) * sizeof(float) * options.max_sequences;
  needs.fixed += whole_pages(options.n_cache_tokens) * cache;
  needs.fixed += step_layout(sizes, options, n_ctx).n_bytes + core.most_arena_bytes(sizes, 0);
  needs.fixed += uint64_t{sizes.n_ubatch} * config.n_embd * sizeof(float);
  needs.fixed += uint64_t{sizes.max_logit_rows} * config.most_row_floats() * sizeof(float);
  needs.per_position = config.n_rot * sizeof(float);
  if (n_ctx != 0) {
    const uint64_t ranges = core.most_arena_bytes(sizes, n_ctx) - core.most_arena_bytes(sizes, 0);
    needs.per_position += (ranges + n_ctx - 1) / n_ctx;
  }
  if (options.n_cache_tokens == 0) needs.per_position += cache * options.max_sequences;
  return needs;
}

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, const backend::FreeMemory& free, uint32_t n_ctx,
                               const EngineOptions& options) {
  return Planner(needs, free, n_ctx, options).plan();
}

}  // namespace sluice::engine
