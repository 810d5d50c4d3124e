// One file on its way into the cache, over as many connections as it takes.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/partial_file.h"
#include "hub/curl/checksum.h"
#include "hub/curl/http.h"
#include "hub/remote.h"

namespace sluice::hub {

// Counts failures in a row and waits between attempts.
class Retries {
 public:
  Retries(const Settings& settings, const Listener& listener, std::function<bool()> go_on)
      : settings_(settings), listener_(listener), go_on_(std::move(go_on)) {}
  // False: that was the last attempt.
  Result<bool> wait(const std::string& host, const Response& response);
  void progressed() { n_failures_ = 0; }

 private:
  const Settings& settings_;
  const Listener& listener_;
  std::function<bool()> go_on_;
  uint32_t n_failures_ = 0;
};

// For what did not become a good answer.
Error response_error(const Settings& settings, const std::string& repo_id, const Response& response);

class Transfer {
 public:
  Transfer(const Settings& settings, const std::string& repo_id, Client& client, const RepoFile& file, std::string url,
           const Meter& meter)
      : settings_(settings), repo_id_(repo_id), client_(client), file_(file), url_(std::move(url)), meter_(meter) {}

  Result<void> run(const std::string& blob);

 private:
  struct Target {
    PartialFile file;
    Checksum sum;
    std::string etag;  // of the answer that its bytes came from, as far as that is known

    Result<void> clear();
  };
  Result<void> take_up(Target& target, const std::string& path);
  Result<void> receive(Target& target);
  Result<bool> check_start(Target& target, const Response& response, uint64_t from);
  Result<bool> accept(Target& target, std::span<const std::byte> bytes);

  const Settings& settings_;
  const std::string& repo_id_;
  Client& client_;
  const RepoFile& file_;
  std::string url_;
  const Meter& meter_;
};

}  // namespace sluice::hub
