// The hub's cache on disk: models--OWNER--REPO/{blobs/OID, refs/main, snapshots/COMMIT/FILE -> ../../blobs/OID}.
#pragma once
#include <string>
#include <vector>

#include "hub/names.h"

namespace sluice::hub {

struct Snapshot {
  std::string commit;
  std::vector<RepoFile> files;  // whole ones, with paths inside the snapshot
};

class RepoCache {
 public:
  RepoCache(const Settings& settings, const Name& name);

  const std::string& folder() const { return folder_; }
  std::string blobs() const { return folder_ + "/blobs"; }
  std::string blob(const std::string& oid) const { return blobs() + "/" + oid; }
  std::string lock(const std::string& oid) const { return locks_ + "/" + oid + ".lock"; }
  std::string pointer(const std::string& commit, const std::string& path) const;

  // The folders that a download needs.
  Result<void> make_folders() const;
  // Makes a blob appear in a snapshot; where the file system has no links it is moved there.
  Result<void> link(const std::string& commit, const RepoFile& file) const;
  Result<void> write_main(const std::string& commit) const;

  // That of refs/main first, then the others by age, youngest first.
  std::vector<Snapshot> snapshots() const;
  Model model(const std::string& commit, const FileSet& set) const;

 private:
  std::string folder_, locks_, repo_id_;
};

// `not_found` where the cache does not hold it; see choose().
Result<Model> find_cached(const Settings& settings, const Name& name, Otherwise otherwise);

}  // namespace sluice::hub
