// Embeddings: what the output matrix multiplies, and how it is pooled.
#include "sluice/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/gguf.h"
#include "support/oracle.h"

namespace sluice::test {
namespace {

constexpr double kRounding = 1e-10;

std::unique_ptr<Engine> open(const std::string& file, uint32_t n_ubatch = 0) {
  EngineOptions options;
  options.n_ctx = 128;
  options.n_ubatch = n_ubatch;
  options.reference = true;
  auto engine = Engine::load(file, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

std::vector<float> embedded(Engine& engine, std::span<const Token> tokens, const EmbedOptions& options) {
  auto sequence = engine.new_sequence();
  auto rows = embed(engine, *sequence, tokens, options);
  EXPECT_TRUE(rows) << (rows ? "" : rows.error().message);
  return rows ? std::move(*rows) : std::vector<float>();
}

std::string fixture(const std::string& name) {
  return (source_dir() / "tests" / "fixtures" / "oracle" / (name + ".gguf")).string();
}

// The output matrix times each token's embedding gives the oracle's logits.
TEST(Embedding, TimesTheOutputMatrixIsTheLogits) {
  int n_models = 0;
  for (const OracleModel& model : oracle_models()) {
    if (!model.type.empty()) continue;  // F32 weights, so that their bytes are their values
    auto engine = open(model.file.string());
    ASSERT_TRUE(engine);
    auto file = gguf::File::open(model.file.string());
    ASSERT_TRUE(file);
    const gguf::TensorInfo* tensor = file->find_tensor("output.weight");
    if (tensor == nullptr) tensor = file->find_tensor("token_embd.weight");
    if (tensor->type->type != Type::F32 || file->find(model.architecture + ".final_logit_softcapping") != nullptr)
      continue;
    const auto scale = file->get_float(model.architecture + ".logit_scale");
    const auto* w = reinterpret_cast<const float*>(file->data(*tensor).data());
    const std::vector<float> rows = embedded(*engine, model.tokens(), {.pooling = Pooling::none, .normalise = false});
    size_t n_rows = 0, n_vocab = 0;
    const std::vector<float> expected = model.logits(n_rows, n_vocab);
    const size_t n_embd = engine->model().n_embd;
    ASSERT_EQ(rows.size(), n_rows * n_embd);
    std::vector<float> logits;
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t id = 0; id < n_vocab; ++id) {
        double sum = 0;
        for (size_t i = 0; i < n_embd; ++i) sum += double{rows[row * n_embd + i]} * w[id * n_embd + i];
        logits.push_back(static_cast<float>(sum / (scale ? *scale : 1)));
      }
    }
    EXPECT_LT(nmse(logits, expected), kRounding) << model.name;
    ++n_models;
  }
  EXPECT_GT(n_models, 0);
}

TEST(Embedding, Pools) {
  auto engine = open(fixture("qwen3moe"), 7);
  ASSERT_TRUE(engine);
  const std::vector<Token> tokens = ids(3, 20);
  const size_t n = engine->model().n_embd;
  const auto rows = embedded(*engine, tokens, {.pooling = Pooling::none, .normalise = false});
  ASSERT_EQ(rows.size(), 20 * n);
  const auto row = [&](size_t i) { return std::vector(&rows[i * n], &rows[i * n] + n); };
  EXPECT_EQ(embedded(*engine, tokens, {.pooling = Pooling::cls, .normalise = false}), row(0));
  EXPECT_EQ(embedded(*engine, tokens, {.pooling = Pooling::last, .normalise = false}), row(19));
  std::vector<float> mean(n);
  for (size_t i = 0; i < rows.size(); ++i) mean[i % n] += rows[i] / 20;
  EXPECT_LT(nmse(embedded(*engine, tokens, {.pooling = Pooling::mean, .normalise = false}), mean), kRounding);

  const auto unit = embedded(*engine, tokens, {.pooling = Pooling::mean});
  double squares = 0;
  for (const float value : unit) squares += double{value} * value;
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(Embedding, DefaultPoolingIsTheFiles) {
  ModelInfo model;
  EXPECT_EQ(*default_pooling(model), Pooling::last);
  for (const Pooling pooling : {Pooling::none, Pooling::mean, Pooling::cls, Pooling::last}) {
    model.pooling_type = static_cast<int32_t>(pooling);
    EXPECT_EQ(*default_pooling(model), pooling);
  }
  model.pooling_type = 4;
  EXPECT_EQ(default_pooling(model).error().code, Code::unsupported);
  EXPECT_FALSE(parse_pooling("first").has_value());
}

TEST(Embedding, WithoutTokensOrWithASamplerIsRefused) {
  auto engine = open(fixture("qwen3moe"));
  ASSERT_TRUE(engine);
  auto sequence = engine->new_sequence();
  EXPECT_EQ(embed(*engine, *sequence, {}).error().code, Code::invalid_argument);
  const std::vector<Token> tokens = ids(1, 3);
  const auto both = engine->step({{.sequence = &*sequence, .tokens = tokens}}, {.greedy = true, .embeddings = true});
  EXPECT_EQ(both.error().code, Code::invalid_argument);
  EXPECT_EQ(sequence->n_tokens(), 0u);
}

}  // namespace
}  // namespace sluice::test
