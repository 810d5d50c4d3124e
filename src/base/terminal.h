// What the program's output is connected to, and a progress bar for it.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

enum class Stream { in = 0, out = 1, err = 2 };

bool is_terminal(Stream stream);
// Columns of the terminal behind `stream`; `fallback` where it is none.
uint32_t terminal_width(Stream stream, uint32_t fallback = 80);
// `no_color`: NO_COLOR is set and not empty; `term`: TERM.
bool colour_allowed(Stream stream, bool no_color, std::string_view term);

// One line of a bar, without the carriage return: "load  [#####     ]  50%  12.0/24.0 MB  1 s left".
// `unit` "B" is scaled to KB, MB, GB; another unit is written as it is. Never wider than width - 1 columns.
std::string progress_line(std::string_view label, uint64_t done, uint64_t total, std::string_view unit, double seconds,
                          uint32_t width);

// Draws on one stream, by default stderr, and only if that is a terminal; otherwise does nothing at all. Nothing shows
// before 0.3 s have passed. Not for use by several threads.
class ProgressBar {
 public:
  struct Options {
    Stream stream = Stream::err;
    bool enabled = true;      // false for --quiet
    double delay_s = 0.3;     // short work shows no bar
    double interval_s = 0.1;  // between two drawings
  };
  ProgressBar(std::string label, uint64_t total, std::string unit, const Options& options);
  ProgressBar(std::string label, uint64_t total, std::string unit)
      : ProgressBar(std::move(label), total, std::move(unit), Options{}) {}
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done);
  void finish();  // wipes the line

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_, unit_;
  uint64_t total_;
  Options options_;
  bool active_, drawn_ = false;
  Clock::time_point start_, next_;
  // The speed is that since `before_`, 10 to 20 s ago: a start that was faster or slower does not count for ever.
  struct Mark {
    Clock::time_point time;
    uint64_t done = 0;
  };
  Mark before_, mark_;
};

// `text` without what could command a terminal: control characters other than line end and tab (ESC, DEL, U+0080 to
// U+009F and the like), and bytes that are not UTF-8, become U+FFFD.
std::string without_controls(std::string_view text);

// Writes all bytes, going on after interruptions and short writes; false where the stream does not take them
// (a closed pipe, a full disk): errno tells.
bool write_all(Stream stream, std::string_view bytes);

}  // namespace sluice
