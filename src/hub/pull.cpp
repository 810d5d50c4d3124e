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
    uint64_t missing = 0;
    for (const RepoFile& file : set.files)
      if (!is_there(commit, file)) missing += file.n_bytes - std::min(file.n_bytes, partial_bytes(file));
    if (missing > 0) TRY(check_space(missing));
    Meter meter{.listener = listener_, .total = set.n_bytes()};
    for (const RepoFile& file : set.files) {
      if (!is_there(commit, file)) TRY(fetch(remote, commit, file, meter));
      meter.before += file.n_bytes;
    }
    // A cache that cannot be written to may hold everything already.
    const auto written = cache_.write_main(commit);
    if (!written && missing > 0) return written.error();
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

  Result<void> check_space(uint64_t needed) const {
    TRY(cache_.make_folders());
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

}  // namespace

Result<Model> pull(const Settings& settings, const Name& name, const Listener& listener) {
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
  Pull work(settings, name, listener);
  TRY(work.run(*remote, repository->commit, set));
  const Model model = RepoCache(settings, name).model(repository->commit, set);
  if (name.quant.empty() && set.quant != kDefaultQuant)
    tell(listener, fmt::format("{} has no {}: took {}", name.repo_id(), kDefaultQuant, printable(set.quant, 200)));
  return model;
}

Result<Model> find_or_pull(const Settings& settings, const Name& name, const Listener& listener) {
  if (auto cached = find_cached(settings, name, Otherwise::refuse)) return cached;
  return pull(settings, name, listener);
}

}  // namespace sluice::hub
