// What the program says: answers on stdout, everything else on stderr.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/terminal.h"
#include "sluice/result.h"

namespace sluice::cli {

// Set once, after the options are read.
void set_quiet(bool quiet);
bool quiet();

// Writes to stdout at once. An Error where that fails; when the reader has gone, closed_pipe() holds from then on.
Result<void> put(std::string_view text);
// The same for text of a model or a user: on a terminal without control characters, elsewhere as it is.
Result<void> put_text(std::string_view text);
bool closed_pipe();

// Lines on stderr. note() is for what the user should know (silent with --quiet), say() for results that belong there.
void say_line(std::string_view text);
template <class... A>
void note(fmt::format_string<A...> format, A&&... arguments) {
  if (!quiet()) say_line("note: " + fmt::format(format, std::forward<A>(arguments)...));
}
template <class... A>
void say(fmt::format_string<A...> format, A&&... arguments) {
  if (!quiet()) say_line(fmt::format(format, std::forward<A>(arguments)...));
}

ProgressBar::Options bar_options();
// Colours on stdout: a terminal, and NO_COLOR not set.
bool use_colour();

std::string version_line();
// "29.7 M", "8.3 B"
std::string count_text(double n);

}  // namespace sluice::cli
