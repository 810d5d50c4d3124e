// What quantising the K and I types has in common: scales that make the squared error of a group of weights small.
// Candidate scales give the codes, least squares gives the scale of these codes; the best candidate wins.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace sluice::quant {

inline constexpr float kLeastSpread = 1e-15f;  // groups of less become zero, or one value

// The code -kSteps .. kSteps - 1 nearest to a scaled weight. NaN gives -kSteps: the cast of a NaN would be undefined.
template <int kSteps>
static inline int signed_code(float scaled) {
  if (!(scaled > static_cast<float>(-kSteps))) return -kSteps;
  return scaled >= static_cast<float>(kSteps - 1) ? kSteps - 1 : static_cast<int>(std::nearbyint(scaled));
}

// The same of 0 .. kMax.
template <int kMax>
static inline int unsigned_code(float scaled) {
  if (!(scaled > 0.0f)) return 0;
  return scaled >= static_cast<float>(kMax) ? kMax : static_cast<int>(std::nearbyint(scaled));
}

static inline float extreme_of(const float* x, size_t n) {
  float extreme = 0.0f;
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

// For weights as value * scale: value(x) is the value nearest to a scaled weight, `end` the one that the extreme weight
// takes in the candidate in the middle, `width` how far the others are from it.
template <size_t kCount, class Value>
static inline float fit_scale(const float* x, float end, float width, int n_trials, Value value) {
  const float extreme = extreme_of(x, kCount);
  if (!(std::fabs(extreme) >= kLeastSpread)) return 0.0f;
  float best_scale = 0.0f, best_gain = 0.0f;
  for (int trial = -n_trials; trial <= n_trials; ++trial) {
    const float inverse = (end + width * static_cast<float>(trial)) / extreme;
    float sum_xq = 0.0f, sum_qq = 0.0f;
    for (size_t i = 0; i < kCount; ++i) {
      const float q = value(x[i] * inverse);
      sum_xq += x[i] * q;
      sum_qq += q * q;
    }
    // The squared error is sum(x^2) - sum_xq^2 / sum_qq.
    if (sum_qq > 0.0f && sum_xq * sum_xq > best_gain * sum_qq) {
      best_gain = sum_xq * sum_xq / sum_qq;
      best_scale = sum_xq / sum_qq;
    }
  }
  return best_scale;
}

// For codes -kSteps .. kSteps - 1: the extreme weight takes -kSteps or thereabouts.
template <int kSteps, size_t kCount>
static inline float fit_signed(const float* x) {
  return fit_scale<kCount>(x, -static_cast<float>(kSteps), -0.1f, 9,
                           [](float scaled) { return static_cast<float>(signed_code<kSteps>(scaled)); });
}

// The scales of a block's groups as codes of one scale d. All zero: every weight decodes to zero.
template <size_t kGroups>
struct SignedScales {
  uint16_t d = 0;  // f16
  int code[kGroups] = {};

  template <int kSteps>
  void fit(const float* scales) {
    const float extreme = extreme_of(scales, kGroups);
    if (extreme == 0.0f) return;
    const float inverse = -static_cast<float>(kSteps) / extreme;
    d = f32_to_f16(1.0f / inverse);
    for (size_t g = 0; g < kGroups; ++g) code[g] = signed_code<kSteps>(inverse * scales[g]);
  }
};

// From the least weight to the largest in equal steps: the types with an offset of either sign.
struct Range {
  float low, step;

  template <int kMax>
  int code(float x) const {
    return step > 0.0f ? unsigned_code<kMax>((x - low) / step) : 0;
  }
};
template <int kMax, size_t kCount>
static inline Range range_of(const float* x) {
  float low = x[0], high = x[0];
  for (size_t i = 1; i < kCount; ++i) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
  }
  return {low, (high - low) / static_cast<float>(kMax)};
}

struct ScaleMin {
  float scale, min;
};

// For weights as code * scale - min, with codes 0 .. kMax and min >= 0.
template <int kMax, size_t kCount>
static inline ScaleMin fit_scale_min(const float* x) {
  constexpr auto kN = static_cast<float>(kCount);
  float low = x[0] < 0.0f ? x[0] : 0.0f, high = x[0], sum_x = 0.0f;
  for (size_t i = 0; i < kCount; ++i) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
    sum_x += x[i];
  }
  ScaleMin best = {0.0f, -low};
  if (!(high - low >= kLeastSpread)) return best;
  bool found = false;
  float best_gain = 0.0f;
  for (int trial = -10; trial <= 10; ++trial) {
    const float inverse = (static_cast<float>(kMax) + 0.1f * static_cast<float>(trial)) / (high - low);
    float sum_q = 0.0f, sum_qq = 0.0f, sum_xq = 0.0f;
    for (size_t i = 0; i < kCount; ++i) {
      const auto q = static_cast<float>(unsigned_code<kMax>((x[i] - low) * inverse));
      sum_q += q;
      sum_qq += q * q;
      sum_xq += x[i] * q;
    }
    if (!(sum_qq > 0.0f)) continue;
    const float determinant = kN * sum_qq - sum_q * sum_q;
    float scale = 0.0f, min = -1.0f;
    if (determinant > 0.0f) {
      scale = (kN * sum_xq - sum_x * sum_q) / determinant;
      min = (scale * sum_q - sum_x) / kN;
    }
    // Equal codes, or no weight below zero.
    if (min < 0.0f) scale = sum_xq / sum_qq, min = 0.0f;
    // The squared error is sum(x^2) less this.
    const float gain =
        scale * (2.0f * sum_xq - scale * sum_qq) - min * (2.0f * sum_x - 2.0f * scale * sum_q + min * kN);
    if (scale > 0.0f && (!found || gain > best_gain)) {
      found = true;
      best_gain = gain;
      best = {scale, min};
    }
  }
  return best;
}

// Scales and mins of a block's groups as codes of two scales: weight = code * (d * scale) - dmin * min.
template <size_t kGroups>
struct ScaleMins {
  uint16_t d = 0, dmin = 0;  // f16
  int scale[kGroups] = {}, min[kGroups] = {};

  // kMax: largest code of a weight, kMaxScale: of a scale or a min.
  template <int kMax, int kMaxScale, size_t kGroup>
  void fit(const float* x) {
    ScaleMin fits[kGroups];
    float largest_scale = 0.0f, largest_min = 0.0f;
    for (size_t g = 0; g < kGroups; ++g) {
      fits[g] = fit_scale_min<kMax, kGroup>(x + g * kGroup);
      if (fits[g].scale > largest_scale) largest_scale = fits[g].scale;
      if (fits[g].min > largest_min) largest_min = fits[g].min;
    }
    d = f32_to_f16(largest_scale / static_cast<float>(kMaxScale));
    dmin = f32_to_f16(largest_min / static_cast<float>(kMaxScale));
    const float one = f16_to_f32(d), one_min = f16_to_f32(dmin);
    for (size_t g = 0; g < kGroups; ++g) {
      if (one > 0.0f) scale[g] = unsigned_code<kMaxScale>(fits[g].scale / one);
      if (one_min > 0.0f) min[g] = unsigned_code<kMaxScale>(fits[g].min / one_min);
    }
  }

  // Of a weight of group g.
  template <int kMax>
  unsigned code(size_t g, float x) const {
    const float step = f16_to_f32(d) * static_cast<float>(scale[g]);
    const float shifted = x + f16_to_f32(dmin) * static_cast<float>(min[g]);
    return static_cast<unsigned>(step > 0.0f ? unsigned_code<kMax>(shifted / step) : 0);
  }
};

// The scales and mins of Q4_K and Q5_K: 8 of each, 6 bits, in 12 bytes. Bytes 0..3 hold those of the scales 0..3, 4..7
// the mins 0..3, 8..11 the low 4 bits of scale and min 4..7, whose upper bits are the two upper ones of bytes 0..7.
static inline unsigned packed_scale(const uint8_t* s, size_t g) {
  return g < 4 ? s[g] & 63u : (s[g + 4] & 15u) | (s[g - 4] >> 6 << 4);
}
static inline unsigned packed_min(const uint8_t* s, size_t g) {
  return g < 4 ? s[g + 4] & 63u : (s[g + 4] >> 4) | (s[g] >> 6 << 4);
}
static inline void pack_scales(const ScaleMins<8>& from, uint8_t* s) {
  for (size_t g = 0; g < 4; ++g) {
    const auto scale = static_cast<unsigned>(from.scale[g]), min = static_cast<unsigned>(from.min[g]);
    const auto scale_4 = static_cast<unsigned>(from.scale[g + 4]), min_4 = static_cast<unsigned>(from.min[g + 4]);
    s[g] = static_cast<uint8_t>(scale | scale_4 >> 4 << 6);
    s[g + 4] = static_cast<uint8_t>(min | min_4 >> 4 << 6);
    s[g + 8] = static_cast<uint8_t>((scale_4 & 15u) | (min_4 & 15u) << 4);
  }
}

}  // namespace sluice::quant
