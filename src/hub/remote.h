// The part that needs the network. A build without libcurl has only errors here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hub/cache.h"

namespace sluice::hub {

struct Repository {
  std::string commit;
  std::vector<RepoFile> files;
};

// Bytes done of all files, for the listener.
struct Meter {
  const Listener& listener;
  uint64_t total = 0, before = 0;  // before: of the files that are complete

  bool show(uint64_t of_this_file) const {
    return !listener.on_progress || listener.on_progress(before + of_this_file, total);
  }
};

class Remote {
 public:
  static Result<Remote> connect(const Settings& settings, const Name& name, const Listener& listener);
  Remote(Remote&&) noexcept;
  ~Remote();

  // Code::io where the hub cannot be reached.
  Result<Repository> read();
  // Fills `blob`.incomplete, from where it stopped, and gives it its name when the checksum is right.
  Result<void> fetch(const RepoFile& file, const std::string& commit, const std::string& blob, const Meter& meter);

 private:
  struct State;
  explicit Remote(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The hub's answer to GET api/models/OWNER/REPO/revision/main?blobs=true. Nothing in it is trusted.
Result<Repository> parse_repository(const std::string& json, const std::string& repo_id);

}  // namespace sluice::hub
