#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace sluice {
namespace {

// Puts another file in the place of stderr for the length of a test.
class ReplacedStderr {
 public:
  explicit ReplacedStderr(int fd) : saved_(dup(STDERR_FILENO)) { dup2(fd, STDERR_FILENO); }
  ~ReplacedStderr() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
  }

 private:
  int saved_;
};

TEST(Terminal, ProgressLine) {
  EXPECT_EQ(progress_line("load", 12'000'000, 24'000'000, "B", 1, 60),
            "load  [###########           ]  50%  12.0/24.0 MB  1 s left");
  EXPECT_EQ(progress_line("prefill", 3, 4, "tokens", 0.2, 40), "prefill  [########   ]  75%  3/4 tokens");
  EXPECT_EQ(progress_line("x", 0, 0, "", 0, 30), "x  [##############] 100%  0/0");
  EXPECT_EQ(progress_line("x", 9, 4, "", 0, 20), "x   100%  4/4");  // too narrow for a bar; never above the total
}

TEST(Terminal, ProgressNeverWraps) {
  for (uint32_t width : {0u, 1u, 2u, 10u, 35u, 80u, 500u})
    for (uint64_t done : {uint64_t{0}, uint64_t{1}, uint64_t{5'000'000'000}})
      EXPECT_LE(progress_line("perplexity of a text", done, 9'000'000'000, "B", 5000, width).size(),
                width ? width - 1 : 0);
}

TEST(Terminal, PipeIsNoTerminalAndGetsNoBar) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  {
    const ReplacedStderr replaced(ends[1]);
    EXPECT_FALSE(is_terminal(Stream::err));
    EXPECT_EQ(terminal_width(Stream::err, 77), 77u);
    EXPECT_FALSE(colour_allowed(Stream::err, false, "xterm"));
    ProgressBar bar("load", 10, "B", {.delay_s = 0, .interval_s = 0});
    bar.update(5);
    bar.finish();
  }
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), -1);  // nothing was written
  close(ends[0]);
  close(ends[1]);
}

TEST(Terminal, TerminalGetsBarAndIsWipedClean) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) GTEST_SKIP() << "no pseudo terminals here";
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const winsize size{.ws_row = 20, .ws_col = 44, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  {
    const ReplacedStderr replaced(terminal);
    EXPECT_TRUE(is_terminal(Stream::err));
    EXPECT_EQ(terminal_width(Stream::err), 44u);
    EXPECT_TRUE(colour_allowed(Stream::err, false, "xterm"));
    EXPECT_FALSE(colour_allowed(Stream::err, true, "xterm"));
    EXPECT_FALSE(colour_allowed(Stream::err, false, "dumb"));
    ProgressBar quiet("load", 10, "B", {.enabled = false, .delay_s = 0, .interval_s = 0});
    quiet.update(5);
    ProgressBar quick("load", 10, "B");  // done before the delay: not shown
    quick.update(10);
    quick.finish();
    ProgressBar bar("load", 10, "B", {.delay_s = 0, .interval_s = 0});
    bar.update(5);
  }
  std::string shown(4096, '\0');
  const ssize_t n = read(master, shown.data(), shown.size());
  shown.resize(n > 0 ? size_t(n) : 0);
  EXPECT_EQ(shown, "\rload  [###########           ]  50%  5/10 B\x1b[K\r\x1b[K");
  close(terminal);
  close(master);
}

TEST(Terminal, WriteAllTellsOfAClosedPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto* const before = signal(SIGPIPE, SIG_IGN);
  {
    const ReplacedStderr replaced(ends[1]);
    EXPECT_TRUE(write_all(Stream::err, "abc"));
    close(ends[0]);
    EXPECT_FALSE(write_all(Stream::err, "abc"));
    EXPECT_EQ(errno, EPIPE);
  }
  signal(SIGPIPE, before);
  close(ends[1]);
}

TEST(WithoutControls, KeepsTextAndShowsWhatCommands) {
  EXPECT_EQ(without_controls("a\n\tb \xc3\xa4\xe2\x82\xac"), "a\n\tb \xc3\xa4\xe2\x82\xac");
  const std::string mark = "\xef\xbf\xbd";
  for (const std::string bad : {"\x1b", "\x7f", "\r", "\x07", "\xc2\x80", "\xc2\x9f", "\x9b", "\xff"})
    EXPECT_EQ(without_controls("a" + bad + "[b"), "a" + mark + "[b");
  EXPECT_EQ(without_controls("\xc2\xa0"), "\xc2\xa0");
}

}  // namespace
}  // namespace sluice
