#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "sluice/engine.h"
#include "sluice/sampler.h"
#include "sluice/sluice.h"

using namespace sluice;

struct sluice_engine {
  std::shared_ptr<Engine> engine;
};
struct sluice_sequence {
  std::shared_ptr<Engine> engine;  // declared first: outlives the sequence
  Sequence sequence;
};
struct sluice_sampler {
  Sampler sampler;
};

namespace {

constexpr sluice_code code_of(Code code) { return static_cast<sluice_code>(code); }
static_assert(code_of(Code::invalid_argument) == SLUICE_INVALID_ARGUMENT &&
              code_of(Code::not_found) == SLUICE_NOT_FOUND && code_of(Code::unsupported) == SLUICE_UNSUPPORTED &&
              code_of(Code::corrupt_file) == SLUICE_CORRUPT_FILE &&
              code_of(Code::out_of_memory) == SLUICE_OUT_OF_MEMORY &&
              code_of(Code::device_lost) == SLUICE_DEVICE_LOST && code_of(Code::cancelled) == SLUICE_CANCELLED &&
              code_of(Code::io) == SLUICE_IO && code_of(Code::internal) == SLUICE_INTERNAL);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

sluice_code fail(const Error& error) {
  last_error() = error.message;
  return code_of(error.code);
}

Error misuse(const char* what) { return {Code::invalid_argument, what}; }

// Runs `f`, which gives a Result<void>; no exception gets out.
template <class F>
sluice_code guarded(F&& f) noexcept {
  try {
    try {
      const Result<void> result = f();
      return result ? SLUICE_OK : fail(result.error());
    } catch (const std::bad_alloc&) {
      return fail(Error{Code::out_of_memory, "out of memory; use a smaller context or model"});
    } catch (const std::exception& e) {
      return fail(Error{Code::internal, e.what()});
    }
  } catch (...) {  // not even room for the message
    return SLUICE_INTERNAL;
  }
}

// The caller's struct, in its version of the header, over today's defaults.
template <class T>
Result<T> read_struct(const T* given, void (*defaults)(T*)) {
  T value;
  defaults(&value);
  if (given == nullptr) return value;
  if (given->struct_bytes < sizeof(size_t) || given->struct_bytes > sizeof(T))
    return misuse("struct_bytes is not the size of the struct; set it with the function that gives the defaults");
  std::memcpy(&value, given, given->struct_bytes);
  return value;
}

Result<Type> cache_type(int32_t type) {
  if (type == SLUICE_CACHE_F16) return Type::F16;
  if (type == SLUICE_CACHE_F32) return Type::F32;
  if (type == SLUICE_CACHE_Q8_0) return Type::Q8_0;
  return misuse("there is no such cache type; use a value of sluice_cache_type");
}

Result<const Tokenizer*> tokenizer_of(const sluice_engine* engine) {
  if (engine == nullptr) return misuse("the engine is NULL; load one");
  const Tokenizer* tokenizer = engine->engine->tokenizer().get();
  if (tokenizer == nullptr) return Error{Code::not_found, "the model has no vocabulary; give token ids"};
  return tokenizer;
}

// Copies what fits; the count tells the whole length.
template <class T, class From>
Result<void> give(const From& from, T* to, size_t capacity, size_t* count) {
  if (count == nullptr || (to == nullptr && capacity > 0)) return misuse("a result has no place; pass pointers");
  *count = from.size();
  const size_t n = std::min(capacity, from.size());
  if (n > 0) std::memcpy(to, from.data(), n * sizeof(T));
  return {};
}

}  // namespace

const char* sluice_version(void) { return SLUICE_VERSION; }
const char* sluice_last_error(void) { return last_error().c_str(); }

void sluice_default_options(sluice_options* options) {
  const EngineOptions d;
  *options = {};
  options->struct_bytes = sizeof(sluice_options);
  options->n_ubatch = d.n_ubatch;
  options->max_sequences = d.max_sequences;
}

sluice_code sluice_load(const char* path, const sluice_options* options, sluice_engine** engine) {
  return guarded([&]() -> Result<void> {
    if (path == nullptr || engine == nullptr) return misuse("path or result is NULL; pass both");
    *engine = nullptr;
    const sluice_options o = TRY(read_struct(options, sluice_default_options));
    EngineOptions e;
    if (o.backend != nullptr) e.backend = o.backend;
    if (o.cpu_isa != nullptr) e.cpu_isa = o.cpu_isa;
    e.n_threads = o.n_threads;
    e.n_ctx = o.n_ctx;
    e.n_ubatch = o.n_ubatch;
    e.max_sequences = o.max_sequences;
    e.n_cache_tokens = o.n_cache_tokens;
    e.type_k = TRY(cache_type(o.type_k));
    e.type_v = TRY(cache_type(o.type_v));
    e.n_expert_used = o.n_expert_used;
    e.reference = o.reference != 0;
    e.repack = o.no_repack == 0;
    e.mmap = o.no_mmap == 0;
    std::shared_ptr<Engine> loaded = TRY(Engine::load(path, e));
    *engine = new sluice_engine{std::move(loaded)};
    return {};
  });
}

void sluice_free(sluice_engine* engine) { delete engine; }

sluice_code sluice_get_info(const sluice_engine* engine, sluice_info* info) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr || info == nullptr) return misuse("engine or info is NULL; pass both");
    if (info->struct_bytes < sizeof(size_t) || info->struct_bytes > sizeof(sluice_info))
      return misuse("info->struct_bytes is not the size of the struct; set it before the call");
    const ModelInfo& m = engine->engine->model();
    const EngineInfo& e = engine->engine->info();
    const sluice_info full{.struct_bytes = info->struct_bytes,
                           .n_layer = m.n_layer,
                           .n_embd = m.n_embd,
                           .n_vocab = m.n_vocab,
                           .n_ctx_train = m.n_ctx_train,
                           .n_expert = m.n_expert,
                           .n_expert_used = m.n_expert_used,
                           .n_ctx = e.n_ctx,
                           .n_threads = e.n_threads,
                           .n_parameters = m.n_parameters,
                           .n_parameters_used = m.n_parameters_used,
                           .file_bytes = m.file_bytes,
                           .weight_bytes = e.weight_bytes,
                           .cache_bytes = e.cache_bytes,
                           .scratch_bytes = e.scratch_bytes,
                           .has_tokenizer = static_cast<uint8_t>(engine->engine->tokenizer() != nullptr)};
    std::memcpy(info, &full, info->struct_bytes);
    return {};
  });
}

const char* sluice_architecture(const sluice_engine* engine) {
  return engine == nullptr ? "" : engine->engine->model().architecture.c_str();
}
const char* sluice_model_name(const sluice_engine* engine) {
  return engine == nullptr ? "" : engine->engine->model().name.c_str();
}

sluice_code sluice_tokenize(const sluice_engine* engine, const char* text, size_t n_bytes, uint32_t flags, int32_t* ids,
                            size_t capacity, size_t* n_ids) {
  return guarded([&]() -> Result<void> {
    const Tokenizer* tokenizer = TRY(tokenizer_of(engine));
    if (text == nullptr && n_bytes > 0) return misuse("text is NULL; pass the bytes");
    const EncodeOptions how{.add_bos = (flags & SLUICE_NO_BOS) == 0,
                            .parse_special = (flags & SLUICE_PARSE_SPECIAL) != 0};
    return give(tokenizer->encode({text, n_bytes}, how), ids, capacity, n_ids);
  });
}

sluice_code sluice_detokenize(const sluice_engine* engine, const int32_t* ids, size_t n_ids, uint32_t flags, char* text,
                              size_t capacity, size_t* n_bytes) {
  return guarded([&]() -> Result<void> {
    const Tokenizer* tokenizer = TRY(tokenizer_of(engine));
    if (ids == nullptr && n_ids > 0) return misuse("ids is NULL; pass the ids");
    return give(tokenizer->decode({ids, n_ids}, (flags & SLUICE_SHOW_SPECIAL) != 0), text, capacity, n_bytes);
  });
}

int32_t sluice_bos(const sluice_engine* engine) {
  return engine == nullptr || engine->engine->tokenizer() == nullptr ? -1 : engine->engine->tokenizer()->bos();
}
int sluice_is_end(const sluice_engine* engine, int32_t id) {
  return engine != nullptr && engine->engine->tokenizer() != nullptr && engine->engine->tokenizer()->is_end(id) ? 1 : 0;
}

sluice_code sluice_sequence_new(sluice_engine* engine, sluice_sequence** sequence) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr || sequence == nullptr) return misuse("engine or result is NULL; pass both");
    *sequence = nullptr;
    *sequence = new sluice_sequence{engine->engine, TRY(engine->engine->new_sequence())};
    return {};
  });
}

void sluice_sequence_free(sluice_sequence* sequence) { delete sequence; }

sluice_code sluice_sequence_fork(const sluice_sequence* sequence, sluice_sequence** fork) {
  return guarded([&]() -> Result<void> {
    if (sequence == nullptr || fork == nullptr) return misuse("sequence or result is NULL; pass both");
    *fork = nullptr;
    *fork = new sluice_sequence{sequence->engine, TRY(sequence->sequence.fork())};
    return {};
  });
}

uint32_t sluice_sequence_length(const sluice_sequence* sequence) {
  return sequence == nullptr ? 0 : sequence->sequence.n_tokens();
}

sluice_code sluice_sequence_truncate(sluice_sequence* sequence, uint32_t n_tokens) {
  return guarded([&]() -> Result<void> {
    if (sequence == nullptr) return misuse("the sequence is NULL; make one");
    return sequence->sequence.truncate(n_tokens);
  });
}

sluice_code sluice_sequence_checkpoint(sluice_sequence* sequence) {
  return guarded([&]() -> Result<void> {
    if (sequence == nullptr) return misuse("the sequence is NULL; make one");
    return sequence->sequence.checkpoint();
  });
}

sluice_code sluice_sequence_save(const sluice_sequence* sequence, const char* path) {
  return guarded([&]() -> Result<void> {
    if (sequence == nullptr || path == nullptr) return misuse("sequence or path is NULL; pass both");
    return sequence->sequence.save(path);
  });
}

sluice_code sluice_sequence_load(sluice_sequence* sequence, const char* path) {
  return guarded([&]() -> Result<void> {
    if (sequence == nullptr || path == nullptr) return misuse("sequence or path is NULL; pass both");
    return sequence->sequence.load(path);
  });
}

sluice_code sluice_step(sluice_engine* engine, const sluice_input* inputs, size_t n_inputs, float* logits,
                        size_t capacity, size_t* n_rows) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr || inputs == nullptr || (logits == nullptr && capacity > 0))
      return misuse("an argument is NULL; pass all");
    std::vector<StepInput> steps;
    size_t needed = 0;
    for (const sluice_input& in : std::span(inputs, n_inputs)) {
      if (in.sequence == nullptr || in.sequence->engine != engine->engine || (in.tokens == nullptr && in.n_tokens > 0))
        return misuse("a sequence is NULL or of another engine, or tokens are NULL; pass those of this engine");
      if (in.logits < SLUICE_LOGITS_NONE || in.logits > SLUICE_LOGITS_ALL)
        return misuse("there is no such choice of logits; use a value of sluice_logits");
      steps.push_back({.sequence = &in.sequence->sequence,
                       .tokens = {in.tokens, in.n_tokens},
                       .logits = static_cast<Logits>(in.logits)});
      needed += in.logits == SLUICE_LOGITS_ALL ? in.n_tokens : in.logits == SLUICE_LOGITS_LAST ? 1 : 0;
    }
    if (capacity / std::max<uint32_t>(engine->engine->model().n_vocab, 1) < needed)
      return misuse("the place for logits is too small; give rows x n_vocab floats");
    const StepResult result = TRY(engine->engine->step(steps));
    // A failed row is NaN, which the sampler refuses; the others are good.
    if (!result.logits.empty()) std::memcpy(logits, result.logits.data(), result.logits.size() * sizeof(float));
    if (n_rows != nullptr) *n_rows = result.n_rows();
    return {};
  });
}

void sluice_default_sampling(sluice_sampling* sampling) {
  const SamplingParams d;
  *sampling = {sizeof(sluice_sampling), d.temperature,       d.top_k,          d.top_p, d.min_p, d.repeat_penalty,
               d.presence_penalty,      d.frequency_penalty, d.penalty_last_n, d.seed};
}

sluice_code sluice_sampler_new(const sluice_sampling* sampling, sluice_sampler** sampler) {
  return guarded([&]() -> Result<void> {
    if (sampler == nullptr) return misuse("the result is NULL; pass a place for it");
    *sampler = nullptr;
    const sluice_sampling s = TRY(read_struct(sampling, sluice_default_sampling));
    const SamplingParams params{
        s.temperature,       s.top_k,          s.top_p, s.min_p, s.repeat_penalty, s.presence_penalty,
        s.frequency_penalty, s.penalty_last_n, s.seed};
    TRY(params.check());
    *sampler = new sluice_sampler{Sampler(params)};
    return {};
  });
}

void sluice_sampler_free(sluice_sampler* sampler) { delete sampler; }

sluice_code sluice_sampler_accept(sluice_sampler* sampler, int32_t id) {
  return guarded([&]() -> Result<void> {
    if (sampler == nullptr) return misuse("the sampler is NULL; make one");
    sampler->sampler.accept(id);
    return {};
  });
}

sluice_code sluice_sampler_sample(sluice_sampler* sampler, const float* logits, size_t n_vocab, int32_t* id) {
  return guarded([&]() -> Result<void> {
    if (sampler == nullptr || logits == nullptr || id == nullptr) return misuse("an argument is NULL; pass all");
    *id = TRY(sampler->sampler.sample({logits, n_vocab}));
    return {};
  });
}
