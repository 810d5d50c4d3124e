#include "cli/output_files.h"

#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// The parts of a split set count from 1.
std::string part_path(const std::string& stem, uint32_t no, uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, no, count);
}

bool same_file(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  // Files that are not there yet.
  const fs::path first = fs::weakly_canonical(fs::absolute(a, error), error);
  if (error) return false;
  const fs::path second = fs::weakly_canonical(fs::absolute(b, error), error);
  return !error && first == second;
}

}  // namespace

Strings model_files(const std::string& path) {
  constexpr std::string_view kForm = "-00001-of-00003.gguf";
  if (path.size() <= kForm.size()) return {path};
  const std::string stem = path.substr(0, path.size() - kForm.size());
  const std::string_view suffix = std::string_view(path).substr(stem.size());
  const auto no = parse_number<uint32_t>("", suffix.substr(1, 5), 1, 99999);
  const auto count = parse_number<uint32_t>("", suffix.substr(10, 5), 1, 99999);
  if (!no || !count || *no > *count || part_path(stem, *no, *count) != path) return {path};
  Strings files;
  for (uint32_t i = 1; i <= *count; ++i) files.push_back(part_path(stem, i, *count));
  return files;
}

Result<void> check_outputs(const Strings& inputs, const std::vector<OutputFile>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    if (output.path.empty()) continue;
    for (const std::string& input : inputs)
      if (!input.empty() && same_file(input == "-" ? "/dev/stdin" : input, output.path))
        return usage_error(fmt::format("{} {} is input and output; give the output another name", output.option,
                                       printable_path(output.path)));
    for (size_t k = 0; k < i; ++k)
      if (same_file(outputs[k].path, output.path) && !outputs[k].path.empty())
        return usage_error(fmt::format("{} and {} name the same file, {}; give each output a name of its own",
                                       outputs[k].option, output.option, printable_path(output.path)));
  }
  return {};
}

}  // namespace sluice::cli
