// What an architecture file provides: its configuration, its weights, and the launches of a step.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/metadata.h"
#include "models/rope_scaling.h"
#include "models/weights.h"
#include "ops/moe.h"

namespace sluice::models {

// State that cannot be cut at a position: a row of `width` floats for each of the last n_rows tokens. One that sums up
// all tokens, as a delta net's, is the row of the last.
struct StateRing {
  uint32_t n_rows = 0, width = 0;
};

// What a layer keeps for each sequence.
struct LayerSpec {
  bool attention = false;
  uint32_t n_kv_head = 0, d_k = 0, d_v = 0;  // attention
  std::vector<StateRing> state;              // in the order in which a slot holds them
  uint32_t window = 0;                       // positions that a token sees, itself among them; 0: all
  bool moe = false;
  uint32_t n_expert_used = 0;  // of a routed layer

  uint64_t state_floats(uint32_t n_rewind = 0) const;  // with room for as many more rows of each
};

struct Config {
  std::string architecture;
  uint32_t n_layer = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0;
  uint32_t n_expert = 0, n_expert_used = 0;  // used: the most of all layers
  float eps = 0;
  float rope_base = 0;
  RopeScaling rope;
  float logit_scale = 1;  // logits are divided by it
  uint32_t n_rot = 0;     // values of a head that are rotated
  std::vector<LayerSpec> layers;

  // Floats of a row that a step gives back: logits, or an embedding.
  uint32_t most_row_floats() const { return n_vocab > n_embd ? n_vocab : n_embd; }
  bool recurrent() const { return state_floats() != 0; }
  uint64_t state_floats(uint32_t n_rewind = 0) const;  // of a sequence
};

// What the user may change.
struct Overrides {
  uint32_t n_expert_used = 0;  // 0: as the file says
};

struct DenseFfn {
  ops::Weight gate, up, down;
};

// The final norm and the output matrix, which most architectures share.
struct Head {
  ops::Vector norm;
  ops::Weight output;
};

class Model {
 public:
  virtual ~Model() = default;
  const Config& config() const { return config_; }

  // Asks the loader for every tensor; again where it did before (first to check, then in earnest). `n_ctx` sizes the
  // rope table; `memory` takes what is made here.
  virtual Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) = 0;
  // Token embedding and all layers; the result stays in the residual stream.
  virtual ops::Residual build(ops::Graph& g) const = 0;
  // Logits of the rows that are wanted, into the graph's memory.
  virtual void build_head(ops::Graph& g, ops::Residual& residual) const;
  // In their place what the output matrix would multiply, (n_out, n_embd), divided by Config::logit_scale.
  void build_embeddings(ops::Graph& g, ops::Residual& residual) const;

 protected:
  explicit Model(Config config) : config_(std::move(config)) {}

  Config config_;
  ops::Weight token_embd_;
  Head head_;
};

// Number of rows of the embedding matrix: the vocabulary, whatever the metadata says.
Result<uint32_t> vocabulary_rows(const gguf::File& file, uint32_t n_embd);
// block_count, embedding_length, context_length, eps, rope base and the vocabulary.
Result<Config> common_config(Metadata& meta);
// expert_count and expert_used_count (with the user's override), checked against each other and the kernels' limits.
// `by_layer`: layers may use numbers of their own.
Result<void> read_experts(Metadata& meta, const Overrides& overrides, Config& config, bool by_layer = false);
// `unsupported` where the state of a sequence is larger than kernels can address.
Result<void> check_state_size(const Config& config);
// The routing rule of an architecture whose defaults are given; expert_gating_func, _norm and _scale of the file come
// before them.
Result<ops::MoeRule> read_moe_rule(Metadata& meta, const Config& config, uint32_t default_gate,
                                   bool default_renormalise = true);
// `output.weight`, or the embedding where there is none.
Result<Head> load_head(WeightLoader& loader, const Config& config, const ops::Weight& token_embd,
                       const std::string& norm_name);
// SwiGLU networks of the layer `prefix`; `ending` follows ffn_gate, ffn_up and ffn_down.
Result<DenseFfn> load_dense_ffn(WeightLoader& loader, const Config& config, uint32_t n_ff, const std::string& prefix,
                                const std::string& ending = ".weight");
// Router and experts of the layer `prefix`; the bias is the architecture's own affair.
Result<ops::MoeWeights> load_moe(WeightLoader& loader, const Config& config, uint32_t n_ff_expert,
                                 const std::string& prefix);
// Biases of the router and of all matrices of the experts, into `w`.
Result<void> load_expert_biases(WeightLoader& loader, const Config& config, uint32_t n_ff_expert,
                                const std::string& prefix, ops::MoeWeights& w);

// The architecture of a file, or `unsupported` naming it and those that are known.
Result<std::unique_ptr<Model>> create(const gguf::File& file, const Overrides& overrides);
std::vector<std::string> architectures();

}  // namespace sluice::models
