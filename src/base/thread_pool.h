// Threads that walk a list of work together, with cheap barriers between its parts.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace sluice {

// The work is a list of phases, each one done before the next begins. A barrier waits only for the threads that are
// inside a phase: one that sleeps, or that the system has taken off its core, holds nobody up and joins later. So a
// phase must hand out its work in chunks to whoever comes, be that one thread.
//
// Waits spin for a short while and then sleep: quick between the launches of a step, quiet when idle.
class ThreadPool {
 public:
  // `spin` false: waits sleep at once, for more threads than there is processor time for. Throws std::system_error
  // where the system gives no more threads.
  explicit ThreadPool(uint32_t n_threads, bool spin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t size() const { return n_; }

  struct Job {
    uint32_t n_phases = 0;  // below kMostPhases
    // Returns when none of the phase's work is left to claim. `idx` < size() is the thread's, 0 the caller's.
    void (*phase)(void* context, uint32_t phase, uint32_t idx) = nullptr;
    void* context = nullptr;
    const uint8_t* alone = nullptr;  // (n_phases) 1: too little work to share; or null
  };
  static constexpr uint32_t kMostPhases = 1u << 20;
  static constexpr uint32_t kMostThreads = 1023;
  // Returns when all phases are done.
  void walk(const Job& job);

  // Calls f(idx) once for every idx < size(), on any threads.
  template <class F>
  void run(F&& f) {
    Once<F> once{f, {0}, n_};
    walk({1, &Once<F>::call, &once});
  }

 private:
  template <class F>
  struct Once {
    F& f;
    std::atomic<uint32_t> next;
    uint32_t n;
    static void call(void* context, uint32_t, uint32_t) {
      auto& once = *static_cast<Once*>(context);
      for (uint32_t idx = 0; (idx = once.next.fetch_add(1, std::memory_order_relaxed)) < once.n;) once.f(idx);
    }
  };

  void work(uint32_t idx);
  void take_part(uint32_t idx, uint32_t state);
  bool move_on(uint32_t idx, uint32_t& state);
  template <class Ready>
  uint32_t wait_until(Ready ready, std::chrono::nanoseconds spin);
  uint32_t opened(uint32_t epoch, uint32_t phase) const;
  void stop();

  uint32_t n_;
  bool spin_;
  Job job_;
  uint32_t first_epoch_ = 0;                 // of the job's first phase
  alignas(64) std::atomic<uint32_t> state_;  // the present phase and how many threads are inside
  alignas(64) std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace sluice
