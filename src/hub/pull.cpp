#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/partial_file.h"
#include "base/text.h"
#include "hub/remote.h"

namespace sluice::hub {
namespace {

void tell(const Listener& listener, const std::string& line) {
  if (listener.on_note) listener.on_note(line);
}

bool has_size(const std::string& path, uint64_t n_bytes) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == n_bytes && !error;
}

class Pull {
 public:
  Pull(const Settings& settings, const Name& name, const Listener& listener)
      : settings_(settings), cache_(settings, name), listener_(listener) {}

  Result<void> run(Remote& remote, const std::string& commit, const FileSet& set) {
    const bool complete =
        std::all_of(set.files.begin(), set.files.end(), [&](const RepoFile& file) { return is_there(commit, file); });
    if (!complete) TRY(make_room(commit, set));
    Meter meter{.listener = listener_, .total = set.n_bytes()};
    for (const RepoFile& file : set.files) {
      if (!is_there(commit, file)) TRY(fetch(remote, commit, file, meter));
      meter.before += file.n_bytes;
    }
    // A cache that cannot be written to may hold everything already.
    const auto written = cache_.write_main(commit);
    if (!written && !complete) return written.error();
    return {};
  }

 private:
  bool is_there(const std::string& commit, const RepoFile& file) const {
    return has_size(cache_.pointer(commit, file.path), file.n_bytes);
  }
  uint64_t partial_bytes(const RepoFile& file) const {
    std::error_code error;
    for (const std::string& path : {cache_.blob(file.oid), cache_.blob(file.oid) + ".incomplete"})
      if (const uint64_t size = std::filesystem::file_size(path, error); !error) return size;
    return 0;
  }

  Result<void> make_room(const std::string& commit, const FileSet& set) const {
    TRY(cache_.make_folders());
    uint64_t needed = 0;
    for (const RepoFile& file : set.files)
      if (!is_there(commit, file)) needed += file.n_bytes - std::min(file.n_bytes, partial_bytes(file));
    const uint64_t free = free_space(cache_.folder());
    if (free >= needed) return {};
    return Error{Code::io,
                 fmt::format("the download needs {} more in '{}', where {} are free; free some space or set "
                             "HF_HUB_CACHE to a folder on another disk",
                             bytes_text(double(needed)), printable_path(settings_.cache), bytes_text(double(free)))};
  }

  Result<void> fetch(Remote& remote, const std::string& commit, const RepoFile& file, const Meter& meter) {
    bool told = false;
    const FileLock lock = TRY(FileLock::take(cache_.lock(file.oid), [&] {
      if (!told) tell(listener_, "another process is downloading " + printable(file.path, 200) + "; waiting for it");
      told = true;
      return meter.show(0);
    }));
    // Another revision, another program or the process that held the lock may have brought it.
    if (!has_size(cache_.blob(file.oid), file.n_bytes)) TRY(remote.fetch(file, commit, cache_.blob(file.oid), meter));
    return cache_.link(commit, file);
  }

  const Settings& settings_;
  RepoCache cache_;
  const Listener& listener_;
};

// `newest` false: an older revision in the cache will do.
Result<Model> get(const Settings& settings, const Name& name, const Listener& listener, bool newest) {
  Result<Remote> remote = Remote::connect(settings, name, listener);
  Result<Repository> repository = remote ? remote->read() : Result<Repository>(remote.error());
  if (!repository) {
    if (repository.error().code != Code::io && repository.error().code != Code::unsupported) return repository.error();
    auto cached = find_cached(settings, name, Otherwise::nearest);
    if (!cached) return repository.error();
    const std::string& why = repository.error().message;
    tell(listener, fmt::format("{}: taking {} as the cache has it", why.substr(0, why.find(';')), cached->name));
    return cached;
  }
  const FileSet set = TRY(choose(model_sets(repository->files), name, Otherwise::nearest));
  if (name.quant.empty() && set.quant != kDefaultQuant)
    tell(listener, fmt::format("{} has no {}: taking {}", name.repo_id(), kDefaultQuant, printable(set.quant, 200)));
  if (!newest) {
    auto cached = find_cached(settings, {name.owner, name.repo, set.quant}, Otherwise::refuse);
    if (cached) return cached;
  }
  Pull work(settings, name, listener);
  TRY(work.run(*remote, repository->commit, set));
  return RepoCache(settings, name).model(repository->commit, set);
}

}  // namespace

Result<Model> pull(const Settings& settings, const Name& name, const Listener& listener) {
  return get(settings, name, listener, true);
}

Result<Model> find_or_pull(const Settings& settings, const Name& name, const Listener& listener) {
  if (auto cached = find_cached(settings, name, Otherwise::refuse)) return cached;
  return get(settings, name, listener, false);
}

}  // namespace sluice::hub
