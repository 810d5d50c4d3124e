// Files that a command writes: none may be one that it reads, and each must be another one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cli/args.h"

namespace sluice::cli {

// The file, and where its name is that of a part of a split set (NAME-00001-of-00003.gguf) all the others.
Strings model_files(const std::string& path);

struct OutputFile {
  std::string_view option;
  std::string path;  // empty: not asked for
};
// A usage error where an output is one of `inputs`, the input of stdin or another output, whatever its name. Called
// before anything is read.
Result<void> check_outputs(const Strings& inputs, const std::vector<OutputFile>& outputs);

}  // namespace sluice::cli
