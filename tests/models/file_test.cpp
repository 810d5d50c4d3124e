// Whole small models from crafted files: what loads, what is refused and how it is said, and rules that files may vary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/cpu_info.h"
#include "base/log.h"
#include "kernels/all_contracts.h"
#include "quant/panel.h"
#include "sluice/engine.h"
#include "sluice/sampler.h"
#include "support/oracle.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace sluice::test {
namespace {

using gguf::Value;

class ModelFiles : public testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> load(const GgufBuilder& builder, EngineOptions options = {}) {
    const std::string path =
        dir_.file(std::to_string(n_files_++) + ".gguf");  // engines map their files: none is written twice
    builder.write(path);
    options.n_threads = 2;
    return Engine::load(path, options);
  }
  // The message of a refusal; "" where it loads.
  std::string refusal(const GgufBuilder& builder, const EngineOptions& options = {}) {
    auto engine = load(builder, options);
    if (engine) return "";
    EXPECT_EQ(engine.error().message.find('\n'), std::string::npos);
    EXPECT_NE(engine.error().message.find(';'), std::string::npos) << engine.error().message;  // WHAT; REMEDY
    return engine.error().message;
  }
  StepResult run(Engine& engine, std::vector<Token> tokens = {1, 5, 9, 2, 7}) {
    auto sequence = engine.new_sequence();
    StepOptions options;
    options.routing = options.gate = true;
    auto result = engine.step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all}}, options);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? std::move(*result) : StepResult{};
  }
  TempDir dir_;
  int n_files_ = 0;
};

bool names(const std::string& message, const std::string& what) { return message.find(what) != std::string::npos; }

TEST_F(ModelFiles, TinyModelsLoadAndAgreeWithTheReference) {
  for (const auto& builder : {tiny_lfm2moe(), tiny_qwen3moe()}) {
    auto fast = load(builder);
    ASSERT_TRUE(fast) << fast.error().message;
    EngineOptions options;
    options.reference = true;
    auto reference = load(builder, options);
    ASSERT_TRUE(reference);
    EXPECT_LE(nmse(run(**fast).logits, run(**reference).logits), 1e-5);  // the fast cache is F16
  }
}

TEST_F(ModelFiles, ExpertsMayHaveATensorEach) {
  for (const bool repack : {true, false}) {
    EngineOptions options;
    options.repack = repack;
    auto stacked = load(tiny_mixtral(true), options), apart = load(tiny_mixtral(false), options);
    ASSERT_TRUE(stacked && apart) << (stacked ? apart : stacked).error().message;
    EXPECT_EQ(run(**stacked).logits, run(**apart).logits);
    EXPECT_TRUE((*apart)->model().unused_tensors.empty());
  }
  const std::string last = "blk.1.ffn_up.5.weight";
  GgufBuilder broken = tiny_mixtral(false);
  EXPECT_TRUE(names(refusal(broken.patch_bytes("tensor/" + last + "/bytes", "blk.1.ffn_up.6.weight")), last));
}

TEST_F(ModelFiles, EveryMissingTensorIsNamed) {
  const GgufBuilder whole = tiny_lfm2moe();
  const std::string path = dir_.file("whole.gguf");
  whole.write(path);
  const auto file = gguf::File::open(path);
  ASSERT_TRUE(file);
  for (const gguf::TensorInfo& tensor : file->tensors()) {
    GgufBuilder broken = tiny_lfm2moe();
    std::string other = tensor.name;
    other.back() = '_';
    broken.patch_bytes("tensor/" + tensor.name + "/bytes", other);
    const std::string message = refusal(broken);
    if (tensor.name == "blk.1.exp_probs_b.bias") continue;  // a model without a selection bias is a model
    EXPECT_TRUE(names(message, tensor.name)) << tensor.name << ": " << message;
  }
}

TEST_F(ModelFiles, MetadataThatChangesTheArithmeticIsRefused) {
  const std::pair<const char*, Value> keys[] = {
      {"attention.sliding_window", Value::of(uint32_t{16})},
      {"attention.clamp_kqv", Value::of(30.0f)},
      {"attention.scale", Value::of(0.5f)},
      {"attention.kv_lora_rank", Value::of(uint32_t{16})},
      {"rope.scaling.type", Value::of(std::string("dynamic"))},
      {"rope.scaling.yarn_log_multiplier", Value::of(0.1f)},
      {"logit_scale", Value::of(2.0f)},
      {"residual_scale", Value::of(0.5f)},
      {"embedding_scale", Value::of(12.0f)},
      {"final_logit_softcapping", Value::of(30.0f)},
      {"attn_logit_softcapping", Value::of(50.0f)},
      {"expert_group_count", Value::of(uint32_t{4})},
      {"expert_shared_count", Value::of(uint32_t{1})},
      {"attention.causal", Value::of(false)},
      {"attention.max_alibi_bias", Value::of(8.0f)},
  };
  for (const auto& [key, value] : keys) {
    for (auto& [architecture, builder] :
         {std::pair{"lfm2moe", tiny_lfm2moe()}, std::pair{"qwen3moe", tiny_qwen3moe()}}) {
      const std::string full = std::string(architecture) + "." + key;
      GgufBuilder changed = builder;
      EXPECT_TRUE(names(refusal(changed.set(full, value)), full)) << full;
    }
  }
  // The same keys with values that change nothing.
  EXPECT_EQ(refusal(tiny_qwen3moe()
                        .set("qwen3moe.attention.sliding_window", Value::of(uint32_t{0}))
                        .set("qwen3moe.rope.scaling.type", Value::of(std::string("none")))
                        .set("qwen3moe.logit_scale", Value::of(1.0f))
                        .set("qwen3moe.expert_group_count", Value::of(uint32_t{1}))
                        .set("qwen3moe.something_new", Value::of(uint32_t{7}))),
            "");
}

TEST_F(ModelFiles, UnusedTensorsAreListedAndRefusedWhereTheyMatter) {
  auto engine = load(tiny_qwen3moe()
                         .add_random("blk.2.nextn.eh_proj.weight", {64, 64}, Type::F32)
                         .add_random("extra.weight", {8}, Type::F32));
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->model().unused_tensors.size(), 2u);
  EXPECT_TRUE(names(refusal(tiny_qwen3moe().add_random("blk.0.attn_q.bias", {64}, Type::F32)), "blk.0.attn_q.bias"));
  EXPECT_TRUE(names(refusal(tiny_qwen3moe().add_random("rope_factors_short.weight", {8}, Type::F32)),
                    "rope_factors_short.weight"));
  EXPECT_TRUE(names(refusal(tiny_qwen3moe().add_random("blk.0.attn_q.scale", {1}, Type::F32)), "blk.0.attn_q.scale"));
}

TEST_F(ModelFiles, R05_GatingFunction) {
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  const auto with = [&](uint32_t function) {
    return tiny_qwen3moe().set("qwen3moe.expert_gating_func", Value::of(function));
  };
  auto absent = load(tiny_qwen3moe());
  ASSERT_TRUE(absent);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const auto& l) { return names(l, "expert_gating_func"); }));
  auto softmax = load(with(1)), sigmoid = load(with(2)), picked = load(with(3));
  log::set_sink({});
  ASSERT_TRUE(softmax && sigmoid && picked);
  EXPECT_EQ(run(**absent).logits, run(**softmax).logits);
  EXPECT_GT(nmse(run(**sigmoid).logits, run(**softmax).logits), 1e-4);
  // Renormalised softmax over all and softmax over the picked are the same function.
  EXPECT_LE(nmse(run(**picked).logits, run(**softmax).logits), 1e-9);
  EXPECT_TRUE(names(refusal(with(99)), "99"));
}

TEST_F(ModelFiles, ExpertsComeFromTheBestGroups) {
  const auto with = [](uint32_t n_group, uint32_t n_used) {
    return tiny_qwen3moe()
        .set("qwen3moe.expert_group_count", Value::of(n_group))
        .set("qwen3moe.expert_group_used_count", Value::of(n_used));
  };
  auto engine = load(with(3, 1));
  ASSERT_TRUE(engine) << engine.error().message;
  const Routing routing = run(**engine).routing;
  for (const auto& [idx, layer] : routing.layers) {
    for (size_t i = 0; i < layer.experts.size(); i += 2) EXPECT_EQ(layer.experts[i] / 2, layer.experts[i + 1] / 2);
    EXPECT_EQ(std::count(layer.score.begin(), layer.score.end(), -INFINITY), 4 * 5) << idx;  // of 6 for each token
  }
  EXPECT_TRUE(names(refusal(with(4, 2)), "expert_group_count"));  // 6 experts
  EXPECT_TRUE(names(refusal(with(3, 4)), "expert_group_count"));
  EngineOptions three;
  three.n_expert_used = 3;
  EXPECT_TRUE(names(refusal(with(3, 1), three), "--experts-used"));
}

TEST_F(ModelFiles, R11_WeightsAreRenormalisedUnlessTheFileSaysNot) {
  const auto sums = [&](const GgufBuilder& builder) {
    auto engine = load(builder);
    EXPECT_TRUE(engine);
    const Routing routing = run(**engine).routing;
    std::vector<float> result;
    const auto& weights = routing.layers.at(0).weights;
    for (size_t i = 0; i < weights.size(); i += 2) result.push_back(weights[i] + weights[i + 1]);
    return result;
  };
  for (float sum : sums(tiny_qwen3moe())) EXPECT_NEAR(sum, 1, 1e-6);
  for (float sum : sums(tiny_qwen3moe().set("qwen3moe.expert_weights_norm", Value::of(false)))) EXPECT_LT(sum, 0.999);
  for (float sum : sums(tiny_qwen3moe().set("qwen3moe.expert_weights_scale", Value::of(2.5f))))
    EXPECT_NEAR(sum, 2.5, 1e-5);
}

TEST_F(ModelFiles, R09_ManyExperts) {
  for (uint32_t n_expert : {256, 384, 1024}) {
    TinyShape shape;
    shape.n_expert = n_expert;
    shape.n_used = 8;
    shape.n_ff_expert = 16;
    auto engine = load(tiny_qwen3moe(shape));
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_FALSE(run(**engine).logits.empty());
  }
  TinyShape shape;
  shape.n_expert = 5000;
  shape.n_ff_expert = 1;
  EXPECT_TRUE(names(refusal(tiny_qwen3moe(shape)), "5000"));
}

TEST_F(ModelFiles, R13_NumberOfExpertsUsed) {
  for (uint32_t used : {1, 2, 5, 6}) {
    EngineOptions options;
    options.n_expert_used = used;
    auto engine = load(tiny_lfm2moe(), options);
    ASSERT_TRUE(engine);
    EXPECT_EQ(run(**engine).routing.n_used, used);
  }
  EngineOptions options;
  options.n_expert_used = 7;
  EXPECT_TRUE(names(refusal(tiny_lfm2moe(), options), "7"));
  EXPECT_NE(refusal(tiny_lfm2moe().set("lfm2moe.expert_used_count", Value::of(uint32_t{7}))), "");
  EXPECT_NE(refusal(tiny_lfm2moe().set("lfm2moe.expert_used_count", Value::of(uint32_t{0}))), "");
  TinyShape shape;  // what the kernels' memory of one token's choices holds
  shape.n_expert = 600;
  shape.n_ff_expert = 1;
  shape.n_used = 512;
  EXPECT_EQ(refusal(tiny_qwen3moe(shape)), "");
  shape.n_used = 513;
  EXPECT_TRUE(names(refusal(tiny_qwen3moe(shape)), "513"));
}

TEST_F(ModelFiles, M09_SideTensorsOfAnotherExpertCount) {
  for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_inp"}) {
    const std::string tensor = std::string("blk.1.") + name + ".weight";
    GgufBuilder broken = tiny_lfm2moe();
    const char* dim = std::string(name) == "ffn_gate_inp" ? "/dim1" : "/dim2";
    broken.patch("tensor/" + tensor + dim, uint64_t{5});
    EXPECT_TRUE(names(refusal(broken), tensor)) << refusal(broken);
  }
}

TEST_F(ModelFiles, A07_KeyValueHeadsAsArrayOrScalar) {
  auto array = load(tiny_lfm2moe());
  auto scalar = load(tiny_lfm2moe().set("lfm2moe.attention.head_count_kv", Value::of(uint32_t{2})));
  ASSERT_TRUE(array);
  ASSERT_TRUE(scalar) << scalar.error().message;
  EXPECT_EQ(run(**array).logits, run(**scalar).logits);
  EXPECT_NE(refusal(tiny_lfm2moe().set("lfm2moe.attention.head_count_kv", Value::of(std::vector<uint32_t>{0, 2, 2}))),
            "");
  EXPECT_NE(refusal(tiny_lfm2moe().set("lfm2moe.attention.head_count_kv", Value::of(std::vector<uint32_t>{0, 3}))), "");
}

TEST_F(ModelFiles, A09_UnknownTypesAreNamed) {
  for (uint32_t id : {4u, 5u, 12u, 31u, 255u}) {
    GgufBuilder broken = tiny_lfm2moe();
    broken.patch("tensor/blk.1.ffn_up_exps.weight/type", id);
    const std::string message = refusal(broken);
    EXPECT_TRUE(names(message, "blk.1.ffn_up_exps.weight")) << message;
  }
}

TEST_F(ModelFiles, NonsenseSizesAreRefused) {
  const std::pair<const char*, Value> keys[] = {
      {"block_count", Value::of(uint32_t{0})},
      {"block_count", Value::of(uint32_t{1000000})},
      {"block_count", Value::of(int32_t{-1})},
      {"embedding_length", Value::of(uint32_t{0})},
      {"embedding_length", Value::of(uint32_t{65})},
      {"attention.head_count", Value::of(uint32_t{0})},
      {"attention.head_count", Value::of(uint32_t{3})},
      {"attention.head_count", Value::of(std::string("4"))},
      {"attention.layer_norm_rms_epsilon", Value::of(-1.0f)},
      {"attention.layer_norm_rms_epsilon", Value::of(NAN)},
      {"rope.freq_base", Value::of(0.0f)},
      {"rope.dimension_count", Value::of(uint32_t{17})},
      {"rope.dimension_count", Value::of(uint32_t{7})},
      {"expert_count", Value::of(uint32_t{0})},
      {"expert_feed_forward_length", Value::of(uint32_t{31})},
      {"shortconv.l_cache", Value::of(uint32_t{1})},
      {"shortconv.l_cache", Value::of(uint32_t{1u << 23})},
      {"leading_dense_block_count", Value::of(uint32_t{0})},
      {"attention.key_length", Value::of(uint32_t{1u << 22})},
      {"context_length", Value::of(uint32_t{0})},
  };
  for (const auto& [key, value] : keys)
    EXPECT_NE(refusal(tiny_lfm2moe().set(std::string("lfm2moe.") + key, value)), "") << key;
  EXPECT_TRUE(
      names(refusal(tiny_lfm2moe().set("general.architecture", Value::of(std::string("mystery\x1b[31m")))), "mystery"));
}

TEST_F(ModelFiles, S04_WeightsThatAreNaNFailTheRowAndNotTheProcess) {
  GgufBuilder builder = tiny_lfm2moe();
  std::vector<float> bad(6 * 64, NAN);
  std::vector<std::byte> raw(bad.size() * 4);
  std::memcpy(raw.data(), bad.data(), raw.size());
  builder.patch_bytes("tensor/blk.1.ffn_gate_inp.weight/data", {reinterpret_cast<const char*>(raw.data()), raw.size()});
  for (bool reference : {false, true}) {
    EngineOptions options;
    options.reference = reference;
    auto engine = load(builder, options);
    ASSERT_TRUE(engine);
    const StepResult result = run(**engine);
    ASSERT_EQ(result.n_rows(), 5u);
    for (uint8_t failed : result.row_failed) EXPECT_EQ(failed, 1);
  }
}

TEST_F(ModelFiles, FailedRowsAreToldHoweverManyAreAskedFor) {
  GgufBuilder builder = tiny_lfm2moe();
  const std::vector<float> bad(6 * 64, NAN);
  builder.patch_bytes("tensor/blk.1.ffn_gate_inp.weight/data",
                      {reinterpret_cast<const char*>(bad.data()), bad.size() * 4});
  auto engine = load(builder);
  ASSERT_TRUE(engine);
  const StepResult result = run(**engine, std::vector<Token>(100, 3));  // the head computes 64 rows at a time
  ASSERT_EQ(result.n_rows(), 100u);
  for (const uint8_t failed : result.row_failed) EXPECT_EQ(failed, 1);
}

TEST_F(ModelFiles, DraftingHeadsAreLeftOut) {
  GgufBuilder builder = tiny_qwen3moe();
  builder.add_random("blk.2.nextn.eh_proj.weight", {128, 64}, Type::F32)
      .add_random("blk.2.attn_norm.weight", {64}, Type::F32);
  const auto plain = run(**load(tiny_qwen3moe())).logits;
  auto uncounted = load(builder);
  ASSERT_TRUE(uncounted) << uncounted.error().message;
  EXPECT_EQ(run(**uncounted).logits, plain);
  builder.set("qwen3moe.block_count", Value::of(uint32_t{3}))
      .set("qwen3moe.nextn_predict_layers", Value::of(uint32_t{1}));
  auto counted = load(builder);
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_EQ(run(**counted).logits, plain);
  // A block past the last layer that is no drafting head is a layer that would be missing.
  EXPECT_TRUE(names(refusal(tiny_qwen3moe().set("qwen3moe.block_count", Value::of(uint32_t{1}))), "blk.1."));
}

TEST_F(ModelFiles, HeadsThatOverflowTheKernelsScratchAreRefused) {
  TinyShape shape;
  shape.n_embd = 1024;
  shape.n_head = 1024;
  shape.n_kv_head = 1;
  shape.n_ff_expert = 1;
  shape.n_expert = 2;
  GgufBuilder builder = tiny_qwen3moe(shape);
  builder.set("qwen3moe.attention.key_length", Value::of(uint32_t{1024}));
  EXPECT_NE(refusal(builder), "");
}

TEST_F(ModelFiles, ManySequencesTimesALongContextStillStep) {
  EngineOptions options;
  options.n_ctx = 65536;
  options.max_sequences = 65536;
  options.n_cache_tokens = 4096;
  auto engine = load(tiny_qwen3moe(), options);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(run(**engine).n_rows(), 5u);
  options.n_cache_tokens = UINT64_MAX;
  EXPECT_NE(refusal(tiny_qwen3moe(), options), "");
}

TEST_F(ModelFiles, Q05_MapAndNoMapGiveTheSameLogits) {
  TinyShape shape;
  shape.expert_type = Type::Q4_0;
  EngineOptions options;
  std::vector<float> first;
  for (bool mmap : {true, false}) {
    for (bool repack : {true, false}) {
      options.mmap = mmap;
      options.repack = repack;
      auto engine = load(tiny_lfm2moe(shape), options);
      ASSERT_TRUE(engine) << engine.error().message;
      const auto logits = run(**engine).logits;
      if (first.empty()) first = logits;
      if (repack) {
        EXPECT_EQ(logits, first);
      }
      EXPECT_LE(nmse(logits, first), 1e-3);
    }
  }
}

// Of the tensors that panels can hold.
uint64_t packable_bytes(const Engine& engine) {
  const auto file = gguf::File::open(engine.model().path, {.metadata_only = true});
  uint64_t n_bytes = 0;
  for (const gguf::TensorInfo& tensor : file->tensors())
    if (quant::has_panel16(tensor.type->type)) n_bytes += tensor.n_bytes;
  return n_bytes;
}

std::vector<size_t> best_tokens(const StepResult& result) {
  std::vector<size_t> best;
  for (size_t i = 0; i < result.n_rows(); ++i) {
    const auto row = result.row(i);
    best.push_back(static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return best;
}

TEST_F(ModelFiles, WithoutRepackingNothingIsCopied) {
  TinyShape shape;
  shape.expert_type = Type::Q4_0;
  EngineOptions options;
  auto packed = load(tiny_lfm2moe(shape), options);
  options.repack = false;
  auto mapped = load(tiny_lfm2moe(shape), options);
  ASSERT_TRUE(packed && mapped);
  const uint64_t n_bytes = packable_bytes(**packed);
  ASSERT_GT(n_bytes, 0u);
  EXPECT_GE((*packed)->info().weight_bytes, (*mapped)->info().weight_bytes + n_bytes);
  EXPECT_EQ(best_tokens(run(**packed)), best_tokens(run(**mapped)));
}

// A device's sampler, and the reference's, takes 2^20 tokens.
TEST_F(ModelFiles, TheHostSamplesFromALargerVocabulary) {
  TinyShape shape;
  shape.n_embd = 32;
  shape.n_vocab = kernels::kMostSampled + 1;
  EngineOptions options;
  options.reference = true;
  auto engine = load(tiny_qwen3moe(shape), options);
  ASSERT_TRUE(engine) << engine.error().message;
  auto sequence = (*engine)->new_sequence();
  const Sampler sampler({.temperature = 1, .seed = 1});
  const std::vector<Token> tokens = {1, 2, 3};
  const uint64_t before = (*engine)->counters().host_read_bytes;
  auto result = (*engine)->step({{.sequence = &*sequence, .tokens = tokens, .sampler = &sampler}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE(result->tokens.at(0), 0);
  EXPECT_EQ((*engine)->counters().host_read_bytes - before, uint64_t{shape.n_vocab} * sizeof(float));
}

TEST_F(ModelFiles, RepackingLetsGoOfTheFilesPages) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be counted";
  TinyShape shape;
  shape.expert_type = Type::Q4_0;
  shape.n_embd = 512;
  shape.n_ff_expert = 1024;
  shape.n_expert = 32;  // 28 MB in three tensors
  const std::string path = dir_.file("large.gguf");
  tiny_lfm2moe(shape).write(path);
  EngineOptions options;
  options.backend = "cpu";  // looking for a GPU loads drivers
  options.n_ctx = 64;
  options.n_threads = 2;
  const uint64_t before = current_rss_bytes();
  const auto engine = Engine::load(path, options);
  ASSERT_TRUE(engine);
  const uint64_t n_bytes = packable_bytes(**engine), rest = (*engine)->model().file_bytes - n_bytes;
  ASSERT_GT(n_bytes, 20u << 20);
  EXPECT_LE(current_rss_bytes(), before + n_bytes / 4 * 5 + rest + (4 << 20)) << "of " << n_bytes;
}

TEST_F(ModelFiles, ShortMemoryLeavesTheWeightsInTheMap) {
  TinyShape shape;
  shape.expert_type = Type::Q4_0;
  EngineOptions options;
  options.repack = false;
  auto mapped = load(tiny_lfm2moe(shape), options);
  ASSERT_TRUE(mapped);
  options.repack = true;
  std::vector<std::string> warnings;
  log::set_sink([&](log::Level, std::string_view line) { warnings.emplace_back(line); }, log::Level::warn);
  options.free_memory = packable_bytes(**mapped) / 2;
  auto small = load(tiny_lfm2moe(shape), options);
  EXPECT_EQ(warnings.size(), 1u);
  warnings.clear();
  options.free_memory = uint64_t{1} << 30;
  auto large = load(tiny_lfm2moe(shape), options);
  EXPECT_EQ(warnings.size(), 0u);
  log::set_sink({});
  ASSERT_TRUE(small && large);
  EXPECT_EQ((*small)->info().weight_bytes, (*mapped)->info().weight_bytes);
  EXPECT_EQ(run(**small).logits, run(**mapped).logits);
  EXPECT_GT((*large)->info().weight_bytes, (*mapped)->info().weight_bytes);
}

TEST_F(ModelFiles, CacheTypes) {
  TinyShape shape;
  shape.n_head = 2;  // heads of 32, which q8_0 needs
  EngineOptions options;
  options.type_k = options.type_v = Type::F32;
  const auto exact = run(**load(tiny_qwen3moe(shape), options)).logits;
  for (Type k : {Type::F32, Type::F16, Type::Q8_0}) {
    for (Type v : {Type::F32, Type::F16, Type::Q8_0}) {
      options.type_k = k;
      options.type_v = v;
      auto engine = load(tiny_qwen3moe(shape), options);
      ASSERT_TRUE(engine) << engine.error().message;
      EXPECT_LE(nmse(run(**engine).logits, exact), 1e-3);
    }
  }
  options.type_k = Type::Q4_0;
  EXPECT_NE(refusal(tiny_qwen3moe(shape), options), "");
  options.type_k = Type::Q8_0;
  EXPECT_NE(refusal(tiny_qwen3moe(), options), "");  // heads of 16 do not divide into blocks of 32
}

TEST_F(ModelFiles, ImpossibleOptionsAreRefused) {
  const auto with = [](auto change) {
    EngineOptions options;
    change(options);
    return options;
  };
  for (const EngineOptions& options :
       {with([](auto& o) { o.n_ubatch = 1u << 30; }), with([](auto& o) { o.n_ctx = 1u << 31; }),
        with([](auto& o) { o.max_sequences = 0; }), with([](auto& o) { o.backend = "tpu"; }),
        with([](auto& o) { o.cpu_isa = "mmx"; }), with([](auto& o) { o.need_tokenizer = true; })}) {
    EXPECT_NE(refusal(tiny_lfm2moe(), options), "");
  }
}

}  // namespace
}  // namespace sluice::test
