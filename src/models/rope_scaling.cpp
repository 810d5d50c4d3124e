#include "models/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "models/model.h"

namespace sluice::models {
namespace {

// Yarn's divisors of the angles: pairs that turn more than beta_fast times over the original context stay as they are,
// those below beta_slow are slowed down by the factor. The bounds are rounded outwards to whole pairs.
std::vector<double> yarn_divisors(const RopeScaling& scaling, uint32_t n_ctx_original, uint32_t n_rot, float base) {
  const auto pair_of = [&](float turns) {
    return n_rot * std::log(n_ctx_original / (static_cast<double>(turns) * 2 * std::numbers::pi)) /
           (2 * std::log(static_cast<double>(base)));
  };
  const double low = std::max(0.0, std::floor(pair_of(scaling.beta_fast)));
  const double high = std::min(n_rot - 1.0, std::ceil(pair_of(scaling.beta_slow)));
  std::vector<double> divisors(n_rot / 2);
  for (uint32_t i = 0; i < n_rot / 2; ++i) {
    const double slowed = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    divisors[i] = 1 / (slowed / static_cast<double>(scaling.factor) + (1 - slowed));
  }
  return divisors;
}

}  // namespace

float yarn_magnitude(float factor) { return factor <= 1 ? 1.0f : 1.0f + 0.1f * std::log(factor); }

Result<RopeScaling> read_rope_scaling(Metadata& meta) {
  RopeScaling scaling;
  const float linear = TRY(meta.float_or("rope.scale_linear", 0));
  scaling.factor = TRY(meta.float_or("rope.scaling.factor", linear));
  if (scaling.factor == 0) scaling.factor = 1;  // converters write 0 for "none"
  scaling.n_ctx_original = TRY(meta.number_or("rope.scaling.original_context_length", 0));
  scaling.magnitude = TRY(meta.float_or("rope.scaling.attn_factor", 1));
  if (scaling.magnitude == 0) scaling.magnitude = 1;
  scaling.beta_fast = TRY(meta.float_or("rope.scaling.yarn_beta_fast", scaling.beta_fast));
  scaling.beta_slow = TRY(meta.float_or("rope.scaling.yarn_beta_slow", scaling.beta_slow));
  if (!(scaling.factor > 0) || !(scaling.magnitude > 0) || !(scaling.beta_fast > 0) || !(scaling.beta_slow > 0)) {
    return Error(Code::corrupt_file, fmt::format("metadata '{}.rope.scaling' has numbers that are not positive; "
                                                 "download the file again",
                                                 meta.architecture()));
  }
  // The factors of longrope come as tensors, which are used wherever they are.
  const std::string kind = TRY(meta.text_or("rope.scaling.type", "linear"));
  if (kind == "linear") {
    if (scaling.factor != 1) scaling.kind = RopeScaling::Kind::linear;
  } else if (kind == "yarn") {
    scaling.kind = RopeScaling::Kind::yarn;
    scaling.magnitude *= yarn_magnitude(scaling.factor);
  } else if (kind != "none" && kind != "longrope") {
    return Error(Code::unsupported, fmt::format("metadata '{}.rope.scaling.type' is '{}', and none, linear, yarn and "
                                                "longrope are known; use another conversion of the model",
                                                meta.architecture(), printable(kind)));
  }
  return scaling;
}

Result<ops::RopeTable> load_rope_table(WeightLoader& loader, backend::Backend* backend, WeightMemory& memory,
                                       uint32_t n_ctx, const Config& config, uint32_t style) {
  const RopeScaling& scaling = config.rope;
  const uint32_t n_pairs = config.n_rot / 2;
  const uint32_t n_ctx_original = scaling.n_ctx_original != 0 ? scaling.n_ctx_original : config.n_ctx_train;
  std::vector<float> factors(n_pairs, 1.0f);
  if (loader.has("rope_freqs.weight")) factors = TRY(loader.rope_factors("rope_freqs.weight", n_pairs));
  if (loader.has("rope_factors_long.weight")) {
    const std::vector<float> of_long = TRY(loader.rope_factors("rope_factors_long.weight", n_pairs));
    const std::vector<float> of_short = TRY(loader.rope_factors("rope_factors_short.weight", n_pairs));
    factors = n_ctx > n_ctx_original ? of_long : of_short;
  }
  if (scaling.kind == RopeScaling::Kind::linear) {
    for (float& factor : factors) factor *= scaling.factor;
  }
  if (scaling.kind == RopeScaling::Kind::yarn) {
    const auto divisors = yarn_divisors(scaling, n_ctx_original, config.n_rot, config.rope_base);
    for (uint32_t i = 0; i < n_pairs; ++i) factors[i] = static_cast<float>(factors[i] * divisors[i]);
  }
  if (backend == nullptr) return ops::RopeTable{};
  return make_rope_table(*backend, memory, n_ctx, config.n_rot, config.rope_base, style, factors, scaling.magnitude);
}

}  // namespace sluice::models
