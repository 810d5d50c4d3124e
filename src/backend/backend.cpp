#include "backend/backend.h"

namespace sluice::backend {

std::string_view stage_name(Stage stage) {
  constexpr std::string_view kNames[kStages] = {"gate", "experts", "attention", "convolution", "head", "rest"};
  return kNames[static_cast<size_t>(stage)];
}

}  // namespace sluice::backend
