#include "cli/pin_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/generate.h"

namespace sluice::cli {
namespace {

double nmse(std::span<const float> a, std::span<const float> reference) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < std::min(a.size(), reference.size()); ++i) {
    const double d = double(a[i]) - reference[i];
    error += d * d;
    norm += double(reference[i]) * reference[i];
  }
  return a.size() == reference.size() && norm > 0 ? error / norm : NAN;
}

bool has(std::span<const uint32_t> experts, uint32_t expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

// One token in one layer.
struct Row {
  std::span<const uint32_t> experts;
  std::span<const float> score;
};
Row row_of(const Routing& routing, const Routing::Layer& layer, size_t token) {
  return {std::span(layer.experts).subspan(token * layer.n_used, layer.n_used),
          std::span(layer.score).subspan(token * routing.n_expert, routing.n_expert)};
}

// Scores this near are equal in F32.
double rounding(const Row& row) {
  return 4e-7 * double(std::abs(*std::max_element(row.score.begin(), row.score.end())));
}

bool is_near_tie(const Row& reference, const Row& other) {
  double worst_picked = INFINITY, best_left = -INFINITY, difference = 0;
  for (uint32_t e = 0; e < reference.score.size(); ++e) {
    const double score = reference.score[e];
    if (has(reference.experts, e))
      worst_picked = std::min(worst_picked, score);
    else
      best_left = std::max(best_left, score);
    difference = std::max(difference, std::abs(score - other.score[e]));
  }
  return worst_picked - best_left <= 2 * difference + rounding(reference);
}

void count_flips(const Row& reference, const Row& other, PinLayer& layer) {
  for (const uint32_t gained : other.experts) {
    if (has(reference.experts, gained)) continue;
    ++layer.n_flips;
    bool explained = true;
    for (const uint32_t lost : reference.experts) {
      if (has(other.experts, lost)) continue;
      const double gap = double(reference.score[lost]) - reference.score[gained];
      const double moved = std::abs(double(reference.score[lost]) - other.score[lost]) +
                           std::abs(double(reference.score[gained]) - other.score[gained]);
      explained = explained && gap <= moved + rounding(reference);
    }
    if (!explained) ++layer.n_unexplained;
  }
}

}  // namespace

Result<PinRun> pin_run(Engine& engine, std::span<const Token> tokens, uint32_t n_greedy, const Routing* forced) {
  PinRun run;
  Sequence sequence = TRY(engine.new_sequence());
  TRY(check_fits(engine, sequence, tokens.size(), n_greedy));
  StepResult all = TRY(engine.step({{.sequence = &sequence, .tokens = tokens, .logits = Logits::all}},
                                   {.routing = true, .gate = true, .forced = forced}));
  for (size_t row = 0; row < all.n_rows(); ++row) TRY(usable_row(all, row));
  if (forced == nullptr && n_greedy > 0) {
    run.greedy.reserve(n_greedy);  // the step's input points into it
    run.greedy.push_back(static_cast<Token>(argmax(all.row(all.n_rows() - 1))));
    const EngineCounters before = engine.counters();
    while (run.greedy.size() < n_greedy) {
      const StepResult step =
          TRY(engine.step({{.sequence = &sequence, .tokens = std::span(run.greedy).last(1)}}, {.greedy = true}));
      if (step.row_failed.at(0) != 0) return unusable_numbers();
      run.greedy.push_back(step.tokens.at(0));
    }
    const double n_steps = std::max(n_greedy - 1.0, 1.0);
    run.reads = double(engine.counters().host_reads - before.host_reads) / n_steps;
    run.submits = double(engine.counters().submits - before.submits) / n_steps;
  }
  run.logits = std::move(all.logits);
  run.routing = std::move(all.routing);
  return run;
}

PinResult pin_compare(const PinRun& reference, const PinRun& replayed, const PinRun& own) {
  PinResult result;
  result.replayed_nmse = nmse(replayed.logits, reference.logits);
  result.free_nmse = nmse(own.logits, reference.logits);
  result.reads = own.reads;
  result.submits = own.submits;
  result.n_greedy = static_cast<uint32_t>(reference.greedy.size());
  const auto differ =
      std::mismatch(reference.greedy.begin(), reference.greedy.end(), own.greedy.begin(), own.greedy.end());
  result.n_greedy_equal = static_cast<uint32_t>(differ.first - reference.greedy.begin());
  for (const auto& [idx, expected] : reference.routing.layers) {
    const Routing::Layer &with = replayed.routing.layers.at(idx), &without = own.routing.layers.at(idx);
    PinLayer layer{.layer = idx, .gate_nmse = nmse(with.gate, expected.gate)};
    for (size_t token = 0; token < expected.experts.size() / expected.n_used; ++token) {
      const Row row = row_of(reference.routing, expected, token);
      if (is_near_tie(row, row_of(replayed.routing, with, token))) ++layer.n_near_ties;
      count_flips(row, row_of(own.routing, without, token), layer);
    }
    result.n_choices += expected.experts.size();
    result.layers.push_back(layer);
  }
  return result;
}

PinLayer PinResult::total() const {
  PinLayer sum;
  for (const PinLayer& layer : layers) {
    sum.n_near_ties += layer.n_near_ties;
    sum.n_flips += layer.n_flips;
    sum.n_unexplained += layer.n_unexplained;
  }
  return sum;
}

std::vector<std::string> PinResult::faults(double max_nmse) const {
  std::vector<std::string> found;
  const PinLayer sum = total();
  if (!(replayed_nmse <= max_nmse))
    found.push_back(fmt::format("logits differ by an NMSE of {:.2e} with the reference's routing, more than {:.0e}",
                                replayed_nmse, max_nmse));
  if (sum.n_unexplained > 0)
    found.push_back(fmt::format("{} experts were picked over others with clearly better scores", sum.n_unexplained));
  if (reads > 1) found.push_back(fmt::format("{:.2f} host reads per token, where 1 is enough", reads));
  return found;
}

}  // namespace sluice::cli
