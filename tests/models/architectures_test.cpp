// Architectures and forms of files that no reference model has, held against ones that have: the same weights written
// in another way compute the same.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "quant/quant.h"
#include "sluice/engine.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace sluice::test {
namespace {

using gguf::Value;

struct NamedTensor {
  std::string name;
  std::vector<uint64_t> dims;
  std::vector<float> values;
};

// A model that is taken apart, changed and written again, all weights in f32.
struct Parts {
  std::string architecture;
  std::vector<std::pair<std::string, Value>> metadata;  // without the architecture's prefix where they have it
  std::vector<NamedTensor> tensors;

  explicit Parts(const gguf::File& file) : architecture(*file.get_string("general.architecture")) {
    const std::string prefix = architecture + ".";
    for (const gguf::KeyValue& pair : file.metadata()) {
      const bool own = pair.key.starts_with(prefix);
      metadata.emplace_back(own ? pair.key.substr(prefix.size() - 1) : pair.key, pair.value);
    }
    for (const gguf::TensorInfo& info : file.tensors()) {
      std::vector<float> values(info.n_elements);
      quant::codec(info.type->type).dequantize(file.data(info).data(), values.data(), values.size());
      tensors.push_back({info.name, info.dims, std::move(values)});
    }
  }

  void drop(const std::string& ending) {
    std::erase_if(metadata, [&](const auto& pair) { return pair.first.ends_with(ending); });
    std::erase_if(tensors, [&](const NamedTensor& t) { return t.name.ends_with(ending); });
  }
  void set(const std::string& key, Value value) {
    drop(key);
    metadata.emplace_back(key, std::move(value));
  }
  void rename(const std::string& ending, const std::string& other) {
    for (NamedTensor& t : tensors) {
      if (t.name.ends_with(ending)) t.name.replace(t.name.size() - ending.size(), ending.size(), other);
    }
  }
  void change(const std::string& ending, const std::function<void(NamedTensor&)>& how) {
    for (NamedTensor& t : tensors) {
      if (t.name.ends_with(ending)) how(t);
    }
  }

  GgufBuilder builder() const {
    GgufBuilder b;
    for (const auto& [key, value] : metadata) b.set(key.starts_with(".") ? architecture + key : key, value);
    b.set("general.architecture", Value::of(architecture));
    for (const NamedTensor& t : tensors) b.add(t.name, t.dims, Type::F32, t.values);
    return b;
  }
};

class Architectures : public testing::Test {
 protected:
  // The reference model of that name; the test is skipped where there is none.
  std::optional<OracleModel> oracle(const std::string& name) {
    for (OracleModel& model : oracle_models()) {
      if (model.name == name) return std::move(model);
    }
    return std::nullopt;
  }
  std::vector<float> logits(const GgufBuilder& builder, std::span<const Token> tokens, uint32_t n_ctx = 128) {
    const std::string path = dir_.file(std::to_string(n_files_++) + ".gguf");
    builder.write(path);
    EngineOptions options;
    options.reference = true;
    options.n_ctx = n_ctx;
    auto engine = Engine::load(path, options);
    EXPECT_TRUE(engine) << engine.error().message;
    if (!engine) return {};
    auto sequence = (*engine)->new_sequence();
    auto result = (*engine)->step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all}});
    EXPECT_TRUE(result);
    return result ? std::move(result->logits) : std::vector<float>();
  }
  void expect_oracle_logits(const OracleModel& model, const GgufBuilder& builder) {
    size_t n_rows = 0, n_vocab = 0;
    const std::vector<Token> tokens = model.tokens();
    EXPECT_LE(nmse(logits(builder, tokens), model.logits(n_rows, n_vocab)), 1e-9);
  }
  TempDir dir_;
  int n_files_ = 0;
};

// Rows of each head: those of its keys' projection, which the two-tensor layout has turned around, then its values'.
void fuse_keys_and_values(Parts& parts, uint64_t n_head) {
  std::vector<NamedTensor> fused;
  for (const NamedTensor& k : parts.tensors) {
    const size_t at = k.name.find("attn_k_b.weight");
    if (at == std::string::npos) continue;
    const std::string prefix = k.name.substr(0, at);
    NamedTensor both{prefix + "attn_kv_b.weight", {}, {}};
    for (const NamedTensor& v : parts.tensors) {
      if (v.name != prefix + "attn_v_b.weight") continue;
      const uint64_t d_k = k.dims[0], rank = k.dims[1], d_v = v.dims[1];
      both.dims = {rank, n_head * (d_k + d_v)};
      for (uint64_t h = 0; h < n_head; ++h) {
        for (uint64_t r = 0; r < d_k; ++r) {
          for (uint64_t c = 0; c < rank; ++c) both.values.push_back(k.values[(h * rank + c) * d_k + r]);
        }
        for (uint64_t i = 0; i < d_v * rank; ++i) both.values.push_back(v.values[h * d_v * rank + i]);
      }
    }
    fused.push_back(std::move(both));
  }
  parts.drop("attn_k_b.weight");
  parts.drop("attn_v_b.weight");
  for (NamedTensor& tensor : fused) parts.tensors.push_back(std::move(tensor));
}

TEST_F(Architectures, LatentKeysAndValuesMayComeAsOneMatrix) {
  for (const char* name : {"deepseek2", "deepseek2-v3"}) {
    const auto model = oracle(name);
    if (!model) GTEST_SKIP() << "no reference model " << name;
    Parts parts(*gguf::File::open(model->file.string()));
    fuse_keys_and_values(parts, 4);
    // As such files have them: the sizes of a head, and no others.
    const bool v3 = std::string(name) == "deepseek2-v3";
    parts.drop(".attention.key_length_mla");
    parts.drop(".attention.value_length_mla");
    parts.set(".attention.key_length", Value::of(uint32_t{32}));
    parts.set(".attention.value_length", Value::of(uint32_t{v3 ? 24u : 16u}));
    parts.set(".attention.head_count_kv", Value::of(uint32_t{4}));
    if (!v3) parts.drop(".attention.q_lora_rank");
    expect_oracle_logits(*model, parts.builder());
  }
}

TEST_F(Architectures, LayersWithAWindowAreThoseThatTheFileNames) {
  const auto model = oracle("gpt-oss");
  if (!model) GTEST_SKIP() << "no reference model gpt-oss";
  size_t n_rows = 0, n_vocab = 0;
  const std::vector<Token> tokens = model->tokens();
  const std::vector<float> expected = model->logits(n_rows, n_vocab);
  const auto error = [&](Value pattern) {
    Parts parts(*gguf::File::open(model->file.string()));
    parts.set(".attention.sliding_window_pattern", std::move(pattern));
    return nmse(logits(parts.builder(), tokens), expected);
  };
  EXPECT_LE(error(Value::of(std::vector<uint32_t>{1, 0, 1, 0})), 1e-9);
  EXPECT_LE(error(Value::of(uint32_t{2})), 1e-9);
  EXPECT_GT(error(Value::of(std::vector<uint32_t>{0, 1, 0, 1})), 1e-3);
  EXPECT_GT(error(Value::of(uint32_t{4})), 1e-3);
}

TEST_F(Architectures, GraniteIsLlamaWhereNothingIsScaled) {
  const auto model = oracle("llama");
  if (!model) GTEST_SKIP() << "no reference model llama";
  Parts parts(*gguf::File::open(model->file.string()));
  parts.architecture = "granite";
  expect_oracle_logits(*model, parts.builder());
}

TEST_F(Architectures, GraniteIsGranitemoeOfOneExpert) {
  const auto model = oracle("granitemoe");
  if (!model) GTEST_SKIP() << "no reference model granitemoe";
  Parts one(*gguf::File::open(model->file.string()));
  one.set(".expert_count", Value::of(uint32_t{1}));
  one.set(".expert_used_count", Value::of(uint32_t{1}));
  for (const char* ending : {"_exps.weight", "ffn_gate_inp.weight"}) {
    one.change(ending, [](NamedTensor& t) {
      t.values.resize(t.values.size() / t.dims.back());
      t.dims.back() = 1;
    });
  }
  Parts dense = one;
  dense.architecture = "granite";
  dense.drop(".expert_count");
  dense.drop(".expert_used_count");
  dense.drop("ffn_gate_inp.weight");
  dense.rename("_exps.weight", ".weight");
  const std::vector<Token> tokens = model->tokens();
  EXPECT_LE(nmse(logits(dense.builder(), tokens), logits(one.builder(), tokens)), 1e-10);
}

// A shared expert that a gate of zeros halves, beside experts that give nothing, is a dense network.
TEST_F(Architectures, Qwen2IsQwen2moeOfASharedExpertAlone) {
  const auto model = oracle("qwen2moe");
  if (!model) GTEST_SKIP() << "no reference model qwen2moe";
  Parts routed(*gguf::File::open(model->file.string()));
  const auto zero = [](NamedTensor& t) { std::fill(t.values.begin(), t.values.end(), 0.0f); };
  routed.change("ffn_down_exps.weight", zero);
  routed.change("ffn_gate_inp_shexp.weight", zero);
  Parts dense = routed;
  dense.architecture = "qwen2";
  for (const char* ending :
       {".expert_count", ".expert_used_count", ".expert_feed_forward_length", ".expert_shared_feed_forward_length",
        "_exps.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight"}) {
    dense.drop(ending);
  }
  uint64_t n_ff = 0;
  dense.change("ffn_gate_shexp.weight", [&](NamedTensor& t) { n_ff = t.dims[1]; });
  dense.set(".feed_forward_length", Value::of(static_cast<uint32_t>(n_ff)));
  dense.change("ffn_down_shexp.weight", [](NamedTensor& t) {
    for (float& value : t.values) value *= 0.5f;
  });
  dense.rename("_shexp.weight", ".weight");
  const std::vector<Token> tokens = model->tokens();
  EXPECT_LE(nmse(logits(dense.builder(), tokens), logits(routed.builder(), tokens)), 1e-10);
}

// 20 of them.
std::vector<Token> tiny_tokens() {
  std::vector<Token> tokens = ids(3, 20);
  for (Token& token : tokens) token %= static_cast<Token>(TinyShape{}.n_vocab);
  return tokens;
}

constexpr float kFours[] = {4, 4, 4, 4, 4, 4, 4, 4}, kTwos[] = {2, 2, 2, 2, 2, 2, 2, 2};

TEST_F(Architectures, RopeScalesByAFactorOrByATensorOfFactors) {
  const std::vector<Token> tokens = tiny_tokens();
  const auto linear = [&](float factor) {
    return logits(tiny_qwen3moe()
                      .set("qwen3moe.rope.scaling.type", Value::of(std::string("linear")))
                      .set("qwen3moe.rope.scaling.factor", Value::of(factor)),
                  tokens);
  };
  const std::vector<float> by_4 = linear(4), by_2 = linear(2), plain = logits(tiny_qwen3moe(), tokens);
  EXPECT_GT(nmse(by_4, plain), 1e-6);
  EXPECT_EQ(logits(tiny_qwen3moe().set("qwen3moe.rope.scale_linear", Value::of(4.0f)), tokens), by_4);
  EXPECT_EQ(logits(tiny_qwen3moe().add("rope_freqs.weight", {8}, Type::F32, kFours), tokens), by_4);
  EXPECT_EQ(logits(tiny_qwen3moe()
                       .set("qwen3moe.rope.scaling.type", Value::of(std::string("none")))
                       .set("qwen3moe.rope.scaling.factor", Value::of(4.0f)),
                   tokens),
            plain);
  // Factors for contexts longer than the original one, and others for those that are not.
  const GgufBuilder both = tiny_qwen3moe()
                               .set("qwen3moe.rope.scaling.type", Value::of(std::string("longrope")))
                               .set("qwen3moe.rope.scaling.original_context_length", Value::of(uint32_t{64}))
                               .add("rope_factors_long.weight", {8}, Type::F32, kFours)
                               .add("rope_factors_short.weight", {8}, Type::F32, kTwos);
  EXPECT_EQ(logits(both, tokens, 65), by_4);
  EXPECT_EQ(logits(both, tokens, 64), by_2);
}

TEST_F(Architectures, YarnLeavesFastPairsAndScalesTheOthers) {
  const std::vector<Token> tokens = tiny_tokens();
  const auto yarn = [&](float factor, float beta_fast, float beta_slow) {
    return logits(tiny_qwen3moe()
                      .set("qwen3moe.rope.scaling.type", Value::of(std::string("yarn")))
                      .set("qwen3moe.rope.scaling.factor", Value::of(factor))
                      .set("qwen3moe.rope.scaling.original_context_length", Value::of(uint32_t{32}))
                      // So that the magnitude is 1: the scores of whole heads are then as without it.
                      .set("qwen3moe.rope.scaling.attn_factor", Value::of(1 / (1 + 0.1f * std::log(factor))))
                      .set("qwen3moe.rope.scaling.yarn_beta_fast", Value::of(beta_fast))
                      .set("qwen3moe.rope.scaling.yarn_beta_slow", Value::of(beta_slow)),
                  tokens);
  };
  const std::vector<float> plain = logits(tiny_qwen3moe(), tokens);
  EXPECT_LE(nmse(yarn(1, 32, 1), plain), 1e-12);
  EXPECT_LE(nmse(yarn(4, 1e-9f, 1e-10f), plain), 1e-10);  // all pairs are fast
  // The fastest pair alone is.
  EXPECT_GT(nmse(yarn(4, 1e9f, 1e8f), plain), 1e-6);
}

}  // namespace
}  // namespace sluice::test
