// Models from the hub, in the hub's own cache layout, so that what other programs downloaded is found and the other way
// round. Nothing here reads the environment.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"

namespace sluice::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // http is allowed, for mirrors and tests
  std::string token;                                // goes to the endpoint's host and port alone
  std::string cache;                                // the folder that holds models--OWNER--REPO
  std::string ca_file;                              // certificates in PEM form; empty: the system's
  bool offline = false;                             // never connect
  uint32_t n_retries = 5;                           // in a row, each without a new byte
  uint32_t retry_ms = 1000;                         // before the first; doubled for each further one
};

struct Name {
  std::string owner, repo;
  std::string quant;  // "Q4_K_M", or a file's name in the repository; empty: Q4_K_M or what there is
  std::string repo_id() const { return owner + "/" + repo; }
};
// OWNER/REPO[:QUANT], after hf:, hf.co/ or the hub's web address, if any.
Result<Name> parse_name(std::string_view text);

struct Model {
  std::string name;                // OWNER/REPO:QUANT
  std::vector<std::string> files;  // absolute or relative as Settings::cache is; the parts of a split model in order
  uint64_t n_bytes = 0;
  const std::string& path() const { return files.front(); }
};

struct Listener {
  // Bytes of all the model's files; called about once a second at least. False cancels: a later call goes on there.
  std::function<bool(uint64_t done, uint64_t total)> on_progress;
  // One line for the user: what was taken instead, a retry, another process that holds the file.
  std::function<void(const std::string& line)> on_note;
};

// Whether this build has what downloads need (libcurl and OpenSSL's libcrypto).
bool can_download();

// Asks the hub and downloads what the cache lacks of the newest revision. Where the hub cannot be reached, what the
// cache holds of the model is given, with a note.
Result<Model> pull(const Settings& settings, const Name& name, const Listener& listener);
// The same, but does not ask the hub where the cache holds the model.
Result<Model> find_or_pull(const Settings& settings, const Name& name, const Listener& listener);

// The whole models in the cache, by name.
Result<std::vector<Model>> list(const Settings& settings);

struct Removed {
  std::string name;
  uint64_t n_bytes = 0;  // given back to the disk
};
// Removes the model's files from every snapshot, and their content unless another snapshot links to it.
Result<Removed> remove(const Settings& settings, const Name& name);

}  // namespace sluice::hub
