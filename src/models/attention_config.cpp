#include "models/attention_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::models {
namespace {

// A head's keys and values, and the sums of a group of heads for one token, share the scratch memory of a CPU kernel (4
// MiB): these keep them within a quarter of it each.
constexpr uint32_t kMostHeadSize = 1024;
constexpr uint64_t kMostGroupValues = 1u << 17;  // heads that share a key-value head, times values of each

}  // namespace

Result<AttentionConfig> read_attention(Metadata& meta, Config& config, const AttentionForm& form) {
  AttentionConfig a;
  a.form = form;
  a.eps = config.eps;
  a.n_head = TRY(meta.count("attention.head_count"));
  const bool divides = config.n_embd % a.n_head == 0;
  if (!divides && !meta.has("attention.key_length")) {
    return Error(Code::corrupt_file, fmt::format("width {} does not divide into {} heads; download the file again",
                                                 config.n_embd, a.n_head));
  }
  a.d_k = TRY(meta.count_or("attention.key_length", divides ? config.n_embd / a.n_head : 1));
  a.d_v = TRY(meta.count_or("attention.value_length", a.d_k));
  a.n_rot = TRY(meta.count_or("rope.dimension_count", a.d_k));
  if (a.d_k > kMostHeadSize || a.d_v > kMostHeadSize || a.n_head > 4096) {
    return Error(Code::unsupported,
                 fmt::format("{} heads of {} and {} values are more than this program allows; use another model",
                             a.n_head, a.d_k, a.d_v));
  }
  if (a.n_rot > a.d_k || a.n_rot % 2 != 0) {
    return Error(Code::corrupt_file,
                 fmt::format("metadata rotates {} of {} values of a head; download the file again", a.n_rot, a.d_k));
  }
  if (!form.rotary) a.n_rot = 0;
  config.n_rot = a.n_rot;
  for (LayerSpec& layer : config.layers) {
    if (!layer.attention) continue;
    layer.d_k = a.d_k;
    layer.d_v = a.d_v;
    if (layer.n_kv_head == 0 || a.n_head % layer.n_kv_head != 0) {
      return Error(Code::corrupt_file, fmt::format("{} heads cannot share {} key-value heads; download the file again",
                                                   a.n_head, layer.n_kv_head));
    }
    const uint32_t n_sharing = a.n_head / layer.n_kv_head, largest = std::max(a.d_k, a.d_v);
    if (uint64_t{n_sharing} * largest > kMostGroupValues) {
      return Error(Code::unsupported,
                   fmt::format("{} heads of {} values that share one key-value head are more than this program allows; "
                               "use another model",
                               n_sharing, largest));
    }
  }
  return a;
}

Result<std::vector<uint32_t>> read_windows(Metadata& meta, uint32_t n_layer, uint32_t period) {
  const uint32_t window = TRY(meta.number_or("attention.sliding_window", 0));
  std::vector<uint32_t> windows(n_layer, 0);
  const std::optional<std::vector<bool>> flags = TRY(meta.per_layer_flags("attention.sliding_window_pattern", n_layer));
  if (!flags) period = TRY(meta.count_or("attention.sliding_window_pattern", period));
  for (uint32_t i = 0; i < n_layer; ++i) {
    if (flags ? (*flags)[i] : (i + 1) % period != 0) windows[i] = window;
  }
  return windows;
}

ops::AttentionShape attention_shape(const AttentionConfig& a, const LayerSpec& layer) {
  return {.n_head = a.n_head,
          .n_kv_head = layer.n_kv_head,
          .d_k = a.d_k,
          .d_v = a.d_v,
          .window = layer.window,
          .scale = a.form.scale != 0 ? a.form.scale : 1.0f / std::sqrt(static_cast<float>(a.d_k)),
          .eps = a.eps,
          .gated = a.form.gated};
}

Result<ops::AttentionWeights> load_attention(WeightLoader& loader, const AttentionConfig& a, const Config& config,
                                             const LayerSpec& layer, const std::string& prefix) {
  ops::AttentionWeights w;
  const uint32_t n_q = a.n_head * a.d_k, n_k = layer.n_kv_head * a.d_k, n_v = layer.n_kv_head * a.d_v;
  if (const std::string fused = prefix + "attn_qkv.weight"; loader.has(fused)) {
    w.q = TRY(loader.rows(fused, n_q + n_k + n_v, 0, n_q, config.n_embd));
    w.k = TRY(loader.rows(fused, n_q + n_k + n_v, n_q, n_k, config.n_embd));
    w.v = TRY(loader.rows(fused, n_q + n_k + n_v, n_q + n_k, n_v, config.n_embd));
  } else {
    w.q = TRY(loader.matrix(prefix + "attn_q.weight", n_q * (a.form.gated ? 2 : 1), config.n_embd));
    w.k = TRY(loader.matrix(prefix + "attn_k.weight", n_k, config.n_embd));
    const bool k_is_v = a.form.k_may_be_v && !loader.has(prefix + "attn_v.weight");
    w.v = k_is_v ? w.k : TRY(loader.matrix(prefix + "attn_v.weight", n_v, config.n_embd));
  }
  w.o = TRY(loader.matrix(prefix + "attn_output.weight", config.n_embd, a.n_head * a.d_v));
  const QkNorm norm = a.form.qk_norm;
  if (norm != QkNorm::none) {
    w.q_norm = TRY(loader.vector(prefix + "attn_q_norm.weight", {norm == QkNorm::per_head ? a.d_k : a.n_head * a.d_k}));
    w.k_norm = TRY(loader.vector(prefix + "attn_k_norm.weight", {norm == QkNorm::per_head ? a.d_k : w.k.m}));
  }
  if (a.form.v_norm) w.v_norm = TRY(loader.constant(a.d_v, 1));
  if (a.form.qkv_bias) {
    w.q_bias = TRY(loader.vector(prefix + "attn_q.bias", {w.q.m}));
    w.k_bias = TRY(loader.vector(prefix + "attn_k.bias", {w.k.m}));
    w.v_bias = TRY(loader.vector(prefix + "attn_v.bias", {w.v.m}));
  }
  if (a.form.o_bias) w.o_bias = TRY(loader.vector(prefix + "attn_output.bias", {config.n_embd}));
  if (a.form.sinks) w.sinks = TRY(loader.vector(prefix + "attn_sinks.weight", {a.n_head}));
  return w;
}

}  // namespace sluice::models
