// Loading a model, and the Engine object: the steps themselves are in step.cpp.
#include "sluice/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "backend/naive_routing.h"
#include "backend/registry.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/core.h"
#include "engine/memory_plan.h"
#include "engine/step.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice {
namespace engine {
namespace {

constexpr uint32_t kMostUbatch = 1u << 14, kMostSequences = 1u << 16, kMostRewind = 1u << 10;

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const ModelInfo& model() const override { return core_->model_info; }
  const EngineInfo& info() const override { return core_->info; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return core_->tokenizer; }

  Result<Sequence> new_sequence() override {
    if (core_->free_slots.empty()) {
      return Error(Code::out_of_memory,
                   fmt::format("all {} sequences are in use; end one, or raise max_sequences", core_->max_sequences));
    }
    auto impl = std::make_unique<Sequence::Impl>(core_);
    impl->slot = core_->free_slots.back();
    core_->free_slots.pop_back();
    return Sequence(std::move(impl));
  }

  Result<void> step(std::span<const StepInput> inputs, const StepOptions& options, StepResult& result) override {
    return run_step(core_, inputs, options, result);
  }

  EngineCounters counters() const override {
    const backend::Counters c = core_->backend->counters();
    return {c.host_reads, c.host_read_bytes, c.submits};
  }
  void profile(bool on) override { core_->backend->profile(on); }
  std::vector<std::pair<std::string, double>> stage_seconds() override {
    std::vector<std::pair<std::string, double>> result;
    const std::vector<double> seconds = core_->backend->stage_seconds();
    for (size_t i = 0; i < seconds.size(); ++i)
      result.emplace_back(backend::stage_name(static_cast<backend::Stage>(i)), seconds[i]);
    return result;
  }

  std::vector<StageCost> cost(const StepShape& s) const override {
    const uint32_t n_seqs = std::max(s.n_sequences, 1u);
    ops::Shape shape{s.n_tokens, s.n_logits, n_seqs};
    shape.n_cached = n_seqs * s.n_before + s.n_tokens;
    // Token i of a sequence sees what was there before, and i + 1 of its own.
    shape.n_seen = s.n_tokens * s.n_before + s.n_tokens * (uint64_t{s.n_tokens} / n_seqs + 1) / 2;
    ops::Graph graph(*core_->backend, core_->memory, shape, 0);
    core_->record(graph, {s.n_tokens, s.n_logits, false, false});
    std::vector<backend::Cost> costs(backend::kStages);
    for (const backend::Launch& launch : graph.launches()) costs[static_cast<size_t>(launch.stage)] += launch.cost;
    std::vector<StageCost> result;
    for (size_t i = 0; i < costs.size(); ++i)
      result.push_back({std::string(backend::stage_name(static_cast<backend::Stage>(i))), costs[i].bytes,
                        costs[i].int8_operations, costs[i].f32_operations});
    return result;
  }

 private:
  std::shared_ptr<Core> core_;
};

backend::Options backend_options(const EngineOptions& options) {
  return {.name = options.backend,
          .cpu_isa = options.cpu_isa,
          .n_threads = options.n_threads,
          .reference = options.reference,
          .device = options.device,
          .deterministic = options.deterministic,
          .limits = options.device_limits};
}

// A GPU needs many tokens to be busy, and some memory for their activations.
uint32_t default_ubatch(const backend::Caps& caps) {
  constexpr uint64_t kRoom = uint64_t{12} << 30;
  return !caps.unified && caps.memory_bytes >= kRoom ? 2048 : kDefaultUbatch;
}

Result<void> check_options(const EngineOptions& options) {
  if (options.n_ubatch > kMostUbatch) {
    return Error(Code::invalid_argument,
                 fmt::format("a ubatch of {} is not possible; give at most {}", options.n_ubatch, kMostUbatch));
  }
  if (options.max_sequences == 0 || options.max_sequences > kMostSequences) {
    return Error(Code::invalid_argument,
                 fmt::format("{} sequences are not possible; give 1 to {}", options.max_sequences, kMostSequences));
  }
  if (options.n_rewind > kMostRewind) {
    return Error(Code::invalid_argument,
                 fmt::format("taking back {} tokens is not possible; give at most {}", options.n_rewind, kMostRewind));
  }
  return {};
}

// Of the metadata, the tensor list and the cache's form: models that differ in one of them cannot share saved
// sequences.
uint64_t fingerprint_of(const Core& core, const EngineOptions& options) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::string_view text) {
    for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
    hash = (hash ^ text.size()) * 0x100000001b3u;
  };
  mix(core.model_info.architecture);
  mix(core.model_info.name);
  mix(std::to_string(core.file.file_bytes()));
  mix(fmt::format("{} {} {}", static_cast<uint32_t>(core.info.type_k), static_cast<uint32_t>(core.info.type_v),
                  core.model_info.n_expert_used));
  for (const AdapterOptions& adapter : options.adapters) mix(fmt::format("{} {}", adapter.path, adapter.scale));
  for (const gguf::TensorInfo& tensor : core.file.tensors()) {
    mix(tensor.name);
    mix(fmt::format("{} {}", tensor.type_id, tensor.file_offset));
  }
  // Fine-tunes share all of the above: a few values of one small tensor tell them apart.
  for (const gguf::TensorInfo& tensor : core.file.tensors()) {
    if (!tensor.name.ends_with("norm.weight")) continue;
    const auto bytes = core.file.data(tensor);
    mix({reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64)});
  }
  return hash;
}

Result<void> load_tokenizer(Core& core, const EngineOptions& options) {
  auto tokenizer = Tokenizer::create(core.file, options.pre_tokenizer);
  if (tokenizer) {
    core.tokenizer = std::move(*tokenizer);
    return {};
  }
  if (options.need_tokenizer || tokenizer.error().code == Code::corrupt_file) return std::move(tokenizer.error());
  log::info("no tokenizer: {}", tokenizer.error().message);
  return {};
}

// Repacked weights take the place of the file's pages, which go as they are consumed. Where the free memory does not
// hold them, the weights are used from the map: the system can drop its pages and read them again.
bool memory_allows_repacking(const gguf::File& file, const EngineOptions& options) {
  uint64_t n_bytes = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.type != nullptr && quant::has_panel16(tensor.type->type)) n_bytes += tensor.n_bytes;
  }
  if (!options.mmap) n_bytes += file.file_bytes();  // stays in memory beside the panels
  const uint64_t available = free_memory(options);
  if (available == 0 || n_bytes <= available / 20 * 19) return true;
  log::warn(
      "{:.1f} GB of free memory do not hold the repacked weights ({:.1f} GB): they are used as the file has them, "
      "slower (--no-repack); free some memory for full speed",
      static_cast<double>(available) / 1e9, static_cast<double>(n_bytes) / 1e9);
  return false;
}

// What goes where, and how long a context is left room for.
Result<void> plan_device_memory(Core& core, const EngineOptions& options, const models::WeightSizes& sizes,
                                backend::FreeMemory free, uint32_t wanted_n_ctx) {
  core.info.free_bytes_before = free.device;
  if (const uint64_t host = free_memory(options); host != 0) free.host = std::min(free.host, host);
  if (!options.mmap) free.host -= std::min(free.host, core.file.file_bytes());  // it stays in memory beside
  core.memory.layers.resize(core.model->config().n_layer);
  const MemoryNeeds needs = memory_needs(core, sizes, options, wanted_n_ctx);
  MemoryPlan plan = TRY(plan_memory(needs, free, wanted_n_ctx, options));
  core.info.n_ctx = plan.n_ctx;
  if (!plan.n_ctx_reason.empty()) core.info.n_ctx_reason = std::move(plan.n_ctx_reason);
  for (const uint32_t layer : plan.host_layers) core.info.host_weight_bytes += sizes.experts.at(layer);
  core.info.host_layers = std::move(plan.host_layers);
  core.info.host_layers_reason = std::move(plan.host_reason);
  return {};
}

Result<void> load_weights(Core& core, const EngineOptions& options) {
  const models::Config& config = core.model->config();
  const backend::Caps& caps = core.backend->caps();
  const bool repack =
      options.repack && !options.reference && caps.unified && memory_allows_repacking(core.file, options);
  std::vector<models::Adapter> adapters;
  for (const AdapterOptions& adapter : options.adapters)
    adapters.push_back(TRY(models::Adapter::open(adapter.path, adapter.scale, config.architecture)));
  models::WeightLoader check(core.file, nullptr, false);
  check.set_adapters(adapters);
  TRY(core.model->load(check, nullptr, 0, core.weights));
  TRY(check.check_adapters());
  core.model_info.unused_tensors = TRY(check.unused(config.n_layer));

  const uint32_t wanted = TRY(wanted_n_ctx(config, options, core.info));
  if (auto free = core.backend->free_memory()) {
    TRY(plan_device_memory(core, options, check.sizes(), *free, wanted));
  } else {
    // Pages of the map can go when memory is asked for, but not all of them at every step.
    const uint64_t weight_bytes =
        repack || !options.mmap ? check.asked_bytes() : std::min(check.asked_bytes(), free_memory(options) / 2);
    core.info.n_ctx = choose_n_ctx(config, options, wanted, weight_bytes, core.info);
  }
  if (!options.mmap) TRY(core.file.load_data(options.on_load));
  models::WeightLoader loader(core.file, core.backend.get(), repack);
  loader.set_host_layers(core.info.host_layers);
  loader.set_adapters(adapters);
  models::WeightMemory made;
  TRY(core.model->load(loader, core.backend.get(), core.info.n_ctx, made));
  TRY(loader.load(core.backend->caps().n_threads, options.on_load));
  TRY(core.file.check_whole());
  core.model_info.slow_tensors = loader.slow();
  core.weights = loader.take_memory();
  core.weights.n_bytes += made.n_bytes;
  std::move(made.buffers.begin(), made.buffers.end(), std::back_inserter(core.weights.buffers));
  core.info.weight_bytes = core.weights.n_bytes;
  if (!core.model_info.slow_tensors.empty()) {
    log::warn("{} tensors have no fast path on this CPU, first {}", core.model_info.slow_tensors.size(),
              core.model_info.slow_tensors[0]);
  }
  if (!core.model_info.unused_tensors.empty()) {
    log::info("{} tensors of the file are not used, first '{}'", core.model_info.unused_tensors.size(),
              core.model_info.unused_tensors[0]);
  }
  return {};
}

}  // namespace
}  // namespace engine

namespace {

Result<std::unique_ptr<Engine>> load_engine(const std::string& path, EngineOptions options) {
  TRY(engine::check_options(options));
  auto core = std::make_shared<engine::Core>(TRY(gguf::File::open(path, {.mmap = options.mmap})));
  core->model = TRY(models::create(core->file, {.n_expert_used = options.n_expert_used}));
  core->model_info = engine::describe_model(core->file, core->model->config());
  TRY(engine::load_tokenizer(*core, options));
  if (core->tokenizer && core->tokenizer->n_vocab() > core->model->config().n_vocab) {
    return Error(Code::corrupt_file,
                 fmt::format("the vocabulary has {} tokens and 'token_embd.weight' {} rows; download the file again",
                             core->tokenizer->n_vocab(), core->model->config().n_vocab));
  }
  core->backend = TRY(backend::open(engine::backend_options(options)));
  if (options.naive_routing) core->backend = TRY(backend::naive_routing(std::move(core->backend)));
  const backend::Caps& caps = core->backend->caps();
  if (options.n_ubatch == 0) options.n_ubatch = engine::default_ubatch(caps);
  core->info.backend = caps.name;
  core->info.device = caps.device;
  core->info.isa = caps.isa;
  core->info.n_threads = caps.n_threads;
  core->info.type_k = options.reference ? Type::F32 : options.type_k;
  core->info.type_v = options.reference ? Type::F32 : options.type_v;
  core->info.state_can_be_cut = !core->model->config().recurrent();
  core->info.n_rewind = core->info.state_can_be_cut ? UINT32_MAX : options.n_rewind;
  core->max_sequences = options.max_sequences;
  TRY(engine::load_weights(*core, options));
  const engine::StepSizes sizes = engine::step_sizes(options, core->info.n_ctx);
  core->n_ubatch = sizes.n_ubatch;
  core->info.n_ubatch = sizes.n_ubatch;
  core->max_logit_rows = sizes.max_logit_rows;
  TRY(engine::allocate_memory(*core, options));
  if (const auto free = core->backend->free_memory()) core->info.free_bytes = free->device;
  core->fingerprint = engine::fingerprint_of(*core, options);
  return std::unique_ptr<Engine>(std::make_unique<engine::EngineImpl>(std::move(core)));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path, const EngineOptions& options) {
  try {
    return load_engine(path, options);
  } catch (const std::bad_alloc&) {
    return Error(Code::out_of_memory,
                 "no memory is left to load this model; use a shorter context, fewer sequences or a smaller model");
  } catch (const std::length_error&) {
    return Error(Code::out_of_memory, "this model needs more memory than a program can have; use a smaller one");
  }
}

Result<Limits> measure_limits(const EngineOptions& options) {
  const auto backend = TRY(backend::open(engine::backend_options(options)));
  const backend::Limits limits = backend->measure_limits();
  return Limits{limits.read_bytes, limits.int8_operations, limits.f32_operations};
}

}  // namespace sluice
