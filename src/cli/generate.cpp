#include "cli/generate.h"

#include <fmt/format.h>

#include <chrono>

#include "base/interrupt.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Run {
  Run(Engine& e, Sequence& s, Sampler& chooser, const GenerateOptions& o)
      : engine(e), sequence(s), sampler(chooser), options(o) {}

  Engine& engine;
  Sequence& sequence;
  Sampler& sampler;
  const GenerateOptions& options;
  Generation out;
  Utf8Stream stream;
  Speculator speculator;
  StepResult result;     // of the last step
  size_t row = 0;        // the one in use
  bool drafted = false;  // the last step computed the speculator's last proposal
  Clock::time_point start = Clock::now();

  Result<void> emit(std::string_view text) {
    if (text.empty()) return {};
    out.text += text;
    if (options.on_text) TRY(options.on_text(text));
    return {};
  }

  Result<void> prefill(std::span<const Token> prompt) {
    StepOptions step_options{.routing = options.routing};
    std::unique_ptr<ProgressBar> bar;
    step_options.on_progress = [&](uint32_t done, uint32_t total) {
      out.n_prefilled = done;
      out.prefill_seconds = seconds_since(start);
      if (prompt.size() > 1) {
        if (bar == nullptr) bar = std::make_unique<ProgressBar>("prefill", total, "tokens", bar_options());
        bar->update(done);
      }
      return !interrupted();
    };
    return step({.sequence = &sequence, .tokens = prompt, .sampler = &sampler}, step_options);
  }

  Result<void> step(const StepInput& input, const StepOptions& step_options) {
    result = TRY(engine.step({input}, step_options));
    row = 0;
    if (options.on_routing) options.on_routing(result.routing);
    return {};
  }

  // The row after `id` becomes the one in use: the next one of the last step where its draft has `id` there, else a new
  // step's.
  Result<void> go_on(Token id) {
    if (speculator.take(id)) {
      ++row;
      ++out.n_decoded;
      return {};
    }
    TRY(take_back_unused());
    // The step's own token, and a draft that passes neither the context's end nor the last token asked for.
    uint64_t room = std::min<uint64_t>(engine.info().n_ctx - sequence.n_tokens() - 1, engine.info().n_rewind);
    if (options.n_predict >= 0) room = std::min(room, static_cast<uint64_t>(options.n_predict) - out.tokens.size() - 1);
    if (!options.speculate) room = 0;
    drafted = false;
    const auto tokens = speculator.propose(id, static_cast<uint32_t>(room));
    TRY(step({.sequence = &sequence, .tokens = tokens, .logits = Logits::all, .sampler = &sampler},
             {.routing = options.routing, .on_progress = [](uint32_t, uint32_t) { return !interrupted(); }}));
    drafted = true;
    ++out.n_decoded;
    return {};
  }

  // Tokens that the sequence has and the text has not. A step that failed has taken back its own.
  uint32_t n_unused() const { return drafted ? speculator.n_unused() : 0; }
  Result<void> take_back_unused() {
    TRY(sequence.truncate(sequence.n_tokens() - n_unused()));
    drafted = false;
    return {};
  }

  Result<Token> next_token() {
    if (result.row_failed[row] != 0) return unusable_numbers();
    sampler.advance();
    return result.tokens[row];
  }

  Result<void> run(std::span<const Token> prompt) {
    const Tokenizer& tokenizer = *engine.tokenizer();
    if (options.speculate) {
      for (const Token id : sequence.tokens()) speculator.accept(id);
      for (const Token id : prompt) speculator.accept(id);
    }
    start = Clock::now();
    TRY(prefill(prompt));
    out.prefill_seconds = seconds_since(start);
    out.n_prefilled = out.n_prompt;
    const auto decode_start = Clock::now();
    for (;;) {
      if (options.n_predict >= 0 && out.tokens.size() >= static_cast<uint64_t>(options.n_predict)) {
        out.stop = "length";
        break;
      }
      const Token id = TRY(next_token());
      if (tokenizer.is_end(id)) {
        out.stop = "eos";
        break;
      }
      sampler.accept(id);
      out.tokens.push_back(id);
      TRY(emit(stream.push(tokenizer.piece(id, options.show_special))));
      if (options.n_predict >= 0 && out.tokens.size() >= static_cast<uint64_t>(options.n_predict)) continue;
      if (sequence.n_tokens() - n_unused() >= engine.info().n_ctx) {
        out.stop = "context";
        break;
      }
      if (interrupted()) return Error{Code::cancelled, "interrupted"};
      TRY(go_on(id));
      out.decode_seconds = seconds_since(decode_start);
    }
    return {};
  }
};

}  // namespace

std::string speculation_text(const Generation& g) {
  return fmt::format("speculation: {} steps for {} tokens, {} drafted, {} of them right", g.speculation.n_steps,
                     g.n_decoded, g.speculation.n_drafted, g.speculation.n_accepted);
}

Result<void> check_fits(const Engine& engine, const Sequence& sequence, size_t n_prompt, size_t n_more) {
  const uint64_t n_total = uint64_t{sequence.n_tokens()} + n_prompt;
  if (n_total + n_more <= engine.info().n_ctx) return {};
  if (n_total <= engine.info().n_ctx)
    return Error{Code::unsupported,
                 fmt::format("{} tokens and {} after them do not fit the context, which holds {}; ask for fewer or "
                             "raise -c",
                             n_total, n_more, engine.info().n_ctx)};
  return Error{Code::unsupported,
               fmt::format("the prompt makes {} tokens, but the context holds {}; shorten it or raise -c", n_total,
                           engine.info().n_ctx)};
}

Error unusable_numbers() {
  return {Code::internal,
          "the model gave no usable numbers (NaN) for this input; its file may be damaged, or a value is too large for "
          "the arithmetic: try --reference"};
}

Result<std::span<const float>> usable_row(const StepResult& step, size_t row) {
  if (step.row_failed[row] != 0) return unusable_numbers();
  return step.row(row);
}

Result<Generation> generate(Engine& engine, Sequence& sequence, std::span<const Token> prompt, Sampler& sampler,
                            const GenerateOptions& options) {
  TRY(check_fits(engine, sequence, prompt.size()));
  Run run(engine, sequence, sampler, options);
  run.out.n_prompt = static_cast<uint32_t>(prompt.size());
  for (const Token id : prompt) sampler.accept(id);
  const Result<void> done = run.run(prompt);
  TRY(run.take_back_unused());
  if (!done && !(done.error().code == Code::cancelled && interrupted())) return done.error();
  if (!done) run.out.stop = "interrupted";
  run.out.speculation = run.speculator.counts();
  TRY(run.emit(run.stream.flush()));
  return std::move(run.out);
}

}  // namespace sluice::cli
