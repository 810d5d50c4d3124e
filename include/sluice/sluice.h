/* Sluice for C and for every language that calls C.
 *
 * Objects are opaque; functions return 0 (SLUICE_OK) or a code, and sluice_last_error() then has one line of text. No
 * exception crosses these functions. Structs that callers fill begin with their own size, so that later versions can
 * add fields: set them with the function that gives the defaults. An engine and what was made from it belong to one
 * thread at a time; the objects made from an engine keep it alive, so they may be freed in any order. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/version.h"

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The errors of the C++ headers, in their order, after 0. */
typedef enum sluice_code {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1,
  SLUICE_NOT_FOUND = 2,
  SLUICE_UNSUPPORTED = 3,
  SLUICE_CORRUPT_FILE = 4,
  SLUICE_OUT_OF_MEMORY = 5,
  SLUICE_DEVICE_LOST = 6,
  SLUICE_CANCELLED = 7,
  SLUICE_IO = 8,
  SLUICE_INTERNAL = 9
} sluice_code;

typedef struct sluice_engine sluice_engine;
typedef struct sluice_sequence sluice_sequence;
typedef struct sluice_sampler sluice_sampler;

SLUICE_API const char* sluice_version(void);
/* Of the last call on this thread that failed; valid until the next one that fails. */
SLUICE_API const char* sluice_last_error(void);

/* ---- Engine ---- */

typedef enum sluice_cache_type { SLUICE_CACHE_F16 = 0, SLUICE_CACHE_F32 = 1, SLUICE_CACHE_Q8_0 = 2 } sluice_cache_type;

typedef struct sluice_options {
  size_t struct_bytes;
  const char* backend;     /* "auto" or "cpu"; NULL: auto */
  const char* cpu_isa;     /* NULL: the best this CPU has */
  uint32_t n_threads;      /* 0: the fast cores that may be used */
  uint32_t n_ctx;          /* positions per sequence; 0: the model's, or what fits */
  uint32_t n_ubatch;       /* tokens computed together at most; 0: what suits the device */
  uint32_t max_sequences;  /* that may be alive at a time */
  uint64_t n_cache_tokens; /* positions of all sequences together; 0: n_ctx for each */
  int32_t type_k, type_v;  /* sluice_cache_type */
  uint32_t n_expert_used;  /* 0: as the model says */
  uint8_t reference;       /* 1: plain F32 kernels and cache */
  uint8_t no_repack, no_mmap;
} sluice_options;

typedef struct sluice_info {
  size_t struct_bytes;
  uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
  uint32_t n_expert, n_expert_used;
  uint32_t n_ctx, n_threads;
  uint64_t n_parameters, n_parameters_used;
  uint64_t file_bytes, weight_bytes, cache_bytes, scratch_bytes;
  uint8_t has_tokenizer;
} sluice_info;

SLUICE_API void sluice_default_options(sluice_options* options);
SLUICE_API sluice_code sluice_load(const char* path, const sluice_options* options, sluice_engine** engine);
SLUICE_API void sluice_free(sluice_engine* engine);
/* Set info->struct_bytes first. */
SLUICE_API sluice_code sluice_get_info(const sluice_engine* engine, sluice_info* info);
/* Valid as long as the engine. */
SLUICE_API const char* sluice_architecture(const sluice_engine* engine);
SLUICE_API const char* sluice_model_name(const sluice_engine* engine);

/* ---- Text ---- */

enum { SLUICE_NO_BOS = 1, SLUICE_PARSE_SPECIAL = 2, SLUICE_SHOW_SPECIAL = 4 };

/* Both write at most `capacity` elements and always set the count that is needed; a second call with that capacity gets
 * all. `text` need not end with a zero byte, and none is written. */
SLUICE_API sluice_code sluice_tokenize(const sluice_engine* engine, const char* text, size_t n_bytes, uint32_t flags,
                                       int32_t* ids, size_t capacity, size_t* n_ids);
SLUICE_API sluice_code sluice_detokenize(const sluice_engine* engine, const int32_t* ids, size_t n_ids, uint32_t flags,
                                         char* text, size_t capacity, size_t* n_bytes);
SLUICE_API int32_t sluice_bos(const sluice_engine* engine);            /* -1: none */
SLUICE_API int sluice_is_end(const sluice_engine* engine, int32_t id); /* generation stops here */

/* ---- Sequences ---- */

SLUICE_API sluice_code sluice_sequence_new(sluice_engine* engine, sluice_sequence** sequence);
SLUICE_API void sluice_sequence_free(sluice_sequence* sequence);
SLUICE_API sluice_code sluice_sequence_fork(const sluice_sequence* sequence, sluice_sequence** fork);
SLUICE_API uint32_t sluice_sequence_length(const sluice_sequence* sequence);
/* Models with convolution state go back only to 0 and to checkpoints. */
SLUICE_API sluice_code sluice_sequence_truncate(sluice_sequence* sequence, uint32_t n_tokens);
SLUICE_API sluice_code sluice_sequence_checkpoint(sluice_sequence* sequence);
SLUICE_API sluice_code sluice_sequence_save(const sluice_sequence* sequence, const char* path);
SLUICE_API sluice_code sluice_sequence_load(sluice_sequence* sequence, const char* path);

/* ---- Steps ---- */

typedef enum sluice_logits { SLUICE_LOGITS_NONE = 0, SLUICE_LOGITS_LAST = 1, SLUICE_LOGITS_ALL = 2 } sluice_logits;

typedef struct sluice_input {
  sluice_sequence* sequence;
  const int32_t* tokens;
  size_t n_tokens;
  int32_t logits; /* sluice_logits */
} sluice_input;

/* Appends tokens to sequences of one engine and computes them together. Rows of n_vocab logits follow the inputs in
 * order. `capacity` counts floats: where it is less than the rows asked for need, nothing is computed. */
SLUICE_API sluice_code sluice_step(sluice_engine* engine, const sluice_input* inputs, size_t n_inputs, float* logits,
                                   size_t capacity, size_t* n_rows);

/* ---- Sampling ---- */

typedef struct sluice_sampling {
  size_t struct_bytes;
  float temperature; /* <= 0: greedy */
  int32_t top_k;
  float top_p, min_p;
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t penalty_last_n;
  uint64_t seed;
} sluice_sampling;

SLUICE_API void sluice_default_sampling(sluice_sampling* sampling);
SLUICE_API sluice_code sluice_sampler_new(const sluice_sampling* sampling, sluice_sampler** sampler);
SLUICE_API void sluice_sampler_free(sluice_sampler* sampler);
/* Tokens of the prompt and of the answer, in order: what the penalties look at. */
SLUICE_API sluice_code sluice_sampler_accept(sluice_sampler* sampler, int32_t id);
SLUICE_API sluice_code sluice_sampler_sample(sluice_sampler* sampler, const float* logits, size_t n_vocab, int32_t* id);

#ifdef __cplusplus
}
#endif
#endif
