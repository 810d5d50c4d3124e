#include "support/tiny_model.h"

#include <cmath>

namespace sluice::test {
namespace {

using gguf::Value;

void matrix(GgufBuilder& b, const std::string& name, uint32_t m, uint32_t k, Type type = Type::F32) {
  b.add_random(name, {k, m}, type, 1.0f / std::sqrt(static_cast<float>(k)));
}

void vector(GgufBuilder& b, const std::string& name, uint32_t n, float around = 1) {
  std::vector<float> values = random_values(n, n + name.size(), 0.1f);
  for (float& v : values) v += around;
  b.add(name, {n}, Type::F32, values);
}

void common(GgufBuilder& b, const std::string& a, const TinyShape& s) {
  b.set("general.architecture", Value::of(a));
  b.set(a + ".block_count", Value::of(uint32_t{2}));
  b.set(a + ".context_length", Value::of(uint32_t{128}));
  b.set(a + ".embedding_length", Value::of(s.n_embd));
  b.set(a + ".feed_forward_length", Value::of(s.n_ff));
  b.set(a + ".attention.head_count", Value::of(s.n_head));
  b.set(a + ".attention.layer_norm_rms_epsilon", Value::of(1e-5f));
  b.set(a + ".rope.freq_base", Value::of(1e6f));
  b.set(a + ".expert_count", Value::of(s.n_expert));
  b.set(a + ".expert_used_count", Value::of(s.n_used));
  b.set(a + ".expert_feed_forward_length", Value::of(s.n_ff_expert));
  b.set("tokenizer.ggml.model", Value::of(std::string("no_vocab")));
  matrix(b, "token_embd.weight", s.n_vocab, s.n_embd);
}

void attention(GgufBuilder& b, const std::string& p, const TinyShape& s) {
  const uint32_t d = s.n_embd / s.n_head;
  matrix(b, p + "attn_q.weight", s.n_embd, s.n_embd);
  matrix(b, p + "attn_k.weight", s.n_kv_head * d, s.n_embd);
  matrix(b, p + "attn_v.weight", s.n_kv_head * d, s.n_embd);
  matrix(b, p + "attn_output.weight", s.n_embd, s.n_embd);
  vector(b, p + "attn_q_norm.weight", d);
  vector(b, p + "attn_k_norm.weight", d);
}

void experts(GgufBuilder& b, const std::string& p, const TinyShape& s) {
  matrix(b, p + "ffn_gate_inp.weight", s.n_expert, s.n_embd);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.n_embd));
  b.add_random(p + "ffn_gate_exps.weight", {s.n_embd, s.n_ff_expert, s.n_expert}, s.expert_type, scale);
  b.add_random(p + "ffn_up_exps.weight", {s.n_embd, s.n_ff_expert, s.n_expert}, s.expert_type, scale);
  b.add_random(p + "ffn_down_exps.weight", {s.n_ff_expert, s.n_embd, s.n_expert}, s.expert_type, scale);
}

}  // namespace

GgufBuilder tiny_lfm2moe(const TinyShape& s) {
  GgufBuilder b;
  common(b, "lfm2moe", s);
  b.set("lfm2moe.attention.head_count_kv", Value::of(std::vector<uint32_t>{0, s.n_kv_head}));
  b.set("lfm2moe.shortconv.l_cache", Value::of(uint32_t{3}));
  b.set("lfm2moe.leading_dense_block_count", Value::of(uint32_t{1}));
  b.set("lfm2moe.expert_gating_func", Value::of(uint32_t{2}));
  vector(b, "token_embd_norm.weight", s.n_embd);
  for (const char* p : {"blk.0.", "blk.1."}) {
    vector(b, std::string(p) + "attn_norm.weight", s.n_embd);
    vector(b, std::string(p) + "ffn_norm.weight", s.n_embd);
  }
  b.add_random("blk.0.shortconv.conv.weight", {3, s.n_embd}, Type::F32, 0.5f);
  matrix(b, "blk.0.shortconv.in_proj.weight", 3 * s.n_embd, s.n_embd);
  matrix(b, "blk.0.shortconv.out_proj.weight", s.n_embd, s.n_embd);
  matrix(b, "blk.0.ffn_gate.weight", s.n_ff, s.n_embd);
  matrix(b, "blk.0.ffn_up.weight", s.n_ff, s.n_embd);
  matrix(b, "blk.0.ffn_down.weight", s.n_embd, s.n_ff);
  attention(b, "blk.1.", s);
  experts(b, "blk.1.", s);
  vector(b, "blk.1.exp_probs_b.bias", s.n_expert, 0);
  return b;
}

GgufBuilder tiny_qwen3moe(const TinyShape& s) {
  GgufBuilder b;
  common(b, "qwen3moe", s);
  b.set("qwen3moe.attention.head_count_kv", Value::of(s.n_kv_head));
  b.set("qwen3moe.attention.key_length", Value::of(s.n_embd / s.n_head));
  b.set("qwen3moe.attention.value_length", Value::of(s.n_embd / s.n_head));
  vector(b, "output_norm.weight", s.n_embd);
  matrix(b, "output.weight", s.n_vocab, s.n_embd);
  for (const char* p : {"blk.0.", "blk.1."}) {
    vector(b, std::string(p) + "attn_norm.weight", s.n_embd);
    vector(b, std::string(p) + "ffn_norm.weight", s.n_embd);
    attention(b, p, s);
    experts(b, p, s);
  }
  return b;
}

GgufBuilder tiny_mixtral(bool stacked) {
  const TinyShape s;
  GgufBuilder b;
  common(b, "llama", s);
  b.set("llama.feed_forward_length", Value::of(s.n_ff_expert));
  b.set("llama.attention.head_count_kv", Value::of(s.n_kv_head));
  vector(b, "output_norm.weight", s.n_embd);
  for (const std::string p : {"blk.0.", "blk.1."}) {
    vector(b, p + "attn_norm.weight", s.n_embd);
    vector(b, p + "ffn_norm.weight", s.n_embd);
    matrix(b, p + "attn_q.weight", s.n_embd, s.n_embd);
    matrix(b, p + "attn_k.weight", s.n_embd / 2, s.n_embd);
    matrix(b, p + "attn_v.weight", s.n_embd / 2, s.n_embd);
    matrix(b, p + "attn_output.weight", s.n_embd, s.n_embd);
    matrix(b, p + "ffn_gate_inp.weight", s.n_expert, s.n_embd);
    for (const std::string name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      const bool down = name == "ffn_down";
      const uint64_t k = down ? s.n_ff_expert : s.n_embd, m = down ? s.n_embd : s.n_ff_expert;
      const auto values = random_values(k * m * s.n_expert, m + name.size(), 0.2f);
      if (stacked) b.add(p + name + "_exps.weight", {k, m, s.n_expert}, Type::Q4_0, values);
      for (uint64_t e = 0; e < s.n_expert && !stacked; ++e) {
        const auto one = std::span(values).subspan(e * k * m, k * m);
        b.add(p + name + "." + std::to_string(e) + ".weight", {k, m}, Type::Q4_0, one);
      }
    }
  }
  return b;
}

}  // namespace sluice::test
