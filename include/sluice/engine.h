// Models, sequences and steps: the engine as programs use it.
//
//   auto engine = Engine::load("model.gguf", {});
//   auto sequence = (*engine)->new_sequence();
//   auto result = (*engine)->step({{.sequence = &*sequence, .tokens = ids}});
//
// One Engine belongs to one thread at a time, its sequences included. Nothing here prints, exits or reads the
// environment.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/result.h"
#include "sluice/tokenizer.h"
#include "sluice/type.h"

namespace sluice {

class Sampler;

// A LoRA adapter (GGUF) that changes some of a model's weights; what it adds is computed in F32.
struct AdapterOptions {
  std::string path;
  float scale = 1;  // times the file's own
};

struct EngineOptions {
  std::string backend = "auto";  // auto, or one of backend_names()
  int32_t device = -1;           // of a GPU backend: DeviceInfo::idx; -1: the best
  std::string device_limits;     // smaller limits than the GPU's, for tests (docs/add-a-backend.md)
  bool naive_routing = false;    // on a GPU, the host picks the experts: to measure what that costs
  std::string cpu_isa;           // "", scalar, avx2, avx512, neon, neon_i8mm; "": the best this CPU has
  uint32_t n_threads = 0;        // 0: the fast cores that affinity and quota allow
  bool reference = false;        // plain F32 kernels and an F32 cache only
  bool deterministic = false;    // equal bits however many tokens are computed together; slower prefill on a GPU
  bool repack = true;            // repack weights at load into the layout of the fast kernels
  bool mmap = true;
  uint64_t free_memory = 0;    // bytes that weights and cache may count on; 0: what the system and control groups leave
  bool fit = true;             // experts that a GPU's memory does not hold lie in host memory; false: that is an error
  int32_t n_cpu_moe = -1;      // the experts of so many layers lie in host memory; -1: as `fit` says
  uint32_t n_ctx = 0;          // positions per sequence; 0: the model's, or what fits in memory
  uint32_t n_ubatch = 0;       // tokens computed together at most; 0: 512, or 2048 on a GPU with room for them
  uint32_t max_sequences = 1;  // sequences that may be alive at a time (forks included)
  uint32_t n_rewind = 0;       // tokens at its end that any sequence can take back (see truncate): room for drafts
  uint64_t n_cache_tokens = 0;  // positions in the cache, all sequences together; 0: n_ctx for each
  Type type_k = Type::F16;      // F32, F16 or Q8_0
  Type type_v = Type::F16;
  std::vector<AdapterOptions> adapters;                                    // all of them add up
  uint32_t n_expert_used = 0;                                              // 0: as the model says
  std::string pre_tokenizer;                                               // replaces the file's tokenizer.ggml.pre
  bool need_tokenizer = false;                                             // a file without a vocabulary is an error
  std::function<bool(uint64_t done_bytes, uint64_t total_bytes)> on_load;  // progress; false cancels
};

struct ModelInfo {
  std::string path, architecture, name;
  uint32_t n_layer = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0;
  uint32_t n_expert = 0, n_expert_used = 0;
  std::vector<uint32_t> moe_layers;
  uint64_t n_parameters = 0, n_parameters_used = 0;  // used per token
  int32_t pooling_type = -1;  // how the file wants embeddings pooled, by its own numbers; -1: it does not say
  uint64_t file_bytes = 0;
  uint64_t weight_bytes_per_token = 0;  // read to decode one token, cache not counted
  std::vector<std::string> unused_tensors;
  std::vector<std::string> slow_tensors;  // those whose type has no fast path here, as "name (TYPE)"
};

struct EngineInfo {
  std::string backend, device, isa;
  uint32_t n_threads = 0;
  uint32_t n_ctx = 0;
  uint32_t n_ubatch = 0;     // tokens computed together at most
  std::string n_ctx_reason;  // not empty where n_ctx is less than asked for or than the model's
  uint64_t weight_bytes = 0, cache_bytes = 0, scratch_bytes = 0;
  uint64_t state_bytes = 0;                        // recurrent state, part of cache_bytes
  uint64_t host_weight_bytes = 0;                  // part of weight_bytes: experts that a GPU reads in host memory
  std::vector<uint32_t> host_layers;               // whose they are
  std::string host_layers_reason;                  // why; not empty where a GPU has any, or was told to
  uint64_t free_bytes_before = 0, free_bytes = 0;  // of a GPU's memory, before and after loading; 0: not known
  Type type_k = Type::F16, type_v = Type::F16;
  bool state_can_be_cut = true;  // false: truncate() works as it says there for convolution state
  uint32_t n_rewind = 0;         // tokens that truncate() can take back anywhere; UINT32_MAX: all
};

// What the threads and instructions that a backend uses reach in a second at best. 0: not known, or not there.
struct Limits {
  double read_bytes = 0;       // of memory
  double int8_operations = 0;  // a multiply-add is two
  double f32_operations = 0;
};

// Of the backend that these options choose; loads nothing. Takes up to a second, and 512 MiB for that
// long: so call it before a model takes its memory.
Result<Limits> measure_limits(const EngineOptions& options);

// A step, as far as its cost depends on it.
struct StepShape {
  uint32_t n_tokens = 1;     // of all sequences together; at most a ubatch
  uint32_t n_logits = 1;     // rows of logits
  uint32_t n_sequences = 1;  // they share the tokens evenly
  uint64_t n_before = 0;     // positions that each sequence has in the cache
};

// What a stage of a step must move and compute. Bytes are those of weights, cache and state, each once; which experts
// many tokens share is not known, so their number is the one to expect of an even choice.
struct StageCost {
  std::string stage;
  double bytes = 0, int8_operations = 0, f32_operations = 0;
};

struct EngineCounters {
  uint64_t host_reads = 0, host_read_bytes = 0, submits = 0;
};

// One text in the cache: its pages (shared with forks until they differ) and its recurrent state.
class Sequence {
 public:
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

  uint32_t n_tokens() const;
  std::span<const Token> tokens() const;
  // A copy that goes its own way; cached positions are shared.
  Result<Sequence> fork() const;
  // Forgets all tokens from n on. A model with convolution state can do so only at 0, where checkpoint() was called,
  // and at the last EngineOptions::n_rewind tokens that were ever computed since the last load() or return to a
  // checkpoint: otherwise `unsupported`, and nothing changes.
  Result<void> truncate(uint32_t n);
  // Keeps the recurrent state of the present length, so that truncate() can come back here. Models without need none.
  Result<void> checkpoint();
  // Tokens, cache and state, with a checksum; written whole or not at all. load() refuses another model's or another
  // cache type's.
  Result<void> save(const std::string& path) const;
  Result<void> load(const std::string& path);

  struct Impl;
  explicit Sequence(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

enum class Logits : uint8_t { none, last, all };

// `sampler`: its rows' tokens are wanted in place of their logits, sampled on the device where that reads less back. It
// has accepted the text up to the first token, with Logits::last all of them; whoever takes a token from the result
// calls its advance(). With Logits::all the tokens after the first are a draft: a row's token is that of
// Sampler::pick() if the draft was right up to there, and -1 behind the first row where it was not.
struct StepInput {
  Sequence* sequence = nullptr;
  std::span<const Token> tokens;
  Logits logits = Logits::last;
  const Sampler* sampler = nullptr;
};

// Expert choices by layer index. Rows follow the tokens of the step in order.
struct Routing {
  uint32_t n_used = 0;  // the most of all layers
  uint32_t n_expert = 0;
  struct Layer {
    uint32_t n_used = 0;            // experts per token of this layer
    std::vector<uint32_t> experts;  // (n_tokens, n_used), best first
    std::vector<float> weights;     // (n_tokens, n_used), as applied
    std::vector<float> gate;        // (n_tokens, n_expert) gate logits; only where asked for, as is
    std::vector<float> score;       // (n_tokens, n_expert) what the choice is made by: probability, with any bias
  };
  std::map<uint32_t, Layer> layers;
};

struct StepOptions {
  bool routing = false;             // report the choices (read back: for tools)
  bool gate = false;                // and the gate logits and scores
  bool greedy = false;              // the most probable token of each row, in place of its logits; a sampler goes first
  bool embeddings = false;          // the final states in place of logits; with neither `greedy` nor a sampler
  const Routing* forced = nullptr;  // take these experts, weighted by the model's own rule
  std::function<bool(uint32_t done_tokens, uint32_t total_tokens)> on_progress;  // after every ubatch; false cancels
};

struct StepResult {
  uint32_t n_vocab = 0;
  std::vector<uint32_t> first_row;  // per input: its first row in `logits`; its last row is the next one's first - 1
  std::vector<float> logits;        // (n_rows, n_vocab); empty where every row's token is wanted instead
  std::vector<float> embeddings;    // (n_rows, n_embd) where asked for: after the final norm, of any length
  std::vector<Token> tokens;        // (n_rows) with `greedy` or a sampler; -1 where the row failed or has neither
  std::vector<uint8_t> row_failed;  // per row: 1 where a token's routing could not be computed (all gate logits NaN)
  Routing routing;

  size_t n_rows() const { return row_failed.size(); }
  std::span<const float> row(size_t i) const { return std::span(logits).subspan(i * n_vocab, n_vocab); }
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const std::string& path, const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const ModelInfo& model() const = 0;
  virtual const EngineInfo& info() const = 0;
  virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;  // nullptr where the file has no vocabulary
  virtual Result<Sequence> new_sequence() = 0;

  // Appends tokens to sequences and computes them, in ubatches. All inputs are checked before anything changes: ids in
  // range, room in context and cache, each sequence at most once. An error after that (device, cancelled) leaves the
  // sequences as they were, or empty where their state could not be kept.
  Result<StepResult> step(std::span<const StepInput> inputs, const StepOptions& options = {}) {
    StepResult result;
    if (auto done = step(inputs, options, result); !done) return done.error();
    return result;
  }
  Result<StepResult> step(std::initializer_list<StepInput> inputs, const StepOptions& options = {}) {
    return step(std::span(inputs.begin(), inputs.size()), options);
  }
  // The same into the memory of an earlier result, which loops of many rows gain from. After an error its contents are
  // of no use.
  virtual Result<void> step(std::span<const StepInput> inputs, const StepOptions& options, StepResult& result) = 0;

  virtual EngineCounters counters() const = 0;
  // Seconds per stage (gate, experts, attention, convolution, head, rest) of the steps since the last call; empty when
  // off. One thread reads the clock where the stage changes; nothing else is added to a step.
  virtual void profile(bool on) = 0;
  virtual std::vector<std::pair<std::string, double>> stage_seconds() = 0;
  // By stage, in the order of stage_seconds().
  virtual std::vector<StageCost> cost(const StepShape& shape) const = 0;
};

// What can be said of a file from its header: for `inspect`. Loads no weights.
struct ModelSupport {
  bool supported = false;
  std::vector<std::string> reasons;  // why not, one line each
  std::vector<std::string> unused_tensors;
  uint64_t weight_bytes = 0;
  uint64_t cache_bytes_per_token = 0, state_bytes_per_sequence = 0;
  uint64_t scratch_bytes = 0;
};
ModelSupport model_support(const gguf::File& file);
std::vector<std::string> supported_architectures();

}  // namespace sluice
