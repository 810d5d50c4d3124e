// A hub on this machine, an empty cache, and what pulling from the one into the other came to.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "sluice/hub.h"
#include "support/hub_server.h"

namespace sluice::hub {

namespace fs = std::filesystem;
using test::hub_with;
using test::kRevision;
using test::some_text;

inline std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

struct HubCase {
  explicit HubCase(const nlohmann::json& scenario, const std::vector<std::string>& certificate = {})
      : server(scenario, certificate) {
    settings.endpoint = server.url();
    settings.retry_ms = 1;
    start_anew();
    listener.on_note = [this](const std::string& line) { notes.push_back(line); };
  }

  // An empty cache, and nothing seen yet; the server goes on in its scenario.
  void start_anew() {
    settings.cache = server.dir().file("cache" + std::to_string(n_caches++));
    notes.clear();
    n_seen_before = server.ranges().size();
  }
  std::vector<std::string> ranges() const {
    const std::vector<std::string> all = server.ranges();
    return {all.begin() + static_cast<ptrdiff_t>(n_seen_before), all.end()};
  }

  fs::path repo() const { return fs::path(settings.cache) / "models--own--repo"; }
  std::string path(const std::string& file) const { return (repo() / "snapshots" / kRevision / file).string(); }
  Result<Model> pull(const std::string& name = "own/repo") { return hub::pull(settings, *parse_name(name), listener); }
  // Pulls a file that must come out as `text`.
  void expect_pulled(const std::string& text) {
    const auto model = pull();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(read_file(model->path()), text);
    EXPECT_TRUE(partial().empty());
  }
  void expect_error(Code code, const std::string& part) {
    const auto model = pull();
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, code);
    EXPECT_NE(model.error().message.find(part), std::string::npos) << model.error().message;
    EXPECT_NE(model.error().message.find("; "), std::string::npos) << model.error().message;
    EXPECT_FALSE(fs::exists(repo() / "refs/main"));
  }
  std::vector<fs::path> blobs() const { return entries(""); }
  std::vector<fs::path> partial() const { return entries(".incomplete"); }
  std::vector<fs::path> entries(const std::string& extension) const {
    std::vector<fs::path> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(repo() / "blobs", error))
      if (entry.path().extension() == extension) all.push_back(entry.path());
    return all;
  }

  test::HubServer server;
  Settings settings;
  Listener listener;
  std::vector<std::string> notes;
  size_t n_seen_before = 0;
  int n_caches = 0;
};

}  // namespace sluice::hub
