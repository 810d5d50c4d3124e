#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "hub/remote.h"

namespace sluice::hub {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 46;

Error bad_answer(const std::string& repo_id, std::string_view what) {
  return {Code::corrupt_file, fmt::format("the hub's answer about {} {}; check HF_ENDPOINT", repo_id, what)};
}

std::string text_at(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

uint64_t size_at(const json& object) {
  const auto at = object.find("size");
  return at != object.end() && at->is_number_unsigned() ? at->get<uint64_t>() : kMaxFileBytes;
}

// Large files are known by their SHA-256, small ones by their git id.
Result<RepoFile> parse_file(const json& entry, const std::string& repo_id) {
  RepoFile file;
  if (entry.is_object()) file.path = text_at(entry, "rfilename");
  if (!safe_path(file.path))
    return bad_answer(
        repo_id, fmt::format("names the file '{}', which is no path inside a repository", printable(file.path, 120)));
  const auto lfs = entry.find("lfs");
  const bool large = lfs != entry.end() && lfs->is_object();
  file.oid = large ? text_at(*lfs, "sha256") : text_at(entry, "blobId");
  file.n_bytes = size_at(large ? *lfs : entry);
  if (!is_hex(file.oid, large ? 64 : 40) || file.n_bytes >= kMaxFileBytes)
    return bad_answer(repo_id, fmt::format("gives no checksum or size of '{}'", printable(file.path, 120)));
  return file;
}

}  // namespace

Result<Repository> parse_repository(const std::string& text, const std::string& repo_id) {
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  const json value = json::parse(text, keep, false);
  if (too_deep || !value.is_object()) return bad_answer(repo_id, "is not the JSON that a hub gives");
  Repository repository{.commit = text_at(value, "sha")};
  const auto siblings = value.find("siblings");
  if (!is_hex(repository.commit, 40, 64) || siblings == value.end() || !siblings->is_array())
    return bad_answer(repo_id, "lacks the revision or the list of files");
  std::set<std::string> paths;
  for (const json& entry : *siblings) {
    repository.files.push_back(TRY(parse_file(entry, repo_id)));
    if (!paths.insert(repository.files.back().path).second) return bad_answer(repo_id, "names a file twice");
  }
  return repository;
}

}  // namespace sluice::hub
