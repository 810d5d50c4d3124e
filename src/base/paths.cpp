#include "base/paths.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace sluice {
namespace fs = std::filesystem;

Result<std::string> executable_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) return Error{Code::io, fmt::format("cannot read /proc/self/exe: {}; mount /proc", error.message())};
  // A program that was replaced while it runs: "/path/sluice (deleted)".
  constexpr std::string_view kDeleted = " (deleted)";
  std::string text = path.string();
  if (text.ends_with(kDeleted) && !fs::exists(path, error)) text.resize(text.size() - kDeleted.size());
  return text;
}

namespace {

// `variable` can name the folder that was looked for.
Result<std::string> user_cache(const std::string& xdg_cache_home, std::string home, std::string_view variable) {
  // A relative XDG path must be ignored, says its specification.
  if (xdg_cache_home.starts_with('/')) return xdg_cache_home;
  if (home.empty()) {
    std::string buffer(16384, '\0');
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found && found->pw_dir)
      home = found->pw_dir;
  }
  if (home.empty())
    return Error{Code::not_found, fmt::format("no home folder is known; set {} to a folder for the cache", variable)};
  return home + "/.cache";
}

}  // namespace

Result<std::string> cache_dir(const CacheSettings& settings) {
  if (!settings.sluice_cache.empty()) return settings.sluice_cache;
  return TRY(user_cache(settings.xdg_cache_home, settings.home, "SLUICE_CACHE")) + "/sluice";
}

Result<std::string> hub_cache_dir(const HubCacheSettings& settings) {
  if (!settings.hub_cache.empty()) return settings.hub_cache;
  if (!settings.hf_home.empty()) return settings.hf_home + "/hub";
  return TRY(user_cache(settings.xdg_cache_home, settings.home, "HF_HUB_CACHE")) + "/huggingface/hub";
}

std::vector<std::string> story_candidates(const std::string& executable) {
  const fs::path folder = fs::path(executable).parent_path();
  std::vector<std::string> candidates;
  // PREFIX/bin/sluice, CHECKOUT/build/PRESET/sluice, and an unpacked folder.
  for (const char* place : {"../share/sluice", "../../assets", "."})
    candidates.push_back((folder / place / kStoryFile).lexically_normal().string());
  return candidates;
}

Result<std::string> find_story(const std::string& chosen) {
  std::error_code error;
  if (!chosen.empty()) {
    if (fs::is_regular_file(chosen, error)) return chosen;
    return Error{Code::not_found,
                 fmt::format("there is no story model at {}; name a GGUF file", printable_path(chosen))};
  }
  const std::string executable = TRY(executable_path());
  const auto candidates = story_candidates(executable);
  for (const std::string& path : candidates)
    if (fs::is_regular_file(path, error)) return path;
  return Error{Code::not_found,
               fmt::format("the story model {} is not installed (looked in {}); name a model with -m FILE", kStoryFile,
                           printable_path(fs::path(candidates[0]).parent_path().string()))};
}

}  // namespace sluice
