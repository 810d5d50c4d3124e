// From logits to the next token. One Sampler per sequence; not thread-safe.
//
// Chain, in this order (the usual one of this field): repetition, presence and frequency penalties, top-k, top-p,
// min-p, temperature, then a draw. Filters see probabilities at temperature 1, top-p those that top-k left, normalised
// anew. At least one candidate stays. A logit of -inf is never chosen.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sluice/result.h"
#include "sluice/tokenizer.h"

namespace sluice {

struct SamplingParams {
  float temperature = 0.8f;  // <= 0: greedy
  int32_t top_k = 40;        // <= 0: all
  float top_p = 0.95f;       // >= 1: off
  float min_p = 0.05f;       // <= 0: off
  float repeat_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t penalty_last_n = 64;  // tokens the penalties look back on; 0: none, -1: all
  uint64_t seed = 0;

  // `invalid_argument`, naming the field, for values that mean nothing (NaN, negative top_p, repeat_penalty <= 0 ...).
  Result<void> check() const;
  // The file's general.sampling.* keys over these defaults. Keys of a wrong kind are `corrupt_file`.
  static Result<SamplingParams> from_file(const gguf::File& file);
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);
  // Tokens of the prompt and of the answer, in order: what the penalties look at.
  void accept(Token id);
  // logits: f32 (n_vocab). `internal` with a message that says so where they hold a NaN or no finite value.
  // The draw depends on the seed and the number of tokens sampled so far alone (counter-based).
  // Ties go to the lower id.
  Result<Token> sample(std::span<const float> logits);
  // The same without counting it: the next call draws the same number.
  Result<Token> pick(std::span<const float> logits) const;
  // Counts a token that pick(), or a device, has sampled.
  void advance() { ++n_sampled_; }
  // True where sample() is argmax() of the logits, whatever came before.
  bool greedy() const { return params_.temperature <= 0 && !penalises(); }
  // The candidates left after the filters, most probable first, with their final probabilities. For tests and logprobs.
  struct Candidate {
    Token id;
    float probability;
  };
  Result<std::vector<Candidate>> candidates(std::span<const float> logits) const;

  // What a device needs to sample in this one's place (StepInput::sampler), besides the parameters: the number of the
  // next draw, in [0, 1), and what is taken off which logits after the repetition penalty.
  struct Penalty {
    Token id;
    float amount;
  };
  const SamplingParams& params() const { return params_; }
  float next_uniform() const;
  std::vector<Penalty> penalties() const;

 private:
  bool penalises() const;
  // params_ over the logits; nothing drawn yet. Sorted, the most probable first.
  Result<void> choose(std::span<const float> logits, std::vector<Candidate>& out) const;

  SamplingParams params_;
  std::vector<Token> history_;
  std::unordered_map<Token, uint32_t> counts_;  // of the last penalty_last_n tokens of history_
  mutable std::vector<Candidate> scratch_;
  uint64_t n_sampled_ = 0;
};

// Index of the largest value; ties go to the lower index. -1 where there is a NaN or nothing finite.
int64_t argmax(std::span<const float> logits);

}  // namespace sluice
