// Runs the built program as its users do, and takes down what it says.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/source_dir.h"
#include "support/temp_dir.h"

namespace sluice::test {

using Arguments = std::vector<std::string>;

struct Said {
  int code = -1;  // 1000 + N: ended by signal N
  std::string out, err;
};

struct How {
  std::string in;                // fed to stdin, which then ends
  std::string out_path;          // stdout is this file instead of a pipe
  bool close_out_early = false;  // reads one piece of stdout, then closes it
  bool interrupt = false;        // SIGINT once the first piece of stdout has come
};

inline std::string source_file(const std::string& path) { return (source_dir() / path).string(); }
inline std::string story_model() { return source_file("assets/story-q4_0.gguf"); }
inline std::string tiny_model(const std::string& name) {
  return source_file("tests/fixtures/oracle/" + name + ".gguf");
}
inline std::string tiny_tokens(const std::string& name) {
  return source_file("tests/fixtures/oracle/" + name + ".tokens.json");
}

[[noreturn]] inline void become_program(const Arguments& arguments) {
  std::vector<char*> argv{const_cast<char*>("sluice")};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  setenv("SLUICE_STORY", story_model().c_str(), 1);
  setenv("NO_COLOR", "1", 1);
  signal(SIGPIPE, SIG_DFL);
  execv(SLUICE_PROGRAM, argv.data());
  _exit(127);
}

inline Said sluice(const Arguments& arguments, const How& how = {}) {
  int in[2], out[2], err[2];
  if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) return {};
  signal(SIGPIPE, SIG_IGN);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in[0], 0);
    dup2(how.out_path.empty() ? out[1] : open(how.out_path.c_str(), O_WRONLY | O_CREAT, 0666), 1);
    dup2(err[1], 2);
    for (const int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) close(fd);
    become_program(arguments);
  }
  for (const int fd : {in[0], out[1], err[1]}) close(fd);
  Said said;
  // Inputs of these tests fit a pipe, so that writing all of one never blocks.
  if (write(in[1], how.in.data(), how.in.size()) < 0) said.err = "(stdin was not read)";
  close(in[1]);
  bool interrupted = false;
  pollfd fds[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    poll(fds, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[1 << 14];
      const ssize_t n = read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) (i == 0 ? said.out : said.err).append(buffer, static_cast<size_t>(n));
      if (n > 0 && i == 0 && how.interrupt && !interrupted) kill(pid, SIGINT), interrupted = true;
      if (n <= 0 || (i == 0 && how.close_out_early)) close(fds[i].fd), fds[i].fd = -1;
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return said;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// One line `error: WHAT; REMEDY`, nothing on stdout.
inline void expect_error(const Said& said, int code, const std::string& part = {}) {
  EXPECT_EQ(said.code, code) << said.err;
  EXPECT_EQ(said.out, "");
  const auto lines = lines_of(said.err);
  const auto is_error = [](const std::string& line) { return line.starts_with("error: "); };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_error), 1) << said.err;
  const auto error = std::find_if(lines.begin(), lines.end(), is_error);
  if (error == lines.end()) return;
  EXPECT_NE(error->find("; "), std::string::npos) << "no remedy: " << *error;
  EXPECT_NE(error->find(part), std::string::npos) << *error;
  for (const std::string& line : lines)
    EXPECT_TRUE(is_error(line) || line.starts_with("note: ") || line.starts_with("warning: ")) << line;
}

inline nlohmann::json json_of(const Said& said) {
  EXPECT_EQ(said.code, 0) << said.err;
  const auto value = nlohmann::json::parse(said.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << said.out.substr(0, 500);
  return value;
}

inline nlohmann::json json_file(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, false);
}

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What is known of the story model: "Once upon a time", its ids, and the text of the first greedy tokens.
struct Story {
  nlohmann::json prompt = json_file(source_file("tests/fixtures/story/reference.json"))["prompts"][0];
  std::string text = prompt["prompt"];
  std::vector<int> ids = prompt["ids"];

  std::vector<int> greedy(size_t n) const {
    std::vector<int> all = prompt["greedy"];
    return {all.begin(), all.begin() + static_cast<ptrdiff_t>(n)};
  }
  std::string tale(size_t from, size_t n) const {
    std::string list;
    for (size_t i = from; i < from + n; ++i) list += (list.empty() ? "" : ",") + prompt["greedy"][i].dump();
    const std::string out = sluice({"tokenize", "--decode", list}).out;
    return out.substr(0, out.size() - 1);
  }
};

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace sluice::test
