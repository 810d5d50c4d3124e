// Speculation by prompt lookup: where the text so far ends like an earlier part of it, that part's continuation is a
// draft. A step computes the draft's tokens together, which shares the reads of weights, and the sampler decides: what
// it would not have chosen is taken back. Sums do not depend on the batch, so the output is that of one token at a
// time.
//
//   Speculator speculator;  // the model: EngineOptions::n_rewind = SpeculationParams::n_most
//   for (Token id : prompt) speculator.accept(id);
//   for (Token id = first;;) {
//     auto step = engine.step({{&sequence, speculator.propose(id, room), Logits::all}});
//     size_t row = 0;
//     while (speculator.take(id = sampler.sample(step->row(row)))) ++row;
//     sequence.truncate(sequence.n_tokens() - speculator.n_unused());
//   }
//
// One Speculator per sequence; not thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sluice/tokenizer.h"

namespace sluice {

struct SpeculationParams {
  uint32_t n_most = 16;  // tokens drafted at a time at most
  // What a step costs: 1, plus first_cost and token_cost for each drafted token. Drafts are as long as pays by this.
  double first_cost = 0.15;
  double token_cost = 0.22;
};

struct SpeculationCounts {
  uint64_t n_steps = 0;     // proposals, those without a draft included
  uint64_t n_drafted = 0;   // tokens
  uint64_t n_accepted = 0;  // of those
};

class Speculator {
 public:
  explicit Speculator(const SpeculationParams& params = {});

  // A token of the prompt, in order. Guesses about the prompt itself teach how far guesses can be trusted.
  void accept(Token id);
  // The tokens of the next step: `id`, which the text goes on with, and a draft of at most `most` tokens. Valid until
  // the next call.
  std::span<const Token> propose(Token id, uint32_t most);
  // The sampler chose `id` from the logits of the step's next row (the first call: row 0). True where the draft says
  // the same, so that the following row is the logits after `id`; false ends the step: `id` is the next one to propose.
  bool take(Token id);
  // Tokens of the last proposal, at its end, that the text does not have.
  uint32_t n_unused() const { return static_cast<uint32_t>(proposal_.size()) - n_taken_; }
  const SpeculationCounts& counts() const { return counts_; }

 private:
  // How often guesses after a match of some length came true, the newest weighing most.
  struct Record {
    double right, all;
    double rate() const { return right / all; }
  };
  static constexpr uint32_t kBuckets = 7;
  static uint32_t bucket(uint32_t n_matching);

  void learn(Token id);
  void find_match();
  uint32_t best_length(uint32_t most) const;
  Token guess(size_t i) const;  // the i-th token after the text

  SpeculationParams params_;
  std::vector<Token> text_;
  // Ends of the text's pairs of tokens: the last one of each pair, and for each the one before.
  std::unordered_map<uint64_t, uint32_t> last_;
  std::vector<uint32_t> before_;
  uint32_t match_ = 0;       // text_[match_] is guessed to be the next token
  uint32_t n_matching_ = 0;  // tokens before match_ that the text's end repeats; 0: no guess
  std::array<Record, kBuckets> records_;
  std::vector<Token> proposal_;
  uint32_t n_taken_ = 0;  // of proposal_
  SpeculationCounts counts_;
};

}  // namespace sluice
