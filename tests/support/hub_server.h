// A hub on this machine that does what a test's scenario says; see hub_server.py.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/source_dir.h"
#include "support/temp_dir.h"

namespace sluice::test {

class HubServer {
 public:
  explicit HubServer(const nlohmann::json& scenario, const std::vector<std::string>& certificate = {}) {
    setenv("no_proxy", "127.0.0.1", 1);  // a proxy of this machine knows nothing of the server
    std::ofstream(dir_.file("scenario.json")) << scenario;
    std::ofstream(dir_.file("log"));
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      const std::string script = (source_dir() / "tests/support/hub_server.py").string();
      std::vector<std::string> words{"python3", "-S", script, dir_.file("scenario.json"), dir_.file("log")};
      words.insert(words.end(), certificate.begin(), certificate.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    stdin_ = in[1];
    std::string ports;
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') ports += c;
    close(out[0]);
    EXPECT_FALSE(ports.empty()) << "the server did not start";
    url_ = (certificate.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") + ports.substr(0, ports.find(' '));
  }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;
  ~HubServer() { stop(); }

  void stop() {
    if (pid_ <= 0) return;
    close(stdin_);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  const std::string& url() const { return url_; }
  const TempDir& dir() const { return dir_; }

  struct Seen {
    bool hub;
    std::string path, token, range;
  };
  std::vector<Seen> seen() const {
    std::vector<Seen> all;
    std::ifstream in(dir_.file("log"));
    for (std::string line; std::getline(in, line);) {
      const auto entry = nlohmann::json::parse(line);
      all.push_back({entry["hub"], entry["path"], entry["token"], entry["range"]});
    }
    return all;
  }
  // The ranges of the requests that reached the files, in order.
  std::vector<std::string> ranges() const {
    std::vector<std::string> all;
    for (const Seen& s : seen())
      if (!s.hub) all.push_back(s.range);
    return all;
  }

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  int stdin_ = -1;
  std::string url_;
};

// `n` bytes of text that differ from place to place.
inline std::string some_text(size_t n, uint32_t seed = 1) {
  std::string text(n, ' ');
  for (char& c : text) c = static_cast<char>('a' + ((seed = seed * 1664525 + 1013904223) >> 16) % 26);
  return text;
}

inline const std::string kRevision(40, 'c');

// A scenario with one repository, own/repo, of these files.
inline nlohmann::json hub_with(const std::vector<std::pair<std::string, std::string>>& files) {
  nlohmann::json scenario;
  scenario["repos"]["own/repo"]["sha"] = kRevision;
  for (const auto& [path, text] : files) scenario["repos"]["own/repo"]["files"][path]["text"] = text;
  return scenario;
}

}  // namespace sluice::test
