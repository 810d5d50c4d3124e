// LoRA adapters: a model with one computes what the model with B A added to its weights does.
#include <gtest/gtest.h>

#include <cmath>

#include "models/adapter.h"
#include "quant/quant.h"
#include "sluice/engine.h"
#include "support/gpu.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace sluice::test {
namespace {

using gguf::Value;

constexpr uint64_t kRank = 5;
constexpr float kAlpha = 7, kScale = 0.5f;

bool is_weight(const gguf::TensorInfo& tensor) {
  return tensor.dims.size() > 1 && tensor.name != "token_embd.weight" && !tensor.name.ends_with("conv.weight");
}

std::vector<float> values_of(const gguf::File& file, const gguf::TensorInfo& tensor) {
  std::vector<float> values(tensor.n_elements);
  quant::codec(tensor.type->type).dequantize(file.data(tensor).data(), values.data(), values.size());
  return values;
}

GgufBuilder adapter_for(const gguf::File& model, const std::function<bool(const std::string&)>& changes) {
  GgufBuilder b;
  b.set("general.type", Value::of(std::string("adapter")));
  b.set("adapter.type", Value::of(std::string("lora")));
  b.set("general.architecture", Value::of(*model.get_string("general.architecture")));
  b.set("adapter.lora.alpha", Value::of(kAlpha));
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    if (!is_weight(tensor) || !changes(tensor.name)) continue;
    std::vector<uint64_t> a = {tensor.dims[0], kRank}, b_dims = {kRank, tensor.dims[1]};
    if (tensor.dims.size() > 2) a.push_back(tensor.dims[2]), b_dims.push_back(tensor.dims[2]);
    b.add_random(tensor.name + ".lora_a", a, Type::F32, 0.2f);
    b.add_random(tensor.name + ".lora_b", b_dims, Type::F16, 0.2f);
  }
  return b;
}

// The model with the adapter's products in its weights.
GgufBuilder merged(const gguf::File& model, const gguf::File& adapter) {
  GgufBuilder b;
  for (const gguf::KeyValue& pair : model.metadata()) b.set(pair.key, pair.value);
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    std::vector<float> w = values_of(model, tensor);
    const gguf::TensorInfo* a_info = adapter.find_tensor(tensor.name + ".lora_a");
    if (a_info != nullptr) {
      const auto a = values_of(adapter, *a_info);
      const auto right = values_of(adapter, *adapter.find_tensor(tensor.name + ".lora_b"));
      const uint64_t k = tensor.dims[0], m = tensor.dims[1];
      for (uint64_t at = 0; at < w.size(); ++at) {
        const uint64_t column = at % k, row = at / k % m, e = at / k / m;
        double sum = 0;
        for (uint64_t r = 0; r < kRank; ++r)
          sum += double{right[(e * m + row) * kRank + r]} * a[(e * kRank + r) * k + column];
        w[at] += static_cast<float>(sum * kScale * kAlpha / kRank);
      }
    }
    b.add(tensor.name, std::vector<uint64_t>(tensor.dims.begin(), tensor.dims.end()), Type::F32, w);
  }
  return b;
}

std::vector<float> logits(const std::string& path, EngineOptions options, size_t chunk) {
  options.n_ctx = 64;
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  if (!engine) return {};
  std::vector<Token> tokens;
  for (const Token id : ids(5, 24)) tokens.push_back(id % 48);
  auto sequence = (*engine)->new_sequence();
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const auto piece = std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at));
    auto result = (*engine)->step({{.sequence = &*sequence, .tokens = piece, .logits = Logits::all}});
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return {};
    all.insert(all.end(), result->logits.begin(), result->logits.end());
  }
  return all;
}

class Adapters : public testing::Test {
 protected:
  void write(const GgufBuilder& model, const std::function<bool(const std::string&)>& changes) {
    model.write(base_);
    const auto file = gguf::File::open(base_);
    ASSERT_TRUE(file);
    adapter_for(*file, changes).write(adapter_);
    const auto adapter = gguf::File::open(adapter_);
    ASSERT_TRUE(adapter);
    merged(*file, *adapter).write(merged_);
  }
  EngineOptions with_adapter(EngineOptions options) const {
    options.adapters = {{adapter_, kScale}};
    return options;
  }
  std::string refusal() const {
    const auto engine = Engine::load(base_, with_adapter({}));
    EXPECT_FALSE(engine);
    return engine ? "" : engine.error().message;
  }
  TempDir folder_;
  const std::string base_ = folder_.file("base.gguf"), adapter_ = folder_.file("adapter.gguf"),
                    merged_ = folder_.file("merged.gguf");
};

TEST_F(Adapters, ComputeTheMergedModel) {
  const EngineOptions exact{.reference = true};
  for (const bool conv : {false, true}) {
    write(conv ? tiny_lfm2moe() : tiny_qwen3moe(), [](const std::string&) { return true; });
    const std::vector<float> expected = logits(merged_, exact, 24);
    EXPECT_GT(nmse(logits(base_, exact, 24), expected), 0.01);
    for (const size_t chunk : {24, 1}) EXPECT_LT(nmse(logits(base_, with_adapter(exact), chunk), expected), 1e-10);
  }
}

// Weights of the fast kernels, which take 8-bit inputs where an adapter takes F32; one kind changed at a time, since
// each decides for itself in which forms its input is made.
TEST_F(Adapters, GoWithRepackedWeights) {
  const TinyShape shape{.expert_type = Type::Q4_0};
  const EngineOptions fast{.type_k = Type::F32, .type_v = Type::F32};
  for (const std::string part : {"_gate_exps", "_up_exps", "_down_exps", "attn_q", "attn_output", "output.weight"}) {
    write(tiny_qwen3moe(shape), [&](const std::string& name) { return name.find(part) != name.npos; });
    const std::vector<float> expected = logits(merged_, {.reference = true}, 24);
    for (const size_t chunk : {24, 1})
      EXPECT_LT(nmse(logits(base_, with_adapter(fast), chunk), expected), 2e-3) << part << " " << chunk;
    EXPECT_GT(nmse(logits(base_, fast, 24), expected), 4e-3) << part;
  }
}

// Projections that each head has of its own, which the kernels of experts multiply.
TEST_F(Adapters, ChangeTheMatricesOfHeads) {
  const EngineOptions exact{.reference = true};
  for (const OracleModel& model : oracle_models()) {
    if (model.name != "deepseek2") continue;
    const std::string base = model.file.string();
    const auto file = gguf::File::open(base);
    ASSERT_TRUE(file);
    adapter_for(*file, [](const std::string& name) {
      return name.ends_with("attn_k_b.weight") || name.ends_with("attn_v_b.weight");
    }).write(adapter_);
    const auto adapter = gguf::File::open(adapter_);
    ASSERT_TRUE(adapter);
    merged(*file, *adapter).write(merged_);
    const std::vector<float> expected = logits(merged_, exact, 24);
    EXPECT_GT(nmse(logits(base, exact, 24), expected), 0.01);
    for (const size_t chunk : {24, 1}) EXPECT_LT(nmse(logits(base, with_adapter(exact), chunk), expected), 1e-10);
  }
}

#ifdef SLUICE_HAVE_VULKAN
TEST_F(Adapters, ComputeTheSameOnAGpu) {
  SLUICE_NEED_VULKAN();
  write(tiny_qwen3moe(), [](const std::string&) { return true; });
  const EngineOptions gpu{.backend = "vulkan", .deterministic = true, .type_k = Type::F32, .type_v = Type::F32};
  const std::vector<float> expected = logits(merged_, {.reference = true}, 24);
  for (const size_t chunk : {24, 8}) EXPECT_LT(nmse(logits(base_, with_adapter(gpu), chunk), expected), 1e-9);
}
#endif

TEST_F(Adapters, SeveralAddUp) {
  write(tiny_qwen3moe(), [](const std::string&) { return true; });
  EngineOptions halves{.reference = true};
  halves.adapters = {{adapter_, kScale / 2}, {adapter_, kScale / 2}};
  EXPECT_LT(nmse(logits(base_, halves, 24), logits(merged_, {.reference = true}, 24)), 1e-10);
}

TEST_F(Adapters, OfAnotherKindOrModelAreRefused) {
  write(tiny_qwen3moe(), [](const std::string&) { return true; });
  const auto file = gguf::File::open(base_);
  ASSERT_TRUE(file);
  const auto changed = [&](auto change) {
    GgufBuilder b = adapter_for(*file, [](const std::string& name) { return name == "output.weight"; });
    change(b);
    b.write(adapter_);
    return refusal();
  };
  const auto contains = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), message.npos) << message;
  };
  contains(changed([](GgufBuilder& b) { b.set("general.type", Value::of(std::string("model"))); }), "is no adapter");
  contains(changed([](GgufBuilder& b) { b.set("adapter.type", Value::of(std::string("x"))); }),
           "another kind than lora");
  contains(changed([](GgufBuilder& b) { b.set("general.architecture", Value::of(std::string("llama"))); }),
           "is made for 'llama'");
  contains(changed([](GgufBuilder& b) { b.add_random("output.weight", {4, 4}, Type::F32); }), "no part of one");
  contains(changed([](GgufBuilder& b) {
             b.add_random("blk.9.ffn_up.weight.lora_a", {4, 4}, Type::F32);
           }),
           "changes 'blk.9.ffn_up.weight'");
  contains(changed([](GgufBuilder& b) {
             b.add_random("token_embd.weight.lora_b", {4, 4}, Type::F32);
           }),
           "changes 'token_embd.weight'");
  contains(changed([](GgufBuilder& b) { b.patch("tensor/output.weight.lora_b/dim1", uint64_t{47}); }),
           "lacks 'output.weight.lora_b' in the shape");
  contains(changed([](GgufBuilder& b) { b.patch("tensor/output.weight.lora_a/dim1", uint64_t{1}); }),
           "lacks 'output.weight.lora_b' in the shape");
  contains(changed([](GgufBuilder& b) { b.set("adapter.lora.alpha", Value::of(NAN)); }),
           "no usable adapter.lora.alpha");
}

}  // namespace
}  // namespace sluice::test
