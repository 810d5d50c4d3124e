// Messages from the library to whoever embeds it. Nothing below the command line prints; it logs here, and by default
// the messages are dropped.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice::log {

enum class Level : uint8_t { debug, info, warn, error, off };

using Sink = std::function<void(Level, std::string_view)>;

// Messages of `least` and above go to `sink`, one at a time, from any thread. When this returns, the sink set before is
// not running and will not be called again. The sink must not log, and must not set a sink.
void set_sink(Sink sink, Level least = Level::info);
bool enabled(Level level);
void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sluice::log
