// Where things lie: this program, its cache, the story model. The environment is read by the caller and passed in.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"

namespace sluice {

inline constexpr std::string_view kStoryFile = "story-q4_0.gguf";

// The running program's file, links resolved.
Result<std::string> executable_path();

// Values of environment variables; empty where unset.
struct CacheSettings {
  std::string sluice_cache;    // SLUICE_CACHE
  std::string xdg_cache_home;  // XDG_CACHE_HOME
  std::string home;            // HOME; the user database is asked where it is empty
};
// The folder for what can be made again; it may not exist yet.
Result<std::string> cache_dir(const CacheSettings& settings);

struct HubCacheSettings {
  std::string hub_cache;       // HF_HUB_CACHE
  std::string hf_home;         // HF_HOME
  std::string xdg_cache_home;  // XDG_CACHE_HOME
  std::string home;            // HOME
};
// The folder in which the hub's tools keep what they download.
Result<std::string> hub_cache_dir(const HubCacheSettings& settings);

// Where the story model may lie for a program at `executable`, best first: installed, in a checkout, beside the
// program.
std::vector<std::string> story_candidates(const std::string& executable);

// The first candidate that exists. `chosen`, unless empty, is taken instead and must exist.
Result<std::string> find_story(const std::string& chosen = {});

}  // namespace sluice
