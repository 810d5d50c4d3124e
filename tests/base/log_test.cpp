#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

struct ClearSink {
  ~ClearSink() { log::set_sink({}); }
};

TEST(Log, DropsByDefault) {
  EXPECT_FALSE(log::enabled(log::Level::error));
  log::error("nobody hears {}", "this");
}

TEST(Log, LevelsAndFormat) {
  const ClearSink clear;
  std::vector<std::string> seen;
  log::set_sink(
      [&](log::Level level, std::string_view text) { seen.push_back(std::to_string(int(level)) + std::string(text)); },
      log::Level::info);
  log::debug("no");
  log::info("{} of {}", 1, 2);
  log::warn("w");
  log::write(log::Level::debug, "no");
  EXPECT_EQ(seen, (std::vector<std::string>{"11 of 2", "2w"}));
  EXPECT_FALSE(log::enabled(log::Level::off));
  log::set_sink({});
  log::error("no");
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Log, OneAtATimeAndNoneAfterTheSinkIsGone) {
  const ClearSink clear;
  std::vector<std::thread> threads;
  {
    uint64_t n = 0;  // not atomic: the sink's calls must not overlap
    log::set_sink([&](log::Level, std::string_view) { ++n; });
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < 1000; ++i) log::info("{}", i);
      });
    std::thread([] { log::warn("one"); }).join();
    log::set_sink({});
    EXPECT_GE(n, 1u);
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice
