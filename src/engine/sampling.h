// What the samplers of a step's inputs are about to do: as rules for the device, or done on the host.
#pragma once
#include <span>
#include <vector>

#include "kernels/all_contracts.h"
#include "sluice/engine.h"

namespace sluice::engine {

uint32_t n_rows_of(const StepInput& input);

// Of all rows of a step, in order, with their penalties. A row without a sampler takes its most probable token.
struct RowRules {
  std::vector<kernels::SamplingRule> rules;
  std::vector<kernels::Penalty> penalties;
};
RowRules row_rules(std::span<const StepInput> inputs);

// Finds the tokens of an input's rows, `first_row` and after it, in their logits. An unusable row is marked as failed.
void pick_rows(const StepInput& input, bool greedy, uint32_t first_row, StepResult& result);

// -1 for the rows behind the first whose token is not the one that the input goes on with.
void cut_draft(const StepInput& input, std::span<Token> tokens);

}  // namespace sluice::engine
