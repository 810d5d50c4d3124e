// A published model file with real weights, Gemma 3 270M in Q4_K_M: its perplexity on the held-out text is that of
// llama.cpp on the same file (512 tokens a window, the second half scored).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "sluice/perplexity.h"
#include "support/sanitizer.h"
#include "support/source_dir.h"

namespace sluice::test {
namespace {

constexpr double kOfThePeer = 19.35090;

TEST(PublishedModel, HeldOutPerplexity) {
  const std::filesystem::path file = source_dir() / ".cache" / "gemma-3-270m-q4_k_m.gguf";
  if (kSanitized) GTEST_SKIP() << "real weights take too long under a sanitizer";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there; tools/get_gemma3.py downloads it";
  auto engine = Engine::load(file.string(), {.n_ctx = 512, .need_tokenizer = true});
  ASSERT_TRUE(engine) << engine.error().message;
  std::ifstream in(source_dir() / "tests" / "fixtures" / "story" / "heldout.txt");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const std::vector<Token> tokens = perplexity_tokens(*(*engine)->tokenizer(), text, {});
  const auto result = perplexity(**engine, tokens, {.window_bos = (*engine)->tokenizer()->bos()});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NEAR(result->perplexity, kOfThePeer, 0.003 * kOfThePeer);
}

}  // namespace
}  // namespace sluice::test
