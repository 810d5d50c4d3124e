#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/text.h"

namespace sluice::hub {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// The hub's own rule for owners and repositories; "--" separates them in the cache.
bool valid_part(std::string_view part) {
  const auto good = [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; };
  return !part.empty() && part.size() <= 96 && std::all_of(part.begin(), part.end(), good) &&
         std::string_view("-.").find(part.front()) == std::string_view::npos &&
         std::string_view("-.").find(part.back()) == std::string_view::npos &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

// "Q4_K_M", "IQ4_XS", "TQ1_0", "BF16", "MXFP4_MOE": a type as file names have it, in capitals.
bool is_quant(std::string_view word) {
  for (const std::string_view whole : {"F16", "F32", "BF16", "MXFP4", "MXFP4_MOE", "NVFP4"})
    if (word == whole) return true;
  if (word.starts_with('I') || word.starts_with('T')) word.remove_prefix(1);
  if (word.size() < 2 || word[0] != 'Q' || !is_digit(word[1])) return false;
  return word.size() == 2 || (word[2] == '_' && word.size() > 3);
}

// "-00001-of-00003" at the end of a stem.
struct Part {
  std::string_view stem;
  uint32_t idx = 1, n = 1;
};
Part part_of(std::string_view stem) {
  constexpr size_t kLength = 15;
  const auto number = [](std::string_view digits) {
    uint32_t value = 0;
    for (const char c : digits) value = value * 10 + static_cast<uint32_t>(c - '0');
    return value;
  };
  if (stem.size() <= kLength) return {stem};
  const std::string_view tail = stem.substr(stem.size() - kLength);
  const std::string_view idx = tail.substr(1, 5), n = tail.substr(10);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !std::all_of(idx.begin(), idx.end(), is_digit) ||
      !std::all_of(n.begin(), n.end(), is_digit))
    return {stem};
  return {stem.substr(0, stem.size() - kLength), number(idx), number(n)};
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view without_ending(std::string_view path) { return path.substr(0, path.rfind('.')); }

bool is_model_file(std::string_view path) {
  const std::string name = upper(base_name(path));
  return name.ends_with(".GGUF") && name.size() > 5 && name.find("MMPROJ") == std::string::npos &&
         name.find("IMATRIX") == std::string::npos;
}

std::string names_text(const std::vector<FileSet>& sets) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(sets.size(), 40); ++i)
    text += (i == 0 ? "" : ", ") + printable(sets[i].quant, 120);
  return text + (sets.size() > 40 ? ", ..." : "");
}

// What is taken where there is no Q4_K_M: first types of about its size, then better ones, then smaller ones.
constexpr std::string_view kNearest[] = {"UD-Q4_K_M", "UD-Q4_K_XL", "Q4_K_L",    "Q4_K_XL", "Q4_K_S", "Q4_0",
                                         "Q4_1",      "MXFP4",      "MXFP4_MOE", "IQ4_XS",  "IQ4_NL", "Q5_K_M",
                                         "Q5_K_S",    "Q5_0",       "Q6_K",      "Q8_0",    "Q3_K_L", "Q3_K_M",
                                         "Q3_K_S",    "BF16",       "F16",       "Q2_K",    "F32"};

}  // namespace

bool safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.find('\\') != std::string_view::npos) return false;
  for (size_t at = 0; at < path.size();) {
    char32_t code = 0;
    const size_t length = utf8_length(path, at, &code);
    if (length == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
    at += length;
  }
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    at = end + 1;
  }
  return true;
}

bool is_hex(std::string_view text, size_t n_digits, size_t or_n_digits) {
  const auto digit = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  return (text.size() == n_digits || (or_n_digits != 0 && text.size() == or_n_digits)) &&
         std::all_of(text.begin(), text.end(), digit);
}

Result<Name> parse_name(std::string_view text) {
  const auto wrong = [whole = text](std::string_view what) {
    return Error{Code::invalid_argument,
                 fmt::format("'{}' {}; write OWNER/REPO or OWNER/REPO:QUANT", printable(whole, 200), what)};
  };
  std::string_view rest = text;
  for (const std::string_view prefix : {"hf:", "https://", "huggingface.co/", "hf.co/"})
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  Name name;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    name.quant = rest.substr(colon + 1);
    if (!safe_path(name.quant)) return wrong("names no quantisation after the colon");
    rest = rest.substr(0, colon);
  }
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return wrong("is no repository of the hub");
  name.owner = rest.substr(0, slash);
  name.repo = rest.substr(slash + 1);
  if (!valid_part(name.owner) || !valid_part(name.repo)) return wrong("is no repository of the hub");
  return name;
}

std::string quant_of(std::string_view path) {
  // Words from the last to the first; a folder's name may tell what the file's does not.
  std::string left = upper(part_of(without_ending(path)).stem);
  while (!left.empty()) {
    const size_t cut = left.find_last_of("-./");
    const std::string word = left.substr(cut == std::string::npos ? 0 : cut + 1);
    left.resize(cut == std::string::npos ? 0 : cut);
    for (size_t at = 0; at != std::string::npos && at < word.size();) {
      const std::string tail = word.substr(at);
      if (is_quant(tail)) {
        const bool dynamic = at == 0 && (left == "UD" || left.ends_with("-UD") || left.ends_with("/UD"));
        return dynamic ? "UD-" + tail : tail;
      }
      at = word.find('_', at);
      if (at != std::string::npos) ++at;
    }
  }
  return {};
}

uint64_t FileSet::n_bytes() const {
  uint64_t sum = 0;
  for (const RepoFile& f : files) sum += f.n_bytes;
  return sum;
}

std::vector<FileSet> model_sets(const std::vector<RepoFile>& files) {
  struct Parts {
    uint32_t n = 1;
    std::map<uint32_t, RepoFile> of;
  };
  std::map<std::string, Parts> found;
  for (const RepoFile& file : files) {
    if (!is_model_file(file.path)) continue;
    const Part part = part_of(without_ending(file.path));
    Parts& parts = found[fmt::format("{}/{}", part.stem, part.n)];
    parts.n = part.n;
    parts.of.emplace(part.idx, file);
  }
  std::vector<FileSet> sets;
  std::map<std::string, uint32_t> uses;
  for (auto& [key, parts] : found) {
    const bool whole =
        parts.of.size() == parts.n && parts.of.begin()->first == 1 && parts.of.rbegin()->first == parts.n;
    if (!whole) continue;
    FileSet set{.quant = quant_of(parts.of.begin()->second.path)};
    for (auto& [idx, file] : parts.of) set.files.push_back(std::move(file));
    ++uses[set.quant];
    sets.push_back(std::move(set));
  }
  for (FileSet& set : sets)
    if (set.quant.empty() || uses[set.quant] > 1) set.quant = set.files[0].path;
  return sets;
}

Result<FileSet> choose(const std::vector<FileSet>& sets, const Name& name, Otherwise otherwise) {
  if (sets.empty())
    return Error{Code::not_found, fmt::format("{} holds no whole GGUF model; look for a repository whose name ends in "
                                              "-GGUF",
                                              name.repo_id())};
  const auto with_quant = [&sets](std::string_view quant) -> const FileSet* {
    for (const FileSet& set : sets)
      if (upper(set.quant) == upper(quant) || set.files[0].path == quant || base_name(set.files[0].path) == quant)
        return &set;
    return nullptr;
  };
  const std::string wanted = name.quant.empty() ? std::string(kDefaultQuant) : name.quant;
  if (const FileSet* set = with_quant(wanted)) return *set;
  if (const FileSet* set = with_quant("UD-" + wanted); set != nullptr && !name.quant.empty()) return *set;
  if (name.quant.empty() && otherwise == Otherwise::nearest) {
    if (sets.size() == 1) return sets[0];
    for (const std::string_view quant : kNearest)
      if (const FileSet* set = with_quant(quant)) return *set;
  }
  return Error{Code::not_found,
               fmt::format("{} has no {}; it has: {}", name.repo_id(), printable(wanted, 120), names_text(sets))};
}

}  // namespace sluice::hub
