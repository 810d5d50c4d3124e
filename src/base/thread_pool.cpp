#include "base/thread_pool.h"

#include <algorithm>
#include <cassert>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than threads of a phase end apart, shorter than it costs others where the thread that is waited for has lost
// its core.
constexpr std::chrono::microseconds kSpinInJob{20};
// Longer than a caller takes to choose the next token, shorter than anyone would notice.
constexpr std::chrono::microseconds kSpinForJob{100};

// state_: 10 bits of threads inside, two flags, 20 bits that count phases. All that decides who may touch job_ is in
// this one word: while somebody is inside, the phase cannot end; while it is closed, nobody can come in.
constexpr uint32_t kInside = ThreadPool::kMostThreads;
constexpr uint32_t kAlone = kInside + 1;   // the phase is for the thread that opened it
constexpr uint32_t kClosed = kAlone << 1;  // no job
constexpr uint32_t kEpoch = kClosed << 1;
constexpr uint32_t kEpochs = ThreadPool::kMostPhases;
static_assert(uint64_t{kEpoch} * kEpochs == uint64_t{1} << 32);

uint32_t epoch_of(uint32_t state) { return state / kEpoch; }

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads, bool spin)
    : n_(std::clamp(n_threads, 1u, kMostThreads)), spin_(spin), state_(kClosed) {
  try {
    for (uint32_t idx = 1; idx < n_; ++idx) threads_.emplace_back([this, idx] { work(idx); });
  } catch (...) {
    stop();  // a thread that is not joined would end the process
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true);
  state_.fetch_add(kEpoch);
  state_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// The word of a phase that begins with one thread inside.
uint32_t ThreadPool::opened(uint32_t epoch, uint32_t phase) const {
  return epoch % kEpochs * kEpoch + (job_.alone != nullptr && job_.alone[phase] != 0 ? kAlone : 0) + 1;
}

void ThreadPool::walk(const Job& job) {
  assert(job.n_phases < kMostPhases);
  if (job.n_phases == 0) return;
  if (n_ == 1) {
    for (uint32_t phase = 0; phase < job.n_phases; ++phase) job.phase(job.context, phase, 0);
    return;
  }
  job_ = job;
  first_epoch_ = (epoch_of(state_.load(std::memory_order_relaxed)) + 1) % kEpochs;
  const uint32_t state = opened(first_epoch_, 0);
  state_.store(state);
  if ((state & kAlone) == 0) state_.notify_all();
  take_part(0, state);
}

// Spins for a while, then sleeps.
template <class Ready>
uint32_t ThreadPool::wait_until(Ready ready, std::chrono::nanoseconds spin) {
  constexpr int kPausesPerLook = 32;  // at the clock
  uint32_t state = state_.load(std::memory_order_acquire);
  if (spin_) {
    const auto until = Clock::now() + spin;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (ready(state)) return state;
        pause();
        state = state_.load(std::memory_order_acquire);
      }
    } while (Clock::now() < until);
  }
  while (!ready(state)) {
    state_.wait(state);
    state = state_.load(std::memory_order_acquire);
  }
  return state;
}

// Leaves the phase: true where this thread was the last one and opened the next phase, or ended the job.
bool ThreadPool::move_on(uint32_t idx, uint32_t& state) {
  state = state_.load(std::memory_order_relaxed);
  const uint32_t epoch = epoch_of(state) + 1, phase = (epoch - first_epoch_) % kEpochs;
  const uint32_t next = phase == job_.n_phases ? epoch % kEpochs * kEpoch + kClosed : opened(epoch, phase);
  for (;;) {
    const bool last = (state & kInside) == 1;
    if (!state_.compare_exchange_weak(state, last ? next : state - 1)) continue;
    if (!last) return false;
    state = next;
    // Nobody has to wake up for a phase that is not his, nor the caller for an end that he made himself.
    if ((next & kAlone) == 0 && ((next & kClosed) == 0 || idx != 0)) state_.notify_all();
    return true;
  }
}

// Walks the job from the phase of `state`, which this thread is inside of, to its end.
void ThreadPool::take_part(uint32_t idx, uint32_t state) {
  while ((state & kClosed) == 0) {
    const uint32_t epoch = epoch_of(state);
    job_.phase(job_.context, (epoch - first_epoch_) % kEpochs, idx);
    if (move_on(idx, state)) continue;
    do {
      state = wait_until([&](uint32_t s) { return (s & kClosed) != 0 || ((s & kAlone) == 0 && epoch_of(s) != epoch); },
                         kSpinInJob);
    } while ((state & kClosed) == 0 && !state_.compare_exchange_weak(state, state + 1));
  }
}

void ThreadPool::work(uint32_t idx) {
  while (!stop_.load()) {
    uint32_t state = wait_until([&](uint32_t s) { return (s & (kClosed | kAlone)) == 0 || stop_.load(); }, kSpinForJob);
    if ((state & (kClosed | kAlone)) == 0 && state_.compare_exchange_strong(state, state + 1))
      take_part(idx, state + 1);
  }
}

}  // namespace sluice
