// The C++ API in one piece: load a model, read a prompt, print what it makes of it.
//   tale MODEL.gguf "Once upon a time" [N_TOKENS]
#include <sluice/engine.h>
#include <sluice/sampler.h>

#include <cstdio>
#include <cstdlib>

using namespace sluice;

static Result<void> tell(const char* path, const char* prompt, int n_tokens) {
  EngineOptions options;
  options.need_tokenizer = true;
  const auto engine = TRY(Engine::load(path, options));
  const auto tokenizer = engine->tokenizer();
  Sequence sequence = TRY(engine->new_sequence());
  Sampler sampler({.temperature = 0});  // greedy: always the most probable token

  std::vector<Token> next = tokenizer->encode(prompt, {});
  Utf8Stream stream;
  std::fputs(prompt, stdout);
  for (int i = 0; i < n_tokens; ++i) {
    const StepResult step = TRY(engine->step({{.sequence = &sequence, .tokens = next}}));
    const Token id = TRY(sampler.sample(step.row(0)));
    if (tokenizer->is_end(id)) break;
    std::fputs(stream.push(tokenizer->piece(id, false)).c_str(), stdout);
    std::fflush(stdout);
    next = {id};
  }
  std::puts(stream.flush().c_str());
  return {};
}

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: tale MODEL.gguf PROMPT [N_TOKENS]\n", stderr), 2;
  const auto told = tell(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 100);
  if (!told) std::fprintf(stderr, "error: %s\n", told.error().message.c_str());
  return told ? 0 : 1;
}
