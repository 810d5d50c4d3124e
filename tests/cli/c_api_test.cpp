// The C API: what it gives, and that misuse is a code and not a crash.
#include "sluice/sluice.h"

#include <cmath>

#include "cli/program.h"

namespace sluice::test {
namespace {

struct Loaded {
  sluice_engine* engine = nullptr;
  Loaded() {
    sluice_options options;
    sluice_default_options(&options);
    options.max_sequences = 3;
    options.n_ctx = 256;
    EXPECT_EQ(sluice_load(story_model().c_str(), &options, &engine), SLUICE_OK) << sluice_last_error();
  }
  ~Loaded() { sluice_free(engine); }
};

std::vector<int32_t> tokens(const sluice_engine* engine, const std::string& text) {
  size_t n = 0;
  EXPECT_EQ(sluice_tokenize(engine, text.data(), text.size(), 0, nullptr, 0, &n), SLUICE_OK);
  std::vector<int32_t> ids(n);
  EXPECT_EQ(sluice_tokenize(engine, text.data(), text.size(), 0, ids.data(), ids.size(), &n), SLUICE_OK);
  return ids;
}

TEST(CApi, steps_forks_saves_and_samples) {
  const TempDir folder;
  Loaded m;
  ASSERT_NE(m.engine, nullptr);
  sluice_info info{};
  info.struct_bytes = sizeof info;
  ASSERT_EQ(sluice_get_info(m.engine, &info), SLUICE_OK);
  EXPECT_GT(info.n_vocab, 1000u);
  EXPECT_GT(info.n_expert, 1u);
  EXPECT_EQ(info.has_tokenizer, 1);
  EXPECT_STREQ(sluice_architecture(m.engine), "lfm2moe");
  EXPECT_EQ(sluice_bos(m.engine), Story().ids[0]);

  const auto ids = tokens(m.engine, "Once upon a time");
  EXPECT_EQ(ids, Story().ids);
  sluice_sequence* sequence = nullptr;
  ASSERT_EQ(sluice_sequence_new(m.engine, &sequence), SLUICE_OK);
  std::vector<float> logits(info.n_vocab);
  size_t n_rows = 0;
  const sluice_input prompt{sequence, ids.data(), ids.size(), SLUICE_LOGITS_LAST};
  ASSERT_EQ(sluice_step(m.engine, &prompt, 1, logits.data(), logits.size(), &n_rows), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(n_rows, 1u);
  EXPECT_EQ(sluice_sequence_length(sequence), 5u);
  sluice_sampling sampling;
  sluice_default_sampling(&sampling);
  sampling.temperature = 0;
  sluice_sampler* sampler = nullptr;
  ASSERT_EQ(sluice_sampler_new(&sampling, &sampler), SLUICE_OK);
  int32_t id = -1;
  ASSERT_EQ(sluice_sampler_sample(sampler, logits.data(), logits.size(), &id), SLUICE_OK);
  EXPECT_EQ(id, Story().greedy(1)[0]);
  EXPECT_EQ(sluice_sampler_accept(sampler, id), SLUICE_OK);

  // A fork and a reloaded copy go on as the original does.
  sluice_sequence *fork = nullptr, *reloaded = nullptr;
  ASSERT_EQ(sluice_sequence_fork(sequence, &fork), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(sluice_sequence_save(sequence, folder.file("s").c_str()), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(sluice_sequence_new(m.engine, &reloaded), SLUICE_OK);
  ASSERT_EQ(sluice_sequence_load(reloaded, folder.file("s").c_str()), SLUICE_OK) << sluice_last_error();
  std::vector<float> rows(3 * size_t{info.n_vocab});
  const sluice_input next[] = {{sequence, &id, 1, SLUICE_LOGITS_LAST},
                               {fork, &id, 1, SLUICE_LOGITS_LAST},
                               {reloaded, &id, 1, SLUICE_LOGITS_LAST}};
  ASSERT_EQ(sluice_step(m.engine, next, 3, rows.data(), rows.size(), &n_rows), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(n_rows, 3u);
  for (size_t i = 0; i < info.n_vocab; ++i) {
    ASSERT_EQ(rows[i], rows[i + info.n_vocab]);
    ASSERT_EQ(rows[i], rows[i + 2 * size_t{info.n_vocab}]);
  }
  EXPECT_EQ(sluice_sequence_truncate(fork, 0), SLUICE_OK);
  EXPECT_EQ(sluice_sequence_length(fork), 0u);
  EXPECT_EQ(sluice_sequence_checkpoint(sequence), SLUICE_OK);
  for (sluice_sequence* s : {sequence, fork, reloaded}) sluice_sequence_free(s);
  sluice_sampler_free(sampler);
}

TEST(CApi, decodes_into_any_capacity) {
  Loaded m;
  const auto ids = tokens(m.engine, "Once upon a time");
  char text[32] = {};
  size_t n = 0;
  EXPECT_EQ(sluice_detokenize(m.engine, ids.data(), ids.size(), 0, text, 4, &n), SLUICE_OK);
  EXPECT_EQ(n, 16u);
  EXPECT_STREQ(text, "Once");
}

TEST(CApi, misuse_is_a_code_with_a_message) {
  sluice_engine* engine = nullptr;
  EXPECT_EQ(sluice_load("absent.gguf", nullptr, &engine), SLUICE_NOT_FOUND);
  EXPECT_NE(std::string(sluice_last_error()).find("absent.gguf"), std::string::npos);
  EXPECT_EQ(engine, nullptr);
  EXPECT_EQ(sluice_load(nullptr, nullptr, &engine), SLUICE_INVALID_ARGUMENT);
  sluice_options options;
  sluice_default_options(&options);
  options.struct_bytes = 100000;
  EXPECT_EQ(sluice_load(story_model().c_str(), &options, &engine), SLUICE_INVALID_ARGUMENT);
  sluice_default_options(&options);
  options.type_k = 77;
  EXPECT_EQ(sluice_load(story_model().c_str(), &options, &engine), SLUICE_INVALID_ARGUMENT);

  Loaded m;
  sluice_sequence* sequence = nullptr;
  ASSERT_EQ(sluice_sequence_new(m.engine, &sequence), SLUICE_OK);
  const int32_t bad = 999999;
  float logits[8];
  const sluice_input input{sequence, &bad, 1, SLUICE_LOGITS_NONE};
  EXPECT_EQ(sluice_step(m.engine, &input, 1, nullptr, 0, nullptr), SLUICE_INVALID_ARGUMENT);
  const sluice_input small{sequence, &bad, 1, SLUICE_LOGITS_LAST};
  EXPECT_EQ(sluice_step(m.engine, &small, 1, logits, 8, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_step(m.engine, nullptr, 1, logits, 8, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_sequence_load(sequence, "absent"), SLUICE_NOT_FOUND);
  EXPECT_EQ(sluice_sequence_truncate(nullptr, 0), SLUICE_INVALID_ARGUMENT);
  sluice_sampler* sampler = nullptr;
  sluice_sampling sampling;
  sluice_default_sampling(&sampling);
  sampling.top_p = NAN;
  EXPECT_EQ(sluice_sampler_new(&sampling, &sampler), SLUICE_INVALID_ARGUMENT);
  sluice_sequence_free(sequence);
  sluice_free(nullptr);
  sluice_sequence_free(nullptr);
  sluice_sampler_free(nullptr);
}

TEST(CApi, objects_may_be_freed_in_any_order) {
  sluice_engine* engine = nullptr;
  ASSERT_EQ(sluice_load(tiny_model("lfm2moe").c_str(), nullptr, &engine), SLUICE_OK) << sluice_last_error();
  sluice_sequence* sequence = nullptr;
  ASSERT_EQ(sluice_sequence_new(engine, &sequence), SLUICE_OK);
  sluice_free(engine);
  EXPECT_EQ(sluice_sequence_length(sequence), 0u);
  sluice_sequence_free(sequence);
}

}  // namespace
}  // namespace sluice::test
