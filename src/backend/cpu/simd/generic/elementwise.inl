// Kernels that pass over rows once: included inside a tier.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/q8.inl"
#include "backend/cpu/simd/generic/recurrent.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// Work is cut in rows times stretches of kStretch columns, a multiple of every block.
constexpr uint64_t kStretch = 1024;
template <class Fn>
inline void by_stretches(Worker& worker, uint64_t rows, uint64_t n, Fn fn) {
  const uint64_t per_row = ceil_div(n, kStretch), items = rows * per_row;
  for (uint64_t i = 0, end = 0; claim_items(worker, items, most(1, items / (4 * n_workers(worker))), i, end);) {
    for (; i < end; ++i) {
      const uint64_t begin = i % per_row * kStretch;
      fn(i / per_row, begin, least(n, begin + kStretch));
    }
  }
}

void quantize_q8(const kernels::QuantizeQ8Args& a, Worker& worker) {
  by_stretches(worker, rows_of(*at(a.step), a.rows), a.k, [&](uint64_t r, uint64_t begin, uint64_t end) {
    const float* x = at(a.x) + r * a.k;
    std::byte* row = bytes_at(a.out) + r * q8_bytes(a.k);
    for (uint64_t i = begin; i < end; i += 32) quantize_block(load(x + i), load(x + i + 16), row, a.k, i / 32);
  });
}

// One row of silu(gate) * up.
struct SiluRow {
  const float *gate, *up;
  SiluRow(const kernels::SwigluArgs& a, uint64_t r) : gate(at(a.gate) + r * a.n), up(at(a.up) + r * a.n) {}
  F operator()(uint64_t i, uint32_t n) const { return silu_times(load_up_to(gate + i, n), load_up_to(up + i, n)); }
  F operator()(uint64_t i) const { return silu_times(load(gate + i), load(up + i)); }
};

// One row of any activation, with the biases of the row's expert. A value that is no number stays one.
struct GatedRow {
  const float *gate, *up, *gate_bias = nullptr, *up_bias = nullptr;
  uint32_t activation;
  GatedRow(const kernels::SwigluArgs& a, uint64_t r)
      : gate(at(a.gate) + r * a.n), up(at(a.up) + r * a.n), activation(a.activation) {
    if (a.gate_bias.address == 0) return;
    gate_bias = at(a.gate_bias) + at(a.sel_expert)[r] * uint64_t{a.n};
    up_bias = at(a.up_bias) + at(a.sel_expert)[r] * uint64_t{a.n};
  }
  F operator()(uint64_t i, uint32_t n = 16) const {
    F g = load_up_to(gate + i, n), u = load_up_to(up + i, n);
    if (gate_bias != nullptr) {
      g = add(g, load_up_to(gate_bias + i, n));
      u = add(u, load_up_to(up_bias + i, n));
    }
    if (activation == kernels::kSilu) return silu_times(g, u);
    if (activation == kernels::kGeluTanh) {
      const F cube = mul(mul(splat(kernels::kGeluCube), g), mul(g, g));
      const F divisor = add(splat(1.0f), exp_of(mul(splat(-2.0f * kernels::kGeluSlope), add(g, cube))));
      return mul(div(g, divisor), u);
    }
    const F limit = splat(kernels::kSwigluLimit);
    g = min(limit, g);
    u = min(limit, max(splat(-kernels::kSwigluLimit), u));
    const F divisor = add(splat(1.0f), exp_of(mul(splat(-kernels::kSwigluSlope), g)));
    return mul(div(g, divisor), add(u, splat(1.0f)));
  }
};

template <class Row>
void gate_rows(const kernels::SwigluArgs& a, Worker& worker) {
  by_stretches(worker, rows_of(*at(a.step), a.rows), a.n, [&](uint64_t r, uint64_t begin, uint64_t end) {
    const Row product(a, r);
    float* y = a.y.address != 0 ? at(a.y) + r * a.n : nullptr;
    if (a.y_q8.address == 0) {
      by_lanes(begin, end, [&](uint64_t i, uint32_t n) { store_up_to(y + i, product(i, n), n); });
      return;
    }
    std::byte* row = bytes_at(a.y_q8) + r * q8_bytes(a.n);
    for (uint64_t i = begin; i < end; i += 32) {
      const F low = product(i), high = product(i + 16);
      if (y != nullptr) {
        store(y + i, low);
        store(y + i + 16, high);
      }
      quantize_block(low, high, row, a.n, i / 32);
    }
  });
}

void swiglu(const kernels::SwigluArgs& a, Worker& worker) {
  if (a.activation == kernels::kSilu && a.gate_bias.address == 0) return gate_rows<SiluRow>(a, worker);
  gate_rows<GatedRow>(a, worker);
}

void softcap(const kernels::SoftcapArgs& a, Worker& worker) {
  by_stretches(worker, rows_of(*at(a.step), a.rows), a.n, [&](uint64_t r, uint64_t begin, uint64_t end) {
    float* y = at(a.y) + r * a.n;
    const F one = splat(1.0f), two = splat(2.0f);
    by_lanes(begin, end, [&](uint64_t i, uint32_t n) {
      const F power = exp_of(mul(splat(2.0f / a.cap), load_up_to(y + i, n)));
      store_up_to(y + i, mul(splat(a.cap), sub(one, div(two, add(power, one)))), n);
    });
  });
}

inline F relu_squared_of(F x) {
  const F positive = max(zero(), x);  // a NaN stays
  return mul(positive, positive);
}

void relu_squared(const kernels::ReluSquaredArgs& a, Worker& worker) {
  by_stretches(worker, rows_of(*at(a.step), a.rows), a.n, [&](uint64_t r, uint64_t begin, uint64_t end) {
    const float* x = at(a.x) + r * a.n;
    float* y = a.y.address != 0 ? at(a.y) + r * a.n : nullptr;
    if (a.y_q8.address == 0) {
      by_lanes(begin, end,
               [&](uint64_t i, uint32_t n) { store_up_to(y + i, relu_squared_of(load_up_to(x + i, n)), n); });
      return;
    }
    std::byte* row = bytes_at(a.y_q8) + r * q8_bytes(a.n);
    for (uint64_t i = begin; i < end; i += 32) {
      const F low = relu_squared_of(load(x + i)), high = relu_squared_of(load(x + i + 16));
      if (y != nullptr) {
        store(y + i, low);
        store(y + i + 16, high);
      }
      quantize_block(low, high, row, a.n, i / 32);
    }
  });
}

void add_rows(const kernels::AddArgs& args, Worker& worker) {
  by_stretches(worker, rows_of(*at(args.step), args.rows), args.n, [&](uint64_t r, uint64_t begin, uint64_t end) {
    const float *a = at(args.a) + r * args.n, *b = at(args.b) + (args.b_is_row != 0 ? 0 : r * args.n);
    float* y = at(args.y) + r * args.n;
    by_lanes(begin, end,
             [&](uint64_t i, uint32_t n) { store_up_to(y + i, add(load_up_to(a + i, n), load_up_to(b + i, n)), n); });
  });
}

// Rows with what their experts add to and multiply them by.
void combine_by_expert(const kernels::MoeCombineArgs& a, uint64_t token, uint64_t begin, uint64_t end) {
  const float *weight = at(a.weight) + token * a.n_used, *z = at(a.z) + token * a.n_used * a.m;
  const uint32_t* expert = at(a.sel_expert) + token * a.n_used;
  float* out = at(a.out) + token * a.m;
  by_lanes(begin, end, [&](uint64_t i, uint32_t n) {
    F sum = a.accumulate != 0 ? load_up_to(out + i, n) : zero();
    for (uint64_t s = 0; s < a.n_used; ++s) {
      F value = load_up_to(z + s * a.m + i, n);
      if (a.bias.address != 0) value = add(value, load_up_to(at(a.bias) + uint64_t{expert[s]} * a.m + i, n));
      const float by = a.scale.address != 0 ? weight[s] * at(a.scale)[expert[s]] : weight[s];
      sum = fma(splat(by), value, sum);
    }
    store_up_to(out + i, sum, n);
  });
}

void moe_combine(const kernels::MoeCombineArgs& a, Worker& worker) {
  by_stretches(worker, at(a.step)->n_tokens, a.m, [&](uint64_t token, uint64_t begin, uint64_t end) {
    const float *weight = at(a.weight) + token * a.n_used, *z = at(a.z) + token * a.n_used * a.m;
    float* out = at(a.out) + token * a.m;
    if (a.sel_expert.address != 0) return combine_by_expert(a, token, begin, end);
    by_lanes(begin, end, [&](uint64_t i, uint32_t n) {
      F sum = a.accumulate != 0 ? load_up_to(out + i, n) : zero();
      for (uint64_t s = 0; s < a.n_used; ++s) sum = fma(splat(weight[s]), load_up_to(z + s * a.m + i, n), sum);
      store_up_to(out + i, sum, n);
    });
  });
}

// Squares are summed in f64: activations near 1e20 would overflow f32.
inline float rms_scale(const kernels::RmsNormArgs& a, uint64_t r) {
  const float* x = at(a.x) + r * a.n;
  const float* other = a.add.address != 0 ? at(a.add) + r * a.n : nullptr;
  float* h_out = other != nullptr ? at(a.sum) + r * a.n : nullptr;
  Squares squares{};
  by_lanes(0, a.n, [&](uint64_t i, uint32_t n) {
    F h = load_up_to(x + i, n);
    if (other != nullptr) {
      h = add(h, load_up_to(other + i, n));
      store_up_to(h_out + i, h, n);
    }
    add_squares(squares, h);
  });
  const double mean = sum_squares(squares) / static_cast<double>(a.n);
  return static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(a.eps)));
}

void rms_norm(const kernels::RmsNormArgs& a, Worker& worker) {
  const uint64_t rows = rows_of(*at(a.step), a.rows);
  for (uint64_t r = 0, end = 0; claim_items(worker, rows, most(1, rows / (4 * n_workers(worker))), r, end);) {
    for (; r < end; ++r) {
      const F scale = splat(rms_scale(a, r));
      const float *h = (a.add.address != 0 ? at(a.sum) : at(a.x)) + r * a.n, *w = at(a.w);
      float* y = a.y.address != 0 ? at(a.y) + r * a.n : nullptr;
      if (a.y_q8.address == 0) {
        by_lanes(0, a.n, [&](uint64_t i, uint32_t n) {
          store_up_to(y + i, mul(mul(load_up_to(h + i, n), scale), load_up_to(w + i, n)), n);
        });
        continue;
      }
      std::byte* row = bytes_at(a.y_q8) + r * q8_bytes(a.n);
      for (uint64_t i = 0; i < a.n; i += 32) {
        const F low = mul(mul(load(h + i), scale), load(w + i));
        const F high = mul(mul(load(h + i + 16), scale), load(w + i + 16));
        if (y != nullptr) {
          store(y + i, low);
          store(y + i + 16, high);
        }
        quantize_block(low, high, row, a.n, i / 32);
      }
    }
  }
}

constexpr uint64_t kChannels = 128;  // of one work item of conv1d

// One sequence, channels first .. first + n - 1. Row i % l of `window` holds u at token i - (l - 1) of this step; row j
// of `taps` holds w[j] of every channel. Rows are kChannels long, and lanes past n hold no numbers of use.
void convolve(const kernels::Conv1dArgs& a, const kernels::SeqSlice& seq, uint64_t first, uint64_t n, float* window,
              const float* taps) {
  const uint64_t l = a.l;
  const bool gated = a.form == kernels::kConvGated;
  float* state = at(a.state) + uint64_t{seq.state_slot} * a.slot_stride + first;
  for (uint64_t j = 0; j + 1 < l; ++j) {
    const uint64_t ahead = uint64_t{seq.first_pos} + j;  // of u's position, by l - 1
    const float* row = ahead < l - 1 ? nullptr : state + (ahead - (l - 1)) % a.n_rows * a.n;
    by_lanes(0, n, [&](uint64_t i, uint32_t lanes) {
      store(window + j * kChannels + i, row == nullptr ? zero() : load_up_to(row + i, lanes));
    });
  }
  uint64_t oldest = 0;  // t % l
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t, newest = oldest == 0 ? l - 1 : oldest - 1;
    const float *b = at(a.x) + token * a.stride + first, *c = b + a.n, *x = c + a.n;
    float* y = at(a.y) + token * a.n + first;
    by_lanes(0, n, [&](uint64_t i, uint32_t lanes) {
      F u = load_up_to(b + i, lanes);
      if (gated) u = mul(u, load_up_to(x + i, lanes));
      store(window + newest * kChannels + i, u);
      F sum = gated || a.bias.address == 0 ? zero() : load_up_to(at(a.bias) + first + i, lanes);
      for (uint64_t j = 0, row = oldest; j < l; ++j, row = row + 1 == l ? 0 : row + 1) {
        sum = fma(load(taps + j * kChannels + i), load(window + row * kChannels + i), sum);
      }
      store_up_to(y + i, gated ? mul(load_up_to(c + i, lanes), sum) : silu_times(sum, splat(1)), lanes);
    });
    oldest = oldest + 1 == l ? 0 : oldest + 1;
    if (t + a.n_rows < seq.n_tokens) continue;
    float* kept = state + (seq.first_pos + t) % a.n_rows * a.n;
    const float* u = window + newest * kChannels;
    by_lanes(0, n, [&](uint64_t i, uint32_t lanes) { store_up_to(kept + i, load(u + i), lanes); });
  }
}

void conv1d(const kernels::Conv1dArgs& a, Worker& worker) {
  const kernels::StepState& step = *at(a.step);
  const uint64_t l = a.l, blocks = ceil_div(a.n, kChannels), items = blocks * step.n_seqs;
  auto *window = reinterpret_cast<float*>(scratch_of(worker)), *taps = window + l * kChannels;
  uint64_t block = blocks;  // whose taps are there
  for (uint64_t i = 0, end = 0; claim_items(worker, items, most(1, items / (4 * n_workers(worker))), i, end);) {
    for (; i < end; ++i) {
      // The sequences of a block follow each other: they share its taps.
      const uint64_t first = i / step.n_seqs * kChannels, n = least(kChannels, a.n - first);
      if (i / step.n_seqs != block) {
        block = i / step.n_seqs;
        for (uint64_t c = 0; c < n; ++c) {
          for (uint64_t j = 0; j < l; ++j) taps[j * kChannels + c] = at(a.w)[(first + c) * l + j];
        }
      }
      convolve(a, at(step.seqs)[i % step.n_seqs], first, n, window, taps);
    }
  }
}

// Pairs (i, n_rot / 2 + i) of every head; a token's angles are taken apart once. Pairs (2i, 2i + 1) have too little to
// gain.
void rope(const kernels::RopeArgs& a, Worker& worker) {
  const kernels::StepState& step = *at(a.step);
  const uint64_t n_pairs = a.n_rot / 2;
  auto *cos = reinterpret_cast<float*>(scratch_of(worker)), *sin = cos + (n_pairs + 15) / 16 * 16;
  for (uint64_t t = 0, end = 0;
       claim_items(worker, step.n_tokens, most(1, step.n_tokens / (4 * n_workers(worker))), t, end);) {
    for (; t < end; ++t) {
      const float* table = at(a.table) + uint64_t{at(step.pos)[t]} * n_pairs * 2;
      for (uint64_t pair = 0; pair < n_pairs; ++pair) {
        cos[pair] = table[2 * pair];
        sin[pair] = table[2 * pair + 1];
      }
      for (uint64_t head = 0; head < a.n_head; ++head) {
        float* x = at(a.x) + (t * a.n_head + head) * a.d;
        if (a.style == 0) {
          by_lanes(0, n_pairs, [&](uint64_t i, uint32_t n) {
            const F c = load(cos + i), s = load(sin + i);
            const F low = load_up_to(x + i, n), high = load_up_to(x + n_pairs + i, n);
            store_up_to(x + i, sub(mul(low, c), mul(high, s)), n);
            store_up_to(x + n_pairs + i, add(mul(low, s), mul(high, c)), n);
          });
          continue;
        }
        for (uint64_t pair = 0; pair < n_pairs; ++pair, x += 2) {
          const float low = x[0], high = x[1];
          x[0] = low * cos[pair] - high * sin[pair];
          x[1] = low * sin[pair] + high * cos[pair];
        }
      }
    }
  }
}

// The first of the largest of n logits; 0xFFFFFFFF where all are NaN. Remembers the stretch that raised the largest one
// last, and looks for it from there on.
inline kernels::uint first_largest(const float* logits, uint64_t n) {
  const F lowest = splat(-__builtin_inff());
  float largest = -__builtin_inff();
  uint64_t from = 0;
  for (uint64_t begin = 0; begin < n; begin += kStretch) {
    F most_of_lane = lowest;
    by_lanes(begin, least(n, begin + kStretch), [&](uint64_t i, uint32_t lanes) {
      most_of_lane = max(select_first(lanes, load_up_to(logits + i, lanes), lowest), most_of_lane);
    });
    const float most_here = max_lanes(most_of_lane);
    if (most_here > largest) {
      largest = most_here;
      from = begin;
    }
  }
  for (uint64_t i = from; i < n; ++i) {
    if (logits[i] == largest) return static_cast<kernels::uint>(i);
  }
  return 0xffffffffu;
}

void argmax(const kernels::ArgmaxArgs& a, Worker& worker) {
  for (uint64_t row = 0, end = 0; claim_items(worker, at(a.step)->n_out, 1, row, end);) {
    for (; row < end; ++row) at(a.out)[row] = first_largest(at(a.logits) + row * a.n_vocab, a.n_vocab);
  }
}

template <class Args, void (*Fn)(const Args&, Worker&)>
void with_args(const std::byte* args, Worker& worker) {
  Fn(*reinterpret_cast<const Args*>(args), worker);
}
constexpr TierKernel kElementwiseTable[] = {
    {{KernelId::quantize_q8}, with_args<kernels::QuantizeQ8Args, quantize_q8>},
    {{KernelId::swiglu}, with_args<kernels::SwigluArgs, swiglu>},
    {{KernelId::relu_squared}, with_args<kernels::ReluSquaredArgs, relu_squared>},
    {{KernelId::delta_net}, with_args<kernels::DeltaNetArgs, delta_net>},
    {{KernelId::ssm_scan}, with_args<kernels::SsmScanArgs, ssm_scan>},
    {{KernelId::gated_norm}, with_args<kernels::GatedNormArgs, gated_norm>},
    {{KernelId::sigmoid_gate}, with_args<kernels::SigmoidGateArgs, sigmoid_gate>},
    {{KernelId::add}, with_args<kernels::AddArgs, add_rows>},
    {{KernelId::softcap}, with_args<kernels::SoftcapArgs, softcap>},
    {{KernelId::moe_combine}, with_args<kernels::MoeCombineArgs, moe_combine>},
    {{KernelId::rms_norm}, with_args<kernels::RmsNormArgs, rms_norm>},
    {{KernelId::conv1d}, with_args<kernels::Conv1dArgs, conv1d>},
    {{KernelId::argmax}, with_args<kernels::ArgmaxArgs, argmax>},
    {{KernelId::rope}, with_args<kernels::RopeArgs, rope>},
};

}  // namespace

TierTable elementwise_kernels() {
  return {kElementwiseTable, sizeof(kElementwiseTable) / sizeof(kElementwiseTable[0])};
}

}  // namespace sluice::backend::cpu::SLUICE_TIER
