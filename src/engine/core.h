// What an Engine and its sequences share. A sequence keeps the core alive, so it may outlive the Engine object.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/cache_pool.h"
#include "models/model.h"
#include "ops/graph.h"
#include "sluice/engine.h"

namespace sluice::engine {

// Rows of logits computed at once; more are computed in turns.
inline constexpr uint32_t kLogitRows = 64;
// Penalties of a step's rows: each looks back as far as is usual, or one at much of a long text.
inline constexpr uint32_t kPenaltiesPerRow = 64, kMostPenalties = 1u << 16;
inline constexpr uint32_t kDefaultUbatch = 512;  // tokens computed together, where nothing else is asked for

// Device memory of one attention layer's cache.
struct LayerCache {
  uint64_t k = 0, v = 0;
  uint64_t k_page_bytes = 0, v_page_bytes = 0;
};

// Where one part of a layer's recurrent state lies in a slot: a ring of n_rows + n_rewind rows, that of position p at
// p % (n_rows + n_rewind), of which a sequence needs the last n_rows.
struct LayerRing {
  uint64_t offset = 0;  // in floats
  uint32_t n_rows = 0, width = 0;
};

// The step's inputs as they lie on the device, one behind the other: offsets from StepState's address.
struct StepLayout {
  uint64_t seqs = 0, token = 0, pos = 0, seq = 0, out_token = 0, row_error = 0, page_table = 0, grids = 0;
  uint64_t n_bytes = 0;
  uint32_t n_penalties = 0;  // for which there is room behind the page table and the sampling rules
};

// The largest step: tokens, and rows of logits computed at once.
struct StepSizes {
  uint32_t n_ubatch = 0, max_logit_rows = 0;
};

// How the device turns rows of logits into tokens.
enum class Pick : uint8_t { none, greedy, by_rules };

struct PlanKey {
  uint32_t n_tokens = 0;  // 0: the head alone, over rows left in the residual stream
  uint32_t n_out = 0;     // 0: no head
  bool capture = false, force = false;
  Pick pick = Pick::none;
  bool embeddings = false;  // in place of logits
  auto operator<=>(const PlanKey&) const = default;
};

struct PreparedStep {
  std::shared_ptr<backend::Buffer> arena;
  std::unique_ptr<ops::Graph> graph;  // keeps captured and forced blocks
  std::unique_ptr<backend::Plan> plan;
};

class Core {
 public:
  Core(gguf::File f) : file(std::move(f)) {}

  gguf::File file;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<models::Model> model;
  models::WeightMemory weights;
  std::vector<backend::Buffer> buffers;
  ops::Memory memory;
  std::map<uint32_t, LayerCache> caches;  // by layer
  std::vector<LayerRing> rings;
  uint64_t state_floats = 0;  // of a sequence's state without the rows for rewinding
  StepLayout step_layout;
  std::vector<std::byte> step_image;  // step_layout.n_bytes: the next step's inputs, before they are uploaded
  std::shared_ptr<backend::Buffer> arena;

  ModelInfo model_info;
  EngineInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;
  uint32_t n_ubatch = 0, max_sequences = 0, max_logit_rows = 0;
  uint64_t fingerprint = 0;  // of the model and the cache's form: what a saved sequence must agree with

  PagePool pages;
  std::vector<uint32_t> free_slots;

  // The plan for a step of at most these sizes, made when it is first needed.
  Result<PreparedStep*> prepared(PlanKey key);
  // Scratch memory of a step in a context of n_ctx.
  uint64_t arena_bytes(PlanKey key, uint32_t n_ctx) const;
  // Of any step: one of few tokens can need more than the largest, for the ranges of a long context.
  uint64_t most_arena_bytes(const StepSizes& sizes, uint32_t n_ctx) const;
  // Appends a step's launches.
  void record(ops::Graph& g, PlanKey key) const;
  // Device address of a slot's recurrent state.
  uint64_t slot_address(uint32_t slot) const { return state_address + slot * memory.slot_stride * sizeof(float); }
  uint64_t state_address = 0;

 private:
  std::map<PlanKey, PreparedStep> plans_;
};

StepSizes step_sizes(const EngineOptions& options, uint32_t n_ctx);
StepLayout step_layout(const StepSizes& sizes, const EngineOptions& options, uint32_t n_ctx);

// Cache, state, step and scratch memory for a loaded model's configuration. Sets core.info's sizes.
Result<void> allocate_memory(Core& core, const EngineOptions& options);
// Bytes that may be allocated; 0 where nothing tells.
uint64_t free_memory(const EngineOptions& options);
// A sequence's recurrent state at its present length: layer by layer, the rows it needs, oldest first.
Result<std::vector<float>> read_state(const Core& core, uint32_t slot, uint32_t n_tokens);
Result<void> write_state(const Core& core, uint32_t slot, uint32_t n_tokens, std::span<const float> state);
// How many positions are asked for, or are the model's.
Result<uint32_t> wanted_n_ctx(const models::Config& config, const EngineOptions& options, EngineInfo& info);
// How many of them host memory holds, and why not more. `weight_bytes`: what the weights will take of it.
uint32_t choose_n_ctx(const models::Config& config, const EngineOptions& options, uint32_t wanted,
                      uint64_t weight_bytes, EngineInfo& info);
uint64_t cache_bytes_per_token(const models::Config& config, Type type_k, Type type_v);
ModelInfo describe_model(const gguf::File& file, const models::Config& config);

}  // namespace sluice::engine

namespace sluice {

struct Sequence::Impl {
  std::shared_ptr<engine::Core> core;
  std::vector<Token> tokens;
  std::vector<uint32_t> pages;
  uint32_t slot = 0;
  std::map<uint32_t, std::vector<float>> checkpoints;  // length -> recurrent state
  // The shortest length whose recurrent state the slot still holds.
  uint32_t rewind_limit = 0;

  explicit Impl(std::shared_ptr<engine::Core> shared_core) : core(std::move(shared_core)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Drops pages that hold no position below n.
  void keep_pages_for(uint32_t n);
  void clear();
  void append(std::span<const Token> more);
};

}  // namespace sluice
