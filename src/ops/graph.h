// A Graph records the launches of one step shape: ops append to it, the engine has them prepared once and replays them.
//
// Activations live in one arena. A Tensor is a handle; when the last handle goes, its memory may serve a later launch,
// which is safe because launches run in order. Launches that overlap must therefore have all their outputs allocated
// before the first.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "kernels/all_contracts.h"

namespace sluice::ops {

using backend::Backend;
using backend::Cost;
using backend::Grid;
using backend::KernelId;
using backend::KernelKey;
using backend::Launch;
using backend::Layout;
using backend::Stage;
using kernels::DevPtr;
using kernels::Rows;

struct LowRank;

// A matrix, or a stack of one matrix per expert, in device memory.
struct Weight {
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint64_t address = 0;
  uint32_t m = 0, k = 0;                           // rows, row length
  uint32_t n_expert = 0;                           // 0: a single matrix
  uint64_t expert_table = 0;                       // u64 (n_expert): the experts' addresses
  uint64_t matrix_bytes = 0;                       // of one matrix
  std::shared_ptr<std::vector<LowRank>> low_rank;  // what adapters add; null where none does
  // The forms of its input that products read.
  bool wants_q8() const { return layout == Layout::panel16; }
  bool wants_f32() const { return !wants_q8() || low_rank; }
};

// b (a x) is added to the product of the weight that has this; both f32, of the rank and with as many experts.
struct LowRank {
  Weight a, b;
};

// An f32 vector in device memory: norm weights, biases.
struct Vector {
  uint64_t address = 0;
  uint32_t n = 0;
};

struct RopeTable {
  uint64_t address = 0;  // (n_ctx, n_rot / 2, 2)
  uint32_t n_rot = 0;
  uint32_t style = 0;  // kernels/rope.h
};

// What an attention layer, or a layer with recurrent state, keeps between steps.
struct LayerState {
  uint64_t k_cache = 0, v_cache = 0;
  uint64_t recurrent = 0;  // this layer's part of slot 0
};

class Arena {
 public:
  uint64_t take(uint64_t n_bytes);  // offset, 64-byte aligned
  void give_back(uint64_t offset, uint64_t n_bytes);
  uint64_t peak() const { return peak_; }

 private:
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, below end_
  uint64_t end_ = 0, peak_ = 0;
};

struct Block {
  std::shared_ptr<Arena> arena;
  uint64_t offset = 0, n_bytes = 0, address = 0;
  ~Block() {
    if (arena) arena->give_back(offset, n_bytes);
  }
};

// An f32 activation (rows, n), and the same in 8 or 16 bits where a reader wants that. f32 may be missing where there
// is q8.
struct Tensor {
  std::shared_ptr<Block> f32;
  std::shared_ptr<std::shared_ptr<Block>> q8 = std::make_shared<std::shared_ptr<Block>>();
  std::shared_ptr<std::shared_ptr<Block>> f16 = std::make_shared<std::shared_ptr<Block>>();  // lib/f16_row.h
  Rows rows{kernels::kRowsOfTokens, 1};
  uint32_t n = 0;
};

struct Shape {
  uint32_t n_tokens = 1;  // upper bounds
  uint32_t n_out = 1;
  // For Cost alone; a plan that is to run does not know them.
  uint32_t n_seqs = 1;
  uint64_t n_cached = 0;  // positions in the cache that a token of the step sees
  uint64_t n_seen = 0;    // the same, counted for every token that sees them
};

// Device memory that outlives a Graph; the engine makes it once.
struct Memory {
  uint64_t step = 0;         // StepState
  uint64_t residual = 0;     // f32 (n_ubatch, n_embd): the residual stream
  uint64_t logits = 0;       // f32 (max_logit_rows, n_vocab), or embeddings (max_logit_rows, n_embd)
  uint64_t sampled = 0;      // u32 (max_logit_rows): the tokens that the device picked
  uint64_t slot_stride = 0;  // floats from a sequence's recurrent state to the next
  uint32_t n_ctx = 0;        // positions of a sequence, at most
  uint32_t n_rewind = 0;     // rows of that state beyond those a layer needs
  std::vector<LayerState> layers;
  Type type_k = Type::F16, type_v = Type::F16;
};

// What a routed layer decided, kept for reading back.
struct CapturedRouting {
  uint32_t layer = 0;
  std::shared_ptr<Block> experts, weights, gate;
  uint64_t bias = 0;       // f32 (n_expert), or 0
  uint32_t gate_rule = 0;  // kernels/moe_route.h
  uint32_t n_group = 0, n_group_used = 0, n_group_best = 0;
};

class Graph {
 public:
  // `arena_address` 0 measures: the launches are then good for nothing but arena_bytes().
  Graph(Backend& backend, const Memory& memory, Shape shape, uint64_t arena_address)
      : backend_(backend), memory_(memory), shape_(shape), arena_address_(arena_address) {}

  Backend& backend() { return backend_; }
  const Memory& memory() const { return memory_; }
  const Shape& shape() const { return shape_; }
  DevPtr<kernels::StepState> step() const { return {memory_.step}; }
  uint64_t max_rows(Rows rows) const {
    return uint64_t{rows.of == kernels::kRowsOfOut ? shape_.n_out : shape_.n_tokens} * rows.per;
  }

  std::shared_ptr<Block> allocate(uint64_t n_bytes);
  Tensor tensor(Rows rows, uint32_t n);

  // Appends a launch. Its stage is the one set last. What comes back is good until the next one.
  template <class Args>
  Launch& launch(KernelKey key, const Args& args, Grid grid, Cost cost = {}, bool overlaps_previous = false) {
    Launch launch = Launch::of(key, args, grid, stage_);
    launch.cost = cost;
    launch.overlaps_previous = overlaps_previous && !launches_.empty();
    launches_.push_back(launch);
    return launches_.back();
  }
  void set_stage(Stage stage) { stage_ = stage; }

  const std::vector<Launch>& launches() const { return launches_; }
  uint64_t arena_bytes() const { return arena_->peak(); }

  // Routing read back, or forced, for tools.
  bool capture = false;
  std::vector<CapturedRouting> captured;
  // layer -> u32 (n_tokens, n_used), filled before each run: so they are allocated before anything else and never given
  // back.
  std::map<uint32_t, std::shared_ptr<Block>> forced;

 private:
  Backend& backend_;
  const Memory& memory_;
  Shape shape_;
  uint64_t arena_address_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  Stage stage_ = Stage::rest;
  std::vector<Launch> launches_;
};

}  // namespace sluice::ops
