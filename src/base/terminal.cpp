#include "base/terminal.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

std::string amount(uint64_t done, uint64_t total, std::string_view unit) {
  if (unit != "B") return fmt::format("{}/{}{}{}", done, total, unit.empty() ? "" : " ", unit);
  constexpr std::pair<uint64_t, const char*> kScales[] = {{1000'000'000, "GB"}, {1000'000, "MB"}, {1000, "KB"}};
  for (const auto& [scale, name] : kScales)
    if (total >= scale)
      return fmt::format("{:.1f}/{:.1f} {}", double(done) / double(scale), double(total) / double(scale), name);
  return fmt::format("{}/{} B", done, total);
}

std::string duration(double seconds) {
  const auto whole = uint64_t(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace

bool is_terminal(Stream stream) { return isatty(int(stream)) == 1; }

uint32_t terminal_width(Stream stream, uint32_t fallback) {
  winsize size{};
  if (ioctl(int(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return fallback;
  return size.ws_col;
}

bool colour_allowed(Stream stream, bool no_color, std::string_view term) {
  return !no_color && !term.empty() && term != "dumb" && is_terminal(stream);
}

std::string progress_line(std::string_view label, uint64_t done, uint64_t total, std::string_view unit, double seconds,
                          uint32_t width) {
  done = std::min(done, total);
  const double share = total == 0 ? 1.0 : double(done) / double(total);
  std::string tail = fmt::format(" {:3.0f}%  {}", share * 100, amount(done, total, unit));
  if (done > 0 && done < total && seconds >= 1) tail += fmt::format("  {} left", duration(seconds / share - seconds));
  const size_t columns = width > 1 ? width - 1 : 0;
  std::string line = fmt::format("{}  ", label);
  const size_t used = line.size() + tail.size() + 2;
  if (columns >= used + 5) {
    const size_t bar = std::min<size_t>(columns - used, 40);
    const auto full = size_t(share * double(bar));
    line += fmt::format("[{:#<{}}{: <{}}]", "", full, "", bar - full);
  }
  line += tail;
  if (line.size() > columns) line.resize(columns);
  return line;
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char32_t code = 0;
    const size_t length = utf8_length(text, at, &code);
    const bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
    if (length == 0 || control)
      out += "\xef\xbf\xbd";
    else
      out += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

bool write_all(Stream stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(int(stream), bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(size_t(n));
    } else if (errno == EAGAIN) {  // a stream that another program made non-blocking
      pollfd wait{.fd = int(stream), .events = POLLOUT, .revents = 0};
      poll(&wait, 1, 1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

ProgressBar::ProgressBar(std::string label, uint64_t total, std::string unit, const Options& options)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      options_(options),
      active_(options.enabled && is_terminal(options.stream)),
      start_(Clock::now()),
      next_(start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.delay_s))),
      before_{start_, 0},
      mark_{start_, 0} {}

void ProgressBar::update(uint64_t done) {
  if (!active_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.interval_s));
  if (now - mark_.time > std::chrono::seconds(10)) before_ = std::exchange(mark_, {now, done});
  // What all of it would have taken at the present speed.
  const double share = done > before_.done ? double(done) / double(done - before_.done) : 0;
  const double seconds = share * std::chrono::duration<double>(now - before_.time).count();
  const uint32_t width = terminal_width(options_.stream);
  // Back to the first column, the line, then wipe what a longer line left behind.
  active_ = write_all(options_.stream, "\r" + progress_line(label_, done, total_, unit_, seconds, width) + "\x1b[K");
  drawn_ = true;
}

void ProgressBar::finish() {
  if (active_ && drawn_) write_all(options_.stream, "\r\x1b[K");
  active_ = false;
}

}  // namespace sluice
