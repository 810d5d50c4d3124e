// sluice bench
#include "cli/bench_report.h"
#include "cli/bench_tests.h"
#include "cli/commands.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

using Numbers = std::vector<uint32_t>;

struct BenchOptions {
  OutputOptions output;
  ModelOptions model;
  Numbers n_prompt{512}, n_gen{128}, depths{0}, parallel;
  uint32_t n_repeat = 5;
};

Args::Apply list_option(std::string name, Numbers& target, uint32_t min, uint32_t max) {
  return [name = std::move(name), &target, min, max](std::string_view v) -> Result<void> {
    target = TRY(parse_list(name, v, min, max));
    return {};
  };
}

Result<bool> read_options(Arguments argv, BenchOptions& o, Strings& rest) {
  Args args(
      "bench [MODEL.gguf] [-p 512] [-n 128] [-d 0] [-npl N,N] [-r 5] [OPTIONS]",
      "Measures prefill (pp), decode (tg) and parallel decode with random tokens, and prints a Markdown table. After\n"
      "the speed: bytes of weights and cache read per token of decode, what share of the measured memory bandwidth\n"
      "that takes up, and host reads and submits per token. A second table splits the time by stage; 'of limit' is\n"
      "the least time that the machine's memory and arithmetic units, measured first, would need for a stage's bytes\n"
      "and operations, as a share of what it took. Works on files without a vocabulary.");
  constexpr uint32_t kMost = 1u << 24;
  args.group("Tests (each takes a list, as in -d 0,8192)");
  args.option("-p,--n-prompt", "N", "tokens of prefill (512); 0: none",
              list_option("--n-prompt", o.n_prompt, 0, kMost));
  args.option("-n,--n-gen", "N", "tokens of decode (128); 0: none", list_option("--n-gen", o.n_gen, 0, kMost));
  args.option("-d,--n-depth", "N", "tokens in the cache before (0)", list_option("--n-depth", o.depths, 0, kMost));
  args.option("-npl,--n-parallel", "N", "also decode with N sequences in each step",
              list_option("--n-parallel", o.parallel, 1, 1024));
  args.number<uint32_t>("-r,--repetitions", "N", o.n_repeat, 1, 1000, "repeats of each test (5), after a warm-up");
  args.flag("--naive-routing", o.model.engine.naive_routing, "");  // docs/perf/routing.md
  add_model_options(args, o.model);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

std::vector<BenchTest> tests_of(const BenchOptions& o) {
  std::vector<BenchTest> tests;
  for (const uint32_t depth : o.depths) {
    for (const uint32_t n : o.n_prompt)
      if (n > 0) tests.push_back({BenchTest::Kind::prefill, n, depth, 1});
    for (const uint32_t n : o.n_gen)
      if (n > 0) tests.push_back({BenchTest::Kind::decode, n, depth, 1});
    for (const uint32_t n_parallel : o.parallel)
      for (const uint32_t n : o.n_gen)
        if (n > 0) tests.push_back({BenchTest::Kind::parallel, n, depth, n_parallel});
  }
  return tests;
}

// Room for the largest test, its sequences and one that keeps a filled cache.
void make_room(const std::vector<BenchTest>& tests, EngineOptions& engine) {
  constexpr uint64_t kPageSlack = 256;  // a fork's last page is its own
  for (const BenchTest& test : tests) {
    engine.n_ctx = std::max(engine.n_ctx, test.n_context());
    engine.max_sequences = std::max(engine.max_sequences, test.n_parallel + 1);
    engine.n_cache_tokens = std::max(engine.n_cache_tokens, test.n_positions() + kPageSlack * (test.n_parallel + 2));
  }
}

}  // namespace

Result<int> bench_command(Arguments argv) {
  BenchOptions o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  TRY(expect_no_more(rest));
  const std::vector<BenchTest> tests = tests_of(o);
  if (tests.empty()) return usage_error("there is nothing to measure; give -p or -n a number above 0");
  const uint32_t n_given = o.model.engine.n_ctx;
  make_room(tests, o.model.engine);
  if (n_given != 0 && n_given < o.model.engine.n_ctx)
    return usage_error(fmt::format("-c {} is less than the {} positions that the tests need; raise it or leave it out",
                                   n_given, o.model.engine.n_ctx));
  // Before the model takes its memory. What is wrong with the options, loading tells.
  TRY(model_path(o.model));
  const auto limits = measure_limits(o.model.engine);
  const LoadedModel model = TRY(load_model(o.model, false, o.output.verbose));
  if (model.engine->info().n_ctx < o.model.engine.n_ctx)
    return Error{Code::unsupported,
                 fmt::format("the tests need a context of {} positions, but there is room for {}; lower -p, -n or -d",
                             o.model.engine.n_ctx, model.engine->info().n_ctx)};
  const BenchReport report(model, o.model.engine, limits ? *limits : Limits{});
  if (!o.output.json) TRY(put(report.header()));
  Bench bench(*model.engine, o.n_repeat, model.engine->info().n_ubatch);
  std::vector<BenchResult> results;
  for (const BenchTest& test : tests) {
    results.push_back(TRY(bench.run(test)));
    if (!o.output.json) TRY(put(report.row(results.back())));
  }
  TRY(put(o.output.json ? report.json(results) : report.stages(results)));
  return kExitDone;
}

}  // namespace sluice::cli
