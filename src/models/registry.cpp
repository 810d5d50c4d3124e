// One row per architecture.
#include <fmt/format.h>

#include "base/text.h"
#include "models/model.h"

namespace sluice::models {

#define SLUICE_ARCHITECTURE(name, create_function) \
  Result<std::unique_ptr<Model>> create_function(Metadata& meta, const Overrides& overrides);
#define SLUICE_ARCHITECTURES                                   \
  SLUICE_ARCHITECTURE("bailingmoe2", create_bailingmoe2)       \
  SLUICE_ARCHITECTURE("deepseek2", create_deepseek2)           \
  SLUICE_ARCHITECTURE("ernie4_5-moe", create_ernie4_5_moe)     \
  SLUICE_ARCHITECTURE("gemma3", create_gemma3)                 \
  SLUICE_ARCHITECTURE("gemma4", create_gemma4)                 \
  SLUICE_ARCHITECTURE("glm4moe", create_glm4moe)               \
  SLUICE_ARCHITECTURE("gpt-oss", create_gpt_oss)               \
  SLUICE_ARCHITECTURE("granite", create_granite)               \
  SLUICE_ARCHITECTURE("granitemoe", create_granitemoe)         \
  SLUICE_ARCHITECTURE("lfm2", create_lfm2)                     \
  SLUICE_ARCHITECTURE("lfm2moe", create_lfm2moe)               \
  SLUICE_ARCHITECTURE("llama", create_llama)                   \
  SLUICE_ARCHITECTURE("minimax-m2", create_minimax_m2)         \
  SLUICE_ARCHITECTURE("nemotron_h_moe", create_nemotron_h_moe) \
  SLUICE_ARCHITECTURE("olmoe", create_olmoe)                   \
  SLUICE_ARCHITECTURE("qwen2", create_qwen2)                   \
  SLUICE_ARCHITECTURE("qwen2moe", create_qwen2moe)             \
  SLUICE_ARCHITECTURE("qwen3", create_qwen3)                   \
  SLUICE_ARCHITECTURE("qwen35moe", create_qwen35moe)           \
  SLUICE_ARCHITECTURE("qwen3moe", create_qwen3moe)             \
  SLUICE_ARCHITECTURE("qwen3next", create_qwen3next)
SLUICE_ARCHITECTURES
#undef SLUICE_ARCHITECTURE

namespace {

struct Row {
  std::string_view name;
  Result<std::unique_ptr<Model>> (*create)(Metadata&, const Overrides&);
};

constexpr Row kRows[] = {
#define SLUICE_ARCHITECTURE(name, create_function) {name, create_function},
    SLUICE_ARCHITECTURES
#undef SLUICE_ARCHITECTURE
};

}  // namespace

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Result<std::unique_ptr<Model>> create(const gguf::File& file, const Overrides& overrides) {
  const std::string architecture = TRY(file.get_string("general.architecture"));
  for (const Row& row : kRows) {
    if (row.name != architecture) continue;
    Metadata meta(file, architecture);
    auto model = TRY(row.create(meta, overrides));
    TRY(meta.check_unread());
    return model;
  }
  std::string known;
  for (const Row& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return Error(Code::unsupported,
               fmt::format("architecture '{}' is not supported; this version runs {}", printable(architecture), known));
}

}  // namespace sluice::models
