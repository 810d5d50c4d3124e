#include "hub/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "base/file_io.h"
#include "base/partial_file.h"
#include "base/small_file.h"
#include "base/text.h"

namespace sluice::hub {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "models--";

Error cannot_write(const std::string& path, const std::error_code& error) {
  return {Code::io, fmt::format("cannot write '{}': {}; set HF_HUB_CACHE to a folder that may be written to",
                                printable_path(path), error.message())};
}

// Files below `folder`; what cannot be read is left out.
template <class Visit>
void for_each_file(const fs::path& folder, Visit visit) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  while (!error && entry != end) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) visit(entry->path());
    entry.increment(error);
  }
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::optional<Name> name_of_folder(const std::string& folder) {
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  const size_t cut = folder.find("--", kPrefix.size());
  if (cut == std::string::npos) return std::nullopt;
  const auto name = parse_name(folder.substr(kPrefix.size(), cut - kPrefix.size()) + "/" + folder.substr(cut + 2));
  if (!name) return std::nullopt;
  return *name;
}

}  // namespace

RepoCache::RepoCache(const Settings& settings, const Name& name)
    : folder_(fmt::format("{}/{}{}--{}", settings.cache, kPrefix, name.owner, name.repo)),
      locks_(fmt::format("{}/.locks/{}{}--{}", settings.cache, kPrefix, name.owner, name.repo)),
      repo_id_(name.repo_id()) {}

std::string RepoCache::pointer(const std::string& commit, const std::string& path) const {
  return folder_ + "/snapshots/" + commit + "/" + path;
}

Result<void> RepoCache::make_folders() const {
  std::error_code error;
  for (const std::string& folder : {blobs(), folder_ + "/refs", folder_ + "/snapshots", locks_}) {
    fs::create_directories(folder, error);
    if (error) return cannot_write(folder, error);
  }
  return {};
}

Result<void> RepoCache::link(const std::string& commit, const RepoFile& file) const {
  static std::atomic<int> counter = 0;
  const fs::path to = pointer(commit, file.path);
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error) return cannot_write(to.string(), error);
  const fs::path target = fs::path(blob(file.oid)).lexically_relative(to.parent_path());
  // Under another name first: a link that leads nowhere is replaced, and no other process ever sees none.
  const fs::path made = fmt::format("{}/.sluice-link-{}-{}", folder_, file.oid.substr(0, 16), counter++);
  fs::remove(made, error);
  fs::create_symlink(target, made, error);
  if (!error)
    fs::rename(made, to, error);
  else if (error == std::errc::operation_not_permitted || error == std::errc::function_not_supported ||
           error == std::errc::operation_not_supported)
    fs::rename(blob(file.oid), to, error);
  if (error) return cannot_write(to.string(), error);
  return {};
}

Result<void> RepoCache::write_main(const std::string& commit) const {
  const std::string path = folder_ + "/refs/main";
  if (read_small_file(path) == commit) return {};
  return write_file_atomically(path, std::as_bytes(std::span(commit)));
}

std::vector<Snapshot> RepoCache::snapshots() const {
  const std::string main(trim(read_small_file(folder_ + "/refs/main")));
  std::vector<fs::path> folders = entries_of(folder_ + "/snapshots");
  const auto age = [&main](const fs::path& folder) {
    std::error_code error;
    const auto time = fs::last_write_time(folder, error);
    return std::pair(folder.filename() == main, error ? fs::file_time_type::min() : time);
  };
  std::stable_sort(folders.begin(), folders.end(), [&age](const auto& a, const auto& b) { return age(a) > age(b); });
  std::vector<Snapshot> out;
  for (const fs::path& folder : folders) {
    Snapshot snapshot{.commit = folder.filename().string()};
    for_each_file(folder, [&](const fs::path& path) {
      std::error_code error;
      const uint64_t n_bytes = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
      if (!error && n_bytes > 0) snapshot.files.push_back({path.lexically_relative(folder).string(), n_bytes, {}});
    });
    if (!snapshot.files.empty()) out.push_back(std::move(snapshot));
  }
  return out;
}

Model RepoCache::model(const std::string& commit, const FileSet& set) const {
  Model model{.name = repo_id_ + ":" + set.quant, .n_bytes = set.n_bytes()};
  for (const RepoFile& file : set.files) model.files.push_back(pointer(commit, file.path));
  return model;
}

Result<Model> find_cached(const Settings& settings, const Name& name, Otherwise otherwise) {
  const RepoCache cache(settings, name);
  for (const Snapshot& snapshot : cache.snapshots())
    if (const auto set = choose(model_sets(snapshot.files), name, otherwise)) return cache.model(snapshot.commit, *set);
  return Error{Code::not_found, fmt::format("the cache does not hold {}; get it with sluice pull", name.repo_id())};
}

Result<std::vector<Model>> list(const Settings& settings) {
  std::map<std::string, Model> found;
  for (const fs::path& folder : entries_of(settings.cache)) {
    const auto name = name_of_folder(folder.filename().string());
    if (!name) continue;
    const RepoCache cache(settings, *name);
    for (const Snapshot& snapshot : cache.snapshots())
      for (const FileSet& set : model_sets(snapshot.files)) {
        Model model = cache.model(snapshot.commit, set);
        found.emplace(model.name, model);
      }
  }
  std::vector<Model> models;
  models.reserve(found.size());
  for (auto& [name, model] : found) models.push_back(std::move(model));
  return models;
}

namespace {

// The blob that a snapshot's link leads to; empty for anything else.
fs::path blob_behind(const fs::path& link, const fs::path& blobs) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(link, error))) return {};
  const fs::path target = fs::canonical(link, error);
  const fs::path folder = fs::canonical(blobs, error);
  return !error && target.parent_path() == folder ? target : fs::path();
}

// Removes the model's files from one snapshot, with folders that are empty then. Gives the blobs that they led to.
Result<std::vector<fs::path>> unlink_files(const RepoCache& cache, const std::string& commit, const FileSet& set,
                                           uint64_t& n_bytes) {
  std::vector<fs::path> blobs;
  for (const RepoFile& file : set.files) {
    const fs::path path = cache.pointer(commit, file.path);
    std::error_code error;
    const bool is_link = fs::is_symlink(fs::symlink_status(path, error));
    if (const fs::path blob = blob_behind(path, cache.blobs()); !blob.empty()) blobs.push_back(blob);
    fs::remove(path, error);
    if (error) return cannot_write(path.string(), error);
    if (!is_link) n_bytes += file.n_bytes;
    for (fs::path folder = path.parent_path(); folder != cache.folder() + "/snapshots"; folder = folder.parent_path())
      if (!fs::remove(folder, error) || error) break;  // only when it is empty
  }
  return blobs;
}

// What is left of a repository without a model: parts of interrupted downloads and empty folders.
uint64_t remove_rest(const RepoCache& cache) {
  std::error_code error;
  uint64_t n_bytes = 0;
  if (!entries_of(cache.folder() + "/snapshots").empty()) return 0;
  for (const fs::path& path : entries_of(cache.blobs())) {
    if (path.extension() != ".incomplete") continue;
    // OID.incomplete, or OID.UNIQUE.incomplete of some versions of the hub's tools.
    const std::string file = path.filename().string();
    const auto lock = FileLock::take(cache.lock(file.substr(0, file.find('.'))), [] { return false; });
    if (!lock) continue;  // another process is at work
    const uint64_t size = fs::file_size(path, error);
    if (fs::remove(path, error)) n_bytes += size;
  }
  for (const char* folder : {"/refs", "/.no_exist"}) fs::remove_all(cache.folder() + folder, error);
  for (const char* folder : {"/blobs", "/snapshots", ""}) fs::remove(cache.folder() + folder, error);
  return n_bytes;
}

// The one model that the user means, over all snapshots.
Result<Name> name_to_remove(const RepoCache& cache, const std::vector<Snapshot>& snapshots, Name name) {
  if (!name.quant.empty()) return name;
  std::set<std::string> quants;
  for (const Snapshot& snapshot : snapshots)
    for (const FileSet& set : model_sets(snapshot.files)) quants.insert(set.quant);
  if (quants.empty())
    return Error{Code::not_found,
                 fmt::format("the cache holds no model of {}; see sluice list", printable(name.repo_id()))};
  if (quants.size() > 1)
    return Error{Code::not_found, fmt::format("{} models of {} are in '{}'; name one of {}:{{{}}}", quants.size(),
                                              name.repo_id(), printable_path(cache.folder()), name.repo_id(),
                                              printable(fmt::format("{}", fmt::join(quants, ", ")), 400))};
  name.quant = *quants.begin();
  return name;
}

}  // namespace

Result<Removed> remove(const Settings& settings, const Name& asked) {
  const RepoCache cache(settings, asked);
  const std::vector<Snapshot> snapshots = cache.snapshots();
  std::error_code error;
  if (snapshots.empty() && asked.quant.empty() && fs::is_directory(cache.folder(), error))
    return Removed{asked.repo_id(), remove_rest(cache)};
  const Name name = TRY(name_to_remove(cache, snapshots, asked));
  Removed removed;
  std::set<fs::path> blobs;
  for (const Snapshot& snapshot : snapshots) {
    const auto set = choose(model_sets(snapshot.files), name, Otherwise::refuse);
    if (!set) continue;
    removed.name = name.repo_id() + ":" + set->quant;
    const auto behind = TRY(unlink_files(cache, snapshot.commit, *set, removed.n_bytes));
    blobs.insert(behind.begin(), behind.end());
  }
  if (removed.name.empty())
    return Error{Code::not_found,
                 fmt::format("the cache holds no {}:{}; see sluice list", name.repo_id(), printable(name.quant, 120))};
  for_each_file(cache.folder() + "/snapshots",
                [&](const fs::path& path) { blobs.erase(blob_behind(path, cache.blobs())); });
  for (const fs::path& blob : blobs) {
    const uint64_t size = fs::file_size(blob, error);
    if (!fs::remove(blob, error) || error) return cannot_write(blob.string(), error);
    removed.n_bytes += size;
  }
  removed.n_bytes += remove_rest(cache);
  return removed;
}

}  // namespace sluice::hub
