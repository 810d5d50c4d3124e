#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu_info.h"
#include "ops/linear.h"
#include "quant/iq_grids.h"
#include "quant/quant.h"

namespace sluice::engine {
namespace {

using backend::Use;
using kernels::kPageTokens;

Result<uint64_t> make_buffer(Core& core, uint64_t n_bytes, Use use) {
  core.buffers.push_back(TRY(core.backend->allocate(n_bytes, use)));
  return core.buffers.back().address();
}

ops::Shape shape_of(PlanKey key) { return {std::max(key.n_tokens, 1u), std::max(key.n_out, 1u)}; }

Result<void> check_cache_type(const models::Config& config, Type type, const char* option) {
  if (type != Type::F32 && type != Type::F16 && type != Type::Q8_0) {
    return Error(Code::invalid_argument,
                 fmt::format("a cache of type {} is not supported; choose f32, f16 or q8_0 for {}",
                             type_info(type).name, option));
  }
  for (const models::LayerSpec& layer : config.layers) {
    if (layer.attention && (layer.d_k % type_info(type).block != 0 || layer.d_v % type_info(type).block != 0)) {
      return Error(Code::invalid_argument,
                   fmt::format("heads of {} values do not divide into {} blocks; choose f16 for {}", layer.d_k,
                               type_info(type).name, option));
    }
  }
  return {};
}

Result<void> allocate_cache(Core& core, const EngineOptions& options) {
  const models::Config& config = core.model->config();
  core.memory.n_ctx = core.info.n_ctx;
  core.memory.type_k = core.info.type_k;
  core.memory.type_v = core.info.type_v;
  TRY(check_cache_type(config, core.memory.type_k, "-ctk"));
  TRY(check_cache_type(config, core.memory.type_v, "-ctv"));
  const uint64_t per_sequence = (uint64_t{core.info.n_ctx} + kPageTokens - 1) / kPageTokens;
  const uint64_t n_pages = options.n_cache_tokens != 0 ? options.n_cache_tokens / kPageTokens +
                                                             (options.n_cache_tokens % kPageTokens != 0 ? 1 : 0)
                                                       : per_sequence * core.max_sequences;
  if (n_pages > (1u << 28))
    return Error(Code::invalid_argument, "the cache would have too many pages; give a smaller --ctx-size");
  core.pages = PagePool(static_cast<uint32_t>(n_pages));
  core.memory.layers.resize(config.n_layer);
  uint64_t offset = 0;  // of a layer's recurrent state in a slot, in floats
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    const models::LayerSpec& layer = config.layers[i];
    if (layer.attention) {
      LayerCache cache;
      cache.k_page_bytes = layer.n_kv_head * kPageTokens * quant::row_bytes(core.memory.type_k, layer.d_k);
      cache.v_page_bytes = layer.n_kv_head * kPageTokens * quant::row_bytes(core.memory.type_v, layer.d_v);
      cache.k = TRY(make_buffer(core, n_pages * cache.k_page_bytes, Use::cache));
      cache.v = TRY(make_buffer(core, n_pages * cache.v_page_bytes, Use::cache));
      core.info.cache_bytes += n_pages * (cache.k_page_bytes + cache.v_page_bytes);
      core.memory.layers[i] = {cache.k, cache.v, 0};
      core.caches[i] = cache;
    }
    core.memory.layers[i].recurrent = offset * sizeof(float);
    for (const models::StateRing& ring : layer.state) {
      core.rings.push_back({offset, ring.n_rows, ring.width});
      offset += (uint64_t{ring.n_rows} + options.n_rewind) * ring.width;
    }
  }
  core.state_floats = config.state_floats();
  if (offset > UINT32_MAX) {
    return Error(Code::invalid_argument, fmt::format("the state that takes back {} tokens is larger than this program "
                                                     "allows; give a smaller n_rewind",
                                                     options.n_rewind));
  }
  core.memory.slot_stride = offset;
  core.memory.n_rewind = options.n_rewind;
  if (offset != 0) {
    core.state_address = TRY(make_buffer(core, offset * sizeof(float) * core.max_sequences, Use::cache));
    core.info.state_bytes = offset * sizeof(float) * core.max_sequences;
    core.info.cache_bytes += core.info.state_bytes;
  }
  for (ops::LayerState& layer : core.memory.layers) layer.recurrent += core.state_address;
  for (uint32_t slot = core.max_sequences; slot-- > 0;) core.free_slots.push_back(slot);
  return {};
}

Result<void> allocate_step(Core& core, const EngineOptions& options) {
  const models::Config& config = core.model->config();
  const StepSizes sizes{core.n_ubatch, core.max_logit_rows};
  core.step_layout = step_layout(sizes, options, core.info.n_ctx);
  const uint64_t at = core.step_layout.n_bytes;
  core.step_image.resize(at);
  core.memory.step = TRY(make_buffer(core, at, Use::staging));
  TRY(core.backend->upload(core.memory.step + core.step_layout.grids, std::as_bytes(std::span(quant::kIqGrids))));
  core.memory.residual =
      TRY(make_buffer(core, uint64_t{core.n_ubatch} * config.n_embd * sizeof(float), Use::activations));
  core.memory.logits = TRY(
      make_buffer(core, uint64_t{core.max_logit_rows} * config.most_row_floats() * sizeof(float), Use::activations));
  core.memory.sampled = TRY(make_buffer(core, uint64_t{core.max_logit_rows} * sizeof(uint32_t), Use::readback));
  core.info.scratch_bytes += at + uint64_t{core.n_ubatch} * config.n_embd * sizeof(float) +
                             uint64_t{core.max_logit_rows} * config.most_row_floats() * sizeof(float);
  if (core.backend->caps().unified) return {};
  // Memory that was planned is taken now: later steps need no more.
  const uint64_t n_bytes = core.most_arena_bytes(sizes, core.info.n_ctx);
  core.arena = std::make_shared<backend::Buffer>(TRY(core.backend->allocate(n_bytes, Use::activations)));
  core.info.scratch_bytes += n_bytes;
  return {};
}

}  // namespace

StepSizes step_sizes(const EngineOptions& options, uint32_t n_ctx) {
  StepSizes sizes;
  sizes.n_ubatch = static_cast<uint32_t>(
      std::min<uint64_t>(options.n_ubatch, uint64_t{std::max(n_ctx, 1u)} * options.max_sequences));
  sizes.max_logit_rows = std::min(sizes.n_ubatch, std::max(kLogitRows, options.max_sequences));
  return sizes;
}

StepLayout step_layout(const StepSizes& sizes, const EngineOptions& options, uint32_t n_ctx) {
  StepLayout layout;
  uint64_t at = sizeof(kernels::StepState);
  const auto place = [&at](uint64_t n_bytes) {
    at = (at + 63) / 64 * 64;
    const uint64_t offset = at;
    at += n_bytes;
    return offset;
  };
  const uint64_t per_sequence = (uint64_t{n_ctx} + kPageTokens - 1) / kPageTokens;
  const uint64_t n_slices = std::min(options.max_sequences, sizes.n_ubatch);
  const uint64_t n_tokens = sizes.n_ubatch;
  layout.seqs = place(n_slices * sizeof(kernels::SeqSlice));
  layout.token = place(n_tokens * sizeof(uint32_t));
  layout.pos = place(n_tokens * sizeof(uint32_t));
  layout.seq = place(n_tokens * sizeof(uint32_t));
  layout.out_token = place(n_tokens * sizeof(uint32_t));
  layout.row_error = place(n_tokens * sizeof(uint32_t));
  layout.page_table = place(n_slices * per_sequence * sizeof(uint32_t));
  // The rules lie behind what is used of the page table.
  layout.n_penalties = std::max(sizes.max_logit_rows * kPenaltiesPerRow, std::min(n_ctx, kMostPenalties));
  place(sizes.max_logit_rows * sizeof(kernels::SamplingRule));
  place(layout.n_penalties * sizeof(kernels::Penalty));
  layout.grids = place(sizeof(quant::kIqGrids));
  layout.n_bytes = at;
  return layout;
}

uint64_t cache_bytes_per_token(const models::Config& config, Type type_k, Type type_v) {
  uint64_t n_bytes = 0;
  for (const models::LayerSpec& layer : config.layers) {
    if (!layer.attention) continue;
    n_bytes += layer.n_kv_head * (quant::row_bytes(type_k, layer.d_k) + quant::row_bytes(type_v, layer.d_v));
  }
  return n_bytes;
}

uint64_t free_memory(const EngineOptions& options) {
  return options.free_memory != 0 ? options.free_memory : read_memory_info().available_bytes;
}

Result<uint32_t> wanted_n_ctx(const models::Config& config, const EngineOptions& options, EngineInfo& info) {
  constexpr uint32_t kMostPositions = 1u << 24;
  if (options.n_ctx > kMostPositions) {
    return Error(Code::invalid_argument,
                 fmt::format("a context of {} is more than this program allows; give at most {}", options.n_ctx,
                             kMostPositions));
  }
  if (options.n_ctx > config.n_ctx_train) {
    info.n_ctx_reason = fmt::format(
        "more than the {} positions that the model was made for; expect worse text past them", config.n_ctx_train);
  }
  return options.n_ctx != 0 ? options.n_ctx : std::min(config.n_ctx_train, kMostPositions);
}

uint32_t choose_n_ctx(const models::Config& config, const EngineOptions& options, uint32_t wanted,
                      uint64_t weight_bytes, EngineInfo& info) {
  std::string& reason = info.n_ctx_reason;
  const uint64_t available_bytes = free_memory(options);
  const uint64_t n_sequences = std::max(options.max_sequences, 1u);
  const uint64_t rope = config.n_rot * sizeof(float);  // the table's row
  const uint64_t per_position =
      (options.n_cache_tokens != 0 ? 0 : cache_bytes_per_token(config, info.type_k, info.type_v) * n_sequences) + rope;
  if (available_bytes == 0 || per_position == 0) return wanted;
  // A tenth stays for everything else.
  const uint64_t usable = available_bytes / 10 * 9;
  const uint64_t budget = usable > weight_bytes ? usable - weight_bytes : 0;
  const uint64_t fits = budget / per_position / kPageTokens * kPageTokens;
  if (fits >= wanted) return wanted;
  if (options.n_ctx != 0 || fits < kPageTokens) {
    // What is asked for is tried: cache pages take memory only when they are used.
    reason = fmt::format("{} positions take {:.1f} GB, more than the {:.1f} GB that are free now", wanted,
                         static_cast<double>(per_position) * wanted / 1e9, static_cast<double>(budget) / 1e9);
    return std::max<uint32_t>(options.n_ctx, options.n_ctx != 0 ? 1 : std::min(wanted, 512u));
  }
  reason = fmt::format("the model allows {}, and {:.1f} GB of free memory hold {}", wanted,
                       static_cast<double>(budget) / 1e9, fits);
  return static_cast<uint32_t>(fits);
}

Result<void> allocate_memory(Core& core, const EngineOptions& options) {
  TRY(allocate_cache(core, options));
  return allocate_step(core, options);
}

void Core::record(ops::Graph& g, PlanKey key) const {
  g.capture = key.capture;
  for (uint32_t layer : model_info.moe_layers) {
    if (key.force)
      g.forced[layer] =
          g.allocate(uint64_t{g.shape().n_tokens} * model->config().layers[layer].n_expert_used * sizeof(uint32_t));
  }
  ops::Residual residual;
  if (key.n_tokens != 0) {
    residual = model->build(g);
  } else {
    residual.x.n = model->config().n_embd;
    residual.x.f32 = std::make_shared<ops::Block>();
    residual.x.f32->address = memory.residual;
  }
  if (key.n_out != 0 && key.embeddings) {
    model->build_embeddings(g, residual);
  } else if (key.n_out != 0) {
    model->build_head(g, residual);
    if (key.pick == Pick::greedy) ops::sample_greedy(g, model->config().n_vocab);
    if (key.pick == Pick::by_rules) ops::sample_by_rules(g, model->config().n_vocab);
  } else {
    ops::settle(g, residual);
  }
}

uint64_t Core::arena_bytes(PlanKey key, uint32_t n_ctx) const {
  ops::Memory sized = memory;
  sized.n_ctx = n_ctx;
  ops::Graph measure(*backend, sized, shape_of(key), 0);
  record(measure, key);
  return measure.arena_bytes();
}

uint64_t Core::most_arena_bytes(const StepSizes& sizes, uint32_t n_ctx) const {
  uint64_t most = 0;
  for (uint32_t n = sizes.n_ubatch; n != 0; n /= 2)
    most = std::max(most, arena_bytes({n, std::min(n, sizes.max_logit_rows), false, false, Pick::by_rules}, n_ctx));
  return most;
}

Result<PreparedStep*> Core::prepared(PlanKey key) {
  if (const auto it = plans_.find(key); it != plans_.end()) return &it->second;
  const uint64_t n_bytes = arena_bytes(key, memory.n_ctx);
  if (!arena || arena->size() < n_bytes) {
    // Plans made before keep the smaller one.
    arena = std::make_shared<backend::Buffer>(TRY(backend->allocate(n_bytes, backend::Use::activations)));
    info.scratch_bytes += n_bytes;
  }
  PreparedStep step;
  step.arena = arena;
  step.graph = std::make_unique<ops::Graph>(*backend, memory, shape_of(key), arena->address());
  record(*step.graph, key);
  step.plan = TRY(backend->prepare(step.graph->launches()));
  return &plans_.emplace(key, std::move(step)).first->second;
}

}  // namespace sluice::engine
