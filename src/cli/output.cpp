#include "cli/output.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "sluice/version.h"

namespace sluice::cli {
namespace {
bool is_quiet = false;
bool pipe_is_closed = false;
}  // namespace

void set_quiet(bool quiet) { is_quiet = quiet; }
bool quiet() { return is_quiet; }
bool closed_pipe() { return pipe_is_closed; }

Result<void> put(std::string_view text) {
  if (write_all(Stream::out, text)) return {};
  const int error = errno;
  pipe_is_closed = error == EPIPE;
  return Error{Code::io, fmt::format("cannot write to stdout: {}; send the output elsewhere",
                                     std::generic_category().message(error))};
}

Result<void> put_text(std::string_view text) {
  static const bool terminal = is_terminal(Stream::out);
  return put(terminal ? without_controls(text) : std::string(text));
}

void say_line(std::string_view text) { write_all(Stream::err, without_controls(text) + "\n"); }

ProgressBar::Options bar_options() {
  const char* term = std::getenv("TERM");  // "dumb" knows no carriage return and no wiping
  return {.enabled = !is_quiet && (term == nullptr || std::string_view(term) != "dumb")};
}

bool use_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return colour_allowed(Stream::out, no_colour != nullptr && *no_colour != '\0', term == nullptr ? "" : term);
}

std::string version_line() { return "sluice " SLUICE_VERSION "\n"; }

std::string count_text(double n) {
  if (n >= 1e9) return fmt::format("{:.2f} B", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.2f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.2f} K", n / 1e3);
  return fmt::format("{:.0f}", n);
}

}  // namespace sluice::cli
