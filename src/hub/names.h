// Names that come from users and from the hub: repositories, files, and the models that a repository's files make up.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sluice/hub.h"

namespace sluice::hub {

struct RepoFile {
  std::string path;  // inside the repository
  uint64_t n_bytes = 0;
  std::string oid;  // SHA-256, or the git id of a small file; empty for a file in the cache
};

// A path that stays inside the folder it is put into: relative, no "..", no control characters.
bool safe_path(std::string_view path);
// Hexadecimal digits of one of these lengths.
bool is_hex(std::string_view text, size_t n_digits, size_t or_n_digits = 0);

// "Q4_K_M" of ".../Some-Model-Q4_K_M-00001-of-00002.gguf"; empty where the name tells none.
std::string quant_of(std::string_view path);

// A model: one file, or all parts of a split one in order.
struct FileSet {
  std::string quant;  // or the first file's path, where that alone tells it from the others
  std::vector<RepoFile> files;
  uint64_t n_bytes() const;
};
// The models among a repository's files, without projectors (mmproj), importance matrices and incomplete sets.
std::vector<FileSet> model_sets(const std::vector<RepoFile>& files);

inline constexpr std::string_view kDefaultQuant = "Q4_K_M";
enum class Otherwise { refuse, nearest };
// The set that `name` means. Without a quant: Q4_K_M, and with `nearest` the only set, or that of the nearest type.
Result<FileSet> choose(const std::vector<FileSet>& sets, const Name& name, Otherwise otherwise);

}  // namespace sluice::hub
