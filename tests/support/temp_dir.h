// A folder that lives as long as the object.
#pragma once
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace sluice::test {

class TempDir {
 public:
  TempDir() {
    static std::atomic<int> counter = 0;
    const auto base = std::filesystem::temp_directory_path();
    do {
      path_ = base / ("sluice-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    } while (!std::filesystem::create_directory(path_));
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  // The path of a file inside.
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::test
