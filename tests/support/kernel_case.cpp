#include "support/kernel_case.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_grids.h"
#include "quant/quant.h"

namespace sluice::test {

uint64_t Random::bits() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

float Random::uniform() { return static_cast<float>(static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0); }

float Random::normal() {
  float sum = 0;  // of 12 uniform values: variance 4
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum / 2;
}

std::vector<float> Random::normals(size_t n, float scale) {
  std::vector<float> values(n);
  for (float& v : values) v = normal() * scale;
  return values;
}

Step make_step(std::span<const Sequence> sequences) {
  Step step;
  for (const Sequence& s : sequences) {
    const auto idx = static_cast<uint>(step.seqs.size());
    step.seqs.push_back({.first_token = step.n_tokens(),
                         .n_tokens = s.n_tokens,
                         .first_pos = s.first_pos,
                         .state_slot = s.slot,
                         .first_page = static_cast<uint>(step.page_table.size()),
                         .reserved = 0});
    for (uint32_t i = 0; i < s.n_tokens; ++i) {
      step.seq.push_back(idx);
      step.pos.push_back(s.first_pos + i);
      step.token.push_back(i);
    }
    const uint32_t n_pages = ceil_div(s.first_pos + s.n_tokens, kernels::kPageTokens);
    step.page_table.insert(step.page_table.end(), n_pages, 0);
  }
  // Page ids from the last to the first, with a hole before each.
  step.n_pages = static_cast<uint32_t>(step.page_table.size()) * 2;
  uint next = step.n_pages;
  for (uint& page : step.page_table) page = (next -= 2) + 1;
  return step;
}

Step make_step(uint32_t n_tokens) {
  const Sequence one{.n_tokens = n_tokens};
  return make_step(std::span(&one, 1));
}

DevPtr<uint> Job::bytes(std::span<const std::byte> values) {
  const DevPtr<uint> p{device_.allocate(values.size())};
  device_.upload(p.address, values);
  return p;
}

DevPtr<kernels::StepState> Job::step(const Step& step) {
  n_tokens_ = step.n_tokens();
  row_error_ = in(std::vector<uint>(n_tokens_, 0));
  const std::vector<uint> grids(std::begin(quant::kIqGrids), std::end(quant::kIqGrids));
  return in(std::vector<kernels::StepState>{{.token = in(step.token),
                                             .pos = in(step.pos),
                                             .seq = in(step.seq),
                                             .seqs = in(step.seqs),
                                             .page_table = in(step.page_table),
                                             .out_token = in(step.out_token),
                                             .row_error = row_error_,
                                             .rule = in(step.rules),
                                             .penalty = in(step.penalties),
                                             .n_tokens = step.n_tokens(),
                                             .n_seqs = static_cast<uint>(step.seqs.size()),
                                             .n_out = static_cast<uint>(step.out_token.size()),
                                             .reserved = 0,
                                             .grids = in(grids)}});
}

std::vector<double> reals(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<uint32_t> words(std::span<const std::byte> bytes) {
  std::vector<uint32_t> result;
  for (std::byte b : bytes) result.push_back(std::to_integer<uint32_t>(b));
  return result;
}

double nmse(std::span<const double> got, std::span<const double> want) {
  double error = 0, power = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (got[i] == want[i]) {  // also equal infinities
      power += std::isfinite(want[i]) ? want[i] * want[i] : 0;
      continue;
    }
    error += (got[i] - want[i]) * (got[i] - want[i]);
    power += want[i] * want[i];
  }
  return error == 0 ? 0 : error / power;
}

namespace {

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Both lists hold the same outputs; `against_truth` chooses the bound.
void compare(const Outputs& got, const Outputs& want, bool against_truth) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("output " + want[i].name);
    EXPECT_EQ(got[i].ints, want[i].ints);
    ASSERT_EQ(got[i].reals.size(), want[i].reals.size());
    const double bound = against_truth ? got[i].truth_bound : got[i].tier_bound;
    const double error = nmse(got[i].reals, want[i].reals);
    EXPECT_FALSE(!(error <= bound)) << "NMSE " << error << " is above " << bound;
    if (bound != 0) continue;
    for (size_t j = 0; j < got[i].reals.size(); ++j) {
      ASSERT_TRUE(same_bits(got[i].reals[j], want[i].reals[j]))
          << "value " << j << " is " << got[i].reals[j] << ", not " << want[i].reals[j];
    }
  }
}

Outputs with_bound(Outputs outputs, double bound) {
  for (Output& output : outputs) output.tier_bound = bound;
  return outputs;
}

Outputs with_flush_bound(Outputs outputs) {
  for (Output& output : outputs) output.tier_bound = std::max(output.tier_bound, output.flush_bound);
  return outputs;
}

}  // namespace

void conform(const KernelKey& key, const std::function<Outputs(Job&)>& run, const Outputs& expected) {
  Outputs reference, first_of_family;
  std::string family;
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(key)) continue;
    SCOPED_TRACE(subject.name);
    Job buffers(*subject.device);
    const Outputs got = run(buffers);
    if (reference.empty()) {
      compare(got, expected, true);
      reference = got;
    } else if (subject.family != family) {
      compare(subject.flushes ? with_flush_bound(got) : got, reference, false);
    } else {
      compare(with_bound(got, 0), first_of_family, false);
    }
    if (subject.family != family) first_of_family = got;
    family = subject.family;
    if (::testing::Test::HasFailure()) return;
  }
  ASSERT_FALSE(reference.empty()) << "no reference for " << kernel_name(key.id);
}

bool somebody_has(const KernelKey& key) {
  for (const Subject& subject : subjects()) {
    if (subject.device->has(key)) return true;
  }
  return false;
}

std::string test_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

std::vector<float> dequantised(Type type, std::span<const std::byte> rows, size_t n_rows, size_t k) {
  std::vector<float> values(n_rows * k);
  for (size_t r = 0; r < n_rows; ++r) {
    quant::codec(type).dequantize(rows.data() + r * quant::row_bytes(type, k), &values[r * k], k);
  }
  return values;
}

std::vector<std::byte> q8_rows(std::span<const float> x, size_t n_rows, size_t k) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& array) {
    const auto raw = std::as_bytes(std::span(array));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  for (size_t r = 0; r < n_rows; ++r) {
    std::vector<int8_t> q;
    std::vector<float> d;
    std::vector<int32_t> m8(k / 16, 0);
    for (size_t b = 0; b < k / 32; ++b) {
      const auto block = x.subspan(r * k + b * 32, 32);
      float most = 0;
      for (const float v : block) most = std::isfinite(v) ? std::max(most, std::fabs(v)) : kInf;
      // Infinite for blocks to be dropped: 127 / most overflows, or something was not finite.
      const bool drop = most == kInf || 127.0f / most == kInf;
      // Ties to even at the 11th significant bit.
      const auto bits = std::bit_cast<uint32_t>(most / 127.0f);
      const uint32_t below = bits % 8192, kept = bits - below;
      const bool up = below > 4096 || (below == 4096 && kept % 16384 != 0);
      const auto scale = std::bit_cast<float>(kept + (up ? 8192u : 0u));
      d.push_back(most == kInf ? kNaN : drop ? 0.0f : scale);
      for (size_t i = 0; i < 32; ++i) {
        const long value = drop ? 0 : std::lrint(block[i] * (127.0f / most));
        q.push_back(static_cast<int8_t>(value));
        m8[b * 2 + i / 16] -= static_cast<int32_t>(value) * 8;
      }
    }
    append(q);
    append(d);
    append(m8);
  }
  return bytes;
}

std::vector<std::byte> f16_rows(std::span<const float> x, size_t n_rows, size_t k) {
  std::vector<std::byte> rows(n_rows * kernels::f16_row_bytes(k));
  for (size_t r = 0; r < n_rows; ++r) {
    double most = 0;
    for (const float v : x.subspan(r * k, k)) most = std::isfinite(v) ? std::max(most, std::fabs(double{v})) : most;
    int e = most == 0 ? 0 : -126;
    while (most >= std::ldexp(1.0, e + 14)) ++e;
    std::byte* row = rows.data() + r * kernels::f16_row_bytes(k);
    for (size_t i = 0; i < k; ++i) {
      const uint16_t h = quant::f32_to_f16(static_cast<float>(std::ldexp(double{x[r * k + i]}, -e)));
      std::memcpy(row + i * 2, &h, sizeof(h));
    }
    const auto unit = static_cast<float>(std::ldexp(1.0, e));
    std::memcpy(row + kernels::f16_row_halves(k) * 2, &unit, sizeof(unit));
  }
  return rows;
}

std::vector<float> q8_values(std::span<const std::byte> rows, size_t n_rows, size_t k) {
  std::vector<float> values(n_rows * k);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* row = rows.data() + i / k * kernels::q8_row_bytes(k);
    const size_t c = i % k;
    float d;
    std::memcpy(&d, row + k + c / 32 * sizeof(float), sizeof(float));
    values[i] = static_cast<float>(static_cast<int8_t>(row[c])) * d;
  }
  return values;
}

}  // namespace sluice::test
