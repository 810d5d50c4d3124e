#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/sampler.h"

namespace sluice::engine {
namespace {

constexpr double kWhole = 0x1p32;  // of shares

// Calls use(sampler) for each row, with the sampler as it stands there, until it returns false.
template <class Use>
void for_rows(const StepInput& input, const Use& use) {
  if (!use(*input.sampler) || n_rows_of(input) == 1) return;
  Sampler ahead = *input.sampler;
  for (const Token id : input.tokens.subspan(1)) {
    ahead.accept(id);
    ahead.advance();
    if (!use(ahead)) return;
  }
}

kernels::SamplingRule rule_of(const Sampler& sampler) {
  const SamplingParams& p = sampler.params();
  kernels::SamplingRule rule{};
  rule.temperature = p.temperature;
  rule.repeat_penalty = p.repeat_penalty;
  rule.top_k = p.top_k > 0 ? static_cast<uint32_t>(p.top_k) : 0;
  rule.top_p = p.top_p < 1 ? static_cast<uint32_t>(std::max(p.top_p, 0.0f) * kWhole) : kernels::kTopPOff;
  // A probability of min_p times the top's; not the -0 of min_p 1.
  rule.min_gap = p.min_p > 0 ? std::max(0.0f, static_cast<float>(-std::log(static_cast<double>(p.min_p))))
                             : std::numeric_limits<float>::infinity();
  rule.draw = static_cast<uint32_t>(sampler.next_uniform() * kWhole);
  return rule;
}

}  // namespace

uint32_t n_rows_of(const StepInput& input) {
  if (input.logits == Logits::all) return static_cast<uint32_t>(input.tokens.size());
  return input.logits == Logits::last ? 1 : 0;
}

RowRules row_rules(std::span<const StepInput> inputs) {
  RowRules all;
  for (const StepInput& input : inputs) {
    if (n_rows_of(input) == 0) continue;
    if (input.sampler == nullptr) {
      kernels::SamplingRule greedy{};
      greedy.first_penalty = static_cast<uint32_t>(all.penalties.size());
      all.rules.insert(all.rules.end(), n_rows_of(input), greedy);
      continue;
    }
    for_rows(input, [&](const Sampler& sampler) {
      kernels::SamplingRule& rule = all.rules.emplace_back(rule_of(sampler));
      rule.first_penalty = static_cast<uint32_t>(all.penalties.size());
      for (const auto& [id, amount] : sampler.penalties()) all.penalties.push_back({static_cast<uint32_t>(id), amount});
      rule.n_penalties = static_cast<uint32_t>(all.penalties.size()) - rule.first_penalty;
      return true;
    });
  }
  return all;
}

void pick_rows(const StepInput& input, bool greedy, uint32_t first_row, StepResult& result) {
  const uint32_t end = first_row + n_rows_of(input);
  uint32_t row = first_row;
  if (input.sampler == nullptr) {
    for (; greedy && row < end; ++row)
      result.tokens[row] = result.row_failed[row] != 0 ? -1 : static_cast<Token>(argmax(result.row(row)));
  } else if (row < end) {
    for_rows(input, [&](const Sampler& sampler) {
      const Result<Token> id = sampler.pick(result.row(row));
      if (!id) result.row_failed[row] = 1;
      result.tokens[row] = id ? *id : -1;
      const size_t next = row - first_row + 1;
      ++row;
      return next < input.tokens.size() && result.tokens[row - 1] == input.tokens[next];
    });
  }
}

void cut_draft(const StepInput& input, std::span<Token> tokens) {
  if (input.logits != Logits::all) return;
  size_t n = 1;
  while (n < tokens.size() && tokens[n - 1] == input.tokens[n]) ++n;
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(std::min(n, tokens.size())), tokens.end(), -1);
}

}  // namespace sluice::engine
