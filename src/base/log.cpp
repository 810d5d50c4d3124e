#include "base/log.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace sluice::log {
namespace {

struct State {
  std::mutex mutex;
  Sink sink;
  std::atomic<Level> least{Level::off};
};

// Never destroyed: a thread may still log while the program ends.
State& state() {
  static State& instance = *new State;
  return instance;
}

}  // namespace

void set_sink(Sink sink, Level least) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.least.store(sink ? least : Level::off, std::memory_order_relaxed);
  s.sink = std::move(sink);
}

bool enabled(Level level) { return level >= state().least.load(std::memory_order_relaxed) && level != Level::off; }

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.sink && level >= s.least.load(std::memory_order_relaxed)) s.sink(level, message);
}

}  // namespace sluice::log
