// The program on a terminal: what it writes there, and Ctrl-C.
#include <stdlib.h>
#include <termios.h>

#include <chrono>
#include <functional>
#include <thread>

#include "cli/program.h"

namespace sluice::test {
namespace {

// A program whose stdin, stdout and stderr are one terminal.
class Terminal {
 public:
  explicit Terminal(const Arguments& arguments, const std::string& term = "xterm") {
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
    const std::string name = ptsname(master_);
    pid_ = fork();
    if (pid_ != 0) return;
    setsid();
    const int slave = open(name.c_str(), O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(slave, fd);
    close(slave);
    close(master_);
    setenv("TERM", term.c_str(), 1);
    become_program(arguments);
  }
  ~Terminal() {
    if (pid_ > 0 && code_ < 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) { EXPECT_EQ(write(master_, keys.data(), keys.size()), ssize_t(keys.size())); }
  // Reads until what came since the last call holds `part`.
  bool wait_for(const std::string& part) {
    while (all.find(part, seen_) == std::string::npos)
      if (!read_more()) return false;
    seen_ = all.find(part, seen_) + part.size();
    return true;
  }
  // Reads to the end; the exit code, 1000 + N after signal N.
  int finish() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  std::string all;

 private:
  bool read_more() {
    pollfd wait{master_, POLLIN, 0};
    char buffer[4096];
    if (poll(&wait, 1, 20'000) <= 0) return false;
    const ssize_t n = read(master_, buffer, sizeof buffer);
    if (n <= 0) return false;
    all.append(buffer, size_t(n));
    return true;
  }
  int master_ = -1, code_ = -1;
  pid_t pid_ = -1;
  size_t seen_ = 0;
};

constexpr char kCtrlC[] = "\x03";

// ESC, BEL, DEL, and CSI as one character.
const std::string kCommands =
    "\x1b]0;x\x07\x7f\xc2\x9b"
    "31m\r";

void expect_harmless(std::string text) {
  // The terminal's own line ends, and what notes and bars on stderr may hold.
  for (size_t at = 0; (at = text.find("\r\n")) != std::string::npos;) text.erase(at, 1);
  for (const std::string bad : {"\x1b]", "\x07", "\x7f", "\xc2\x9b", "\r"})
    EXPECT_EQ(text.find(bad), std::string::npos) << nlohmann::json(bad).dump() << " in " << text;
}

TEST(OnATerminal, text_of_models_holds_no_commands) {
  Terminal run({"run", kCommands + "Once", "-n", "1", "--temp", "0"}, "dumb");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_NE(run.all.find("Once"), std::string::npos);
  expect_harmless(run.all);

  const auto ids = json_of(sluice({"tokenize", "--json", kCommands}))["ids"];
  std::string list;
  for (const int id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
  Terminal decode({"tokenize", "--decode", list});
  EXPECT_EQ(decode.finish(), 0);
  EXPECT_NE(decode.all.find("\xef\xbf\xbd]0;x"), std::string::npos) << decode.all;
  expect_harmless(decode.all);
  Terminal table({"tokenize", kCommands});
  EXPECT_EQ(table.finish(), 0);
  expect_harmless(table.all);

  // Elsewhere every byte stays.
  EXPECT_EQ(sluice({"tokenize", "--decode", list}).out, kCommands + "\n");
  EXPECT_TRUE(sluice({"run", kCommands, "-n", "0"}).out.starts_with(kCommands));
}

TEST(OnATerminal, a_dumb_one_gets_no_progress_bars) {
  // A bar comes when the work has lasted a while. Hours of work, so that no machine is too fast for one.
  const Arguments hours = {"bench", "-p", "0", "-n", "1000", "-r", "1000"};
  const auto start = std::chrono::steady_clock::now();
  Terminal with_bar(hours, "xterm");
  EXPECT_TRUE(with_bar.wait_for("\x1b[K")) << with_bar.all;
  const auto until_bar = std::chrono::steady_clock::now() - start;
  with_bar.type(kCtrlC);
  EXPECT_EQ(with_bar.finish(), 130);

  Terminal dumb(hours, "dumb");
  std::this_thread::sleep_for(2 * until_bar);
  dumb.type(kCtrlC);
  EXPECT_EQ(dumb.finish(), 130);
  EXPECT_EQ(dumb.all.find('\x1b'), std::string::npos) << dumb.all;
}

TEST(OnATerminal, ctrl_c_at_the_prompt_of_a_chat_only_hints) {
  Terminal chat({"chat", "--temp", "0", "-n", "4"});
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  chat.type(std::string("some words") + kCtrlC);
  ASSERT_TRUE(chat.wait_for("Ctrl-C again")) << chat.all;
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  chat.type("Once upon a time\n");
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  EXPECT_EQ(chat.all.find("some wordsOnce"), std::string::npos);
  // A line in between: this one is a first one again.
  chat.type(kCtrlC);
  ASSERT_TRUE(chat.wait_for("Ctrl-C again")) << chat.all;
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  chat.type(kCtrlC);
  EXPECT_EQ(chat.finish(), 130) << chat.all;
}

TEST(OnATerminal, ctrl_c_stops_an_answer_and_the_chat_goes_on) {
  Terminal chat({"chat", "--temp", "0", "-n", "2000", "-c", "2048"});
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  chat.type("Once upon a time\n");
  ASSERT_TRUE(chat.wait_for("\n")) << chat.all;
  usleep(200'000);
  chat.type(kCtrlC);
  ASSERT_TRUE(chat.wait_for("> ")) << chat.all;
  chat.type("/exit\n");
  EXPECT_EQ(chat.finish(), 0) << chat.all;
}

TEST(Endless, input_is_refused_and_ctrl_c_ends_the_reading) {
  for (const char* command : {"run", "tokenize", "routes", "perplexity"})
    expect_error(sluice({command, "-f", "/dev/zero"}), 1, "64 MiB");
  for (const int number : {SIGINT, SIGTERM}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[0], 0);
      close(2);
      become_program({"run", "-"});
    }
    close(ends[0]);
    // More than a pipe holds: written when the program reads, which is after it learnt to catch signals.
    const std::string text(size_t{1} << 20, 'a');
    EXPECT_EQ(write(ends[1], text.data(), text.size()), ssize_t(text.size()));
    kill(pid, number);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + number) << status;
    close(ends[1]);
  }
}

}  // namespace
}  // namespace sluice::test
