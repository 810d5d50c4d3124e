#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// Phases of `n_items` items each, claimed by whoever comes. An item of a phase may only be touched once all of the
// phase before are done.
class Items {
 public:
  Items(uint32_t n_phases, uint32_t n_items) : n_items_(n_items), n_done_(n_phases), next_(n_phases) {}

  void walk(ThreadPool& pool, const std::vector<uint8_t>& alone = {}) {
    for (auto& n : n_done_) n = 0;
    for (auto& n : next_) n = 0;
    pool.walk({static_cast<uint32_t>(next_.size()), &Items::phase, this, alone.empty() ? nullptr : alone.data()});
    for (const auto& n : n_done_) EXPECT_EQ(n, n_items_);
    EXPECT_FALSE(early_);
  }

  std::atomic<uint32_t> most_idx = 0;  // that came

 private:
  static void phase(void* context, uint32_t phase, uint32_t idx) {
    auto& self = *static_cast<Items*>(context);
    if (idx > self.most_idx) self.most_idx = idx;
    while (self.next_[phase].fetch_add(1, std::memory_order_relaxed) < self.n_items_) {
      if (phase > 0 && self.n_done_[phase - 1].load(std::memory_order_relaxed) != self.n_items_) self.early_ = true;
      self.n_done_[phase].fetch_add(1, std::memory_order_relaxed);
    }
  }

  uint32_t n_items_;
  std::vector<std::atomic<uint32_t>> n_done_, next_;
  std::atomic<bool> early_ = false;
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

TEST(ThreadPool, EveryIndexRunsOnce) {
  for (const uint32_t n : {0u, 1u, 2u, 3u, 7u, 16u}) {
    ThreadPool pool(n);
    EXPECT_EQ(pool.size(), std::max(n, 1u));
    std::vector<uint64_t> counts(pool.size(), 0);
    for (int job = 0; job < 200; ++job) pool.run([&](uint32_t idx) { ++counts[idx]; });
    for (const uint64_t count : counts) EXPECT_EQ(count, 200u);
  }
}

// More threads than processors, spinning or not.
TEST(ThreadPool, APhaseBeginsWhenTheOneBeforeIsDone) {
  for (const bool spin : {true, false}) {
    for (const uint32_t n : {1u, 2u, 3u, 8u}) {
      ThreadPool pool(n, spin);
      Items items(100, 16);
      for (int job = 0; job < 30; ++job) items.walk(pool);
      EXPECT_LT(items.most_idx, n);
    }
  }
}

TEST(ThreadPool, PhasesForOneThreadStayInOrder) {
  std::vector<uint8_t> alone(101);
  for (const uint32_t every : {1u, 2u, 3u, 50u}) {
    for (uint32_t i = 0; i < alone.size(); ++i) alone[i] = i % every == 0;
    ThreadPool pool(4);
    Items items(101, 8);
    for (int job = 0; job < 30; ++job) items.walk(pool, alone);
  }
}

TEST(ThreadPool, NoPhasesAndPoolsThatNeverWork) {
  ThreadPool pool(4);
  pool.walk({});
  Items(1, 1).walk(pool);
  for (int i = 0; i < 20; ++i) ThreadPool(3, i % 2 == 0).size();
}

// The count of phases in the pool's word starts anew after 2^20.
TEST(ThreadPool, CountsRoundAndRound) {
  ThreadPool pool(2);
  std::vector<uint8_t> alone(1 << 16, 1);
  alone.back() = 0;
  Items items(1 << 16, 1);
  for (int job = 0; job < 40; ++job) items.walk(pool, alone);
}

// Both threads of the pool meet in a phase; gives the one that is not the caller.
pthread_t other_thread(ThreadPool& pool) {
  struct Meeting {
    std::atomic<uint32_t> n = 0;
    pthread_t threads[2] = {};
  } m;
  const auto phase = [](void* context, uint32_t, uint32_t idx) {
    auto& meeting = *static_cast<Meeting*>(context);
    meeting.threads[idx] = pthread_self();
    for (++meeting.n; meeting.n < 2;) std::this_thread::yield();
  };
  pool.walk({1, phase, &m, nullptr});
  return m.threads[1];
}

std::atomic<bool> g_held, g_release;
void hold(int) {
  for (g_held = true; !g_release;) {
    const timespec t{0, 1000000};
    nanosleep(&t, nullptr);
  }
}

// As where the system has taken a thread off its core: the other one goes through all phases without it.
TEST(ThreadPool, AThreadThatIsNotThereHoldsNobody) {
  ThreadPool pool(2);
  const pthread_t other = other_thread(pool);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = hold;
  g_held = g_release = false;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(pthread_kill(other, SIGUSR1), 0);
  while (!g_held) std::this_thread::yield();
  std::thread rescue([] {  // so that a failure does not last for ever
    for (int i = 0; i < 1000 && !g_release; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    g_release = true;
  });
  Items items(64, 16);
  for (int job = 0; job < 20; ++job) items.walk(pool);
  EXPECT_FALSE(g_release);
  EXPECT_EQ(items.most_idx, 0u);
  g_release = true;
  rescue.join();
  for (int job = 0; job < 20; ++job) items.walk(pool);  // and it finds its way back
  EXPECT_NE(pthread_equal(other_thread(pool), other), 0);
  sigaction(SIGUSR1, &before, nullptr);
}

// A core of a quarter of the speed, as a thread that sleeps three quarters of the time would be: with items claimed one
// by one the others take what it cannot do.
TEST(ThreadPool, ASlowThreadGetsLess) {
  ThreadPool pool(2);
  struct Context {
    std::atomic<uint32_t> next = 0;
    std::atomic<uint32_t> n[2] = {};
  } c;
  const auto phase = [](void* context, uint32_t, uint32_t idx) {
    auto& self = *static_cast<Context*>(context);
    while (self.next.fetch_add(1) < 100) {
      std::this_thread::sleep_for(std::chrono::microseconds(idx == 0 ? 300 : 3000));
      ++self.n[idx];
    }
  };
  pool.walk({1, phase, &c, nullptr});
  EXPECT_EQ(c.n[0] + c.n[1], 100u);
  EXPECT_GT(c.n[0], c.n[1]);
}

// Idle between jobs: the threads sleep. Other programs may share the cores, so the best of some tries counts.
TEST(ThreadPool, SleepsBetweenJobs) {
  ThreadPool pool(4);
  double least = 1;
  for (int attempt = 0; attempt < 5 && least > 0.05; ++attempt) {
    Items(10, 8).walk(pool);
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double wall = std::chrono::duration<double>(Clock::now() - start).count();
    least = std::min(least, (cpu_seconds() - cpu) / wall);
  }
  EXPECT_LT(least, 0.05);
}

// More threads than the machine grants time for: those that wait must not use up what the others need.
TEST(ThreadPool, WaitsInsideAJobSleepWhereToldTo) {
  double least = 1;
  for (int attempt = 0; attempt < 5 && least > 0.05; ++attempt) {
    ThreadPool pool(4, false);
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    std::atomic<int> next = 0;
    const auto phase = [](void* context, uint32_t, uint32_t) {
      if (++*static_cast<std::atomic<int>*>(context) == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    pool.walk({1, phase, &next, nullptr});
    const double wall = std::chrono::duration<double>(Clock::now() - start).count();
    least = std::min(least, (cpu_seconds() - cpu) / wall);
  }
  EXPECT_LT(least, 0.05);
}

}  // namespace
}  // namespace sluice
