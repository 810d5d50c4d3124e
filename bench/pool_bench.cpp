// What a barrier between the phases of a job costs: phases of no work, all threads coming to each.
//   sluice_pool_bench --benchmark_filter=Barrier/2
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <vector>

#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace sluice::bench {
namespace {

constexpr uint32_t kPhases = 1000;

// Every thread leaves a mark in every phase, and the phase goes on until `n_wanted` of them have: so it is a barrier
// of all of them and not only of those that come in time.
struct Marks {
  uint32_t n_wanted = 1;
  std::array<std::atomic<uint32_t>, kPhases> n{};

  static void phase(void* context, uint32_t phase, uint32_t) {
    auto& marks = *static_cast<Marks*>(context);
    auto& n = marks.n[phase];
    n.fetch_add(1, std::memory_order_relaxed);
    while (n.load(std::memory_order_relaxed) < marks.n_wanted) {
    }
  }
};

void per_phase(benchmark::State& state) {
  using benchmark::Counter;
  state.counters["phase"] = Counter(kPhases, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

void barrier(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  Marks marks;
  marks.n_wanted = pool.size();
  for (auto _ : state) {
    for (auto& n : marks.n) n.store(0, std::memory_order_relaxed);
    pool.walk({kPhases, &Marks::phase, &marks, nullptr});
  }
  per_phase(state);
}

// Phases that one thread does by itself, between others.
void every_other_alone(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  std::vector<uint8_t> alone(kPhases);
  for (uint32_t i = 0; i < kPhases; ++i) alone[i] = i % 2;
  Marks marks;
  for (auto _ : state) {
    for (auto& n : marks.n) n.store(0, std::memory_order_relaxed);
    pool.walk({kPhases, &Marks::phase, &marks, alone.data()});
  }
  per_phase(state);
}

// From a sleeping pool to a job that is done: what a step pays after a pause.
void job(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) pool.run([](uint32_t idx) { benchmark::DoNotOptimize(idx); });
}

void register_all() {
  const auto most = static_cast<int64_t>(read_cpu_info().n_usable);
  for (int64_t n = 1; n <= most; n *= 2) {
    benchmark::RegisterBenchmark("Barrier", barrier)->Arg(n)->UseRealTime();
    benchmark::RegisterBenchmark("EveryOtherAlone", every_other_alone)->Arg(n)->UseRealTime();
    benchmark::RegisterBenchmark("Job", job)->Arg(n)->UseRealTime();
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  sluice::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
