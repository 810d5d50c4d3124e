#include "models/recurrent_config.h"

#include <fmt/format.h>

namespace sluice::models {
namespace {

// These keep the products below within 32 bits.
constexpr uint32_t kMostHeads = 1024, kMostSize = 1024, kMostTaps = 64;

Result<uint32_t> size_of(Metadata& meta, std::string_view key, uint32_t most, uint32_t least = 1) {
  const uint32_t value = TRY(meta.count(key));
  if (value >= least && value <= most) return value;
  return Error(Code::unsupported, fmt::format("metadata '{}.{}' is {}, and {} to {} are supported; use another model",
                                              meta.architecture(), key, value, least, most));
}

Error mismatch(std::string_view what) {
  return {Code::corrupt_file, fmt::format("metadata of the recurrent layers: {}; download the file again", what)};
}

}  // namespace

Result<ops::DeltaNetShape> read_delta_net(Metadata& meta, const Config& config) {
  ops::DeltaNetShape shape;
  shape.size = TRY(size_of(meta, "ssm.state_size", kMostSize));
  shape.n_key = TRY(size_of(meta, "ssm.group_count", kMostHeads));
  shape.n_value = TRY(size_of(meta, "ssm.time_step_rank", kMostHeads));
  shape.n_taps = TRY(size_of(meta, "ssm.conv_kernel", kMostTaps, 2));
  shape.eps = config.eps;
  if (shape.n_value % shape.n_key != 0)
    return mismatch(fmt::format("{} value heads cannot share {} key heads", shape.n_value, shape.n_key));
  if (TRY(meta.count("ssm.inner_size")) != shape.n_value * shape.size)
    return mismatch(fmt::format("ssm.inner_size is not that of {} heads of {}", shape.n_value, shape.size));
  return shape;
}

Result<ops::MambaShape> read_mamba(Metadata& meta, const Config& config) {
  ops::MambaShape shape;
  const uint32_t n_inner = TRY(meta.count("ssm.inner_size"));
  shape.n_head = TRY(size_of(meta, "ssm.time_step_rank", kMostHeads));
  shape.n_group = TRY(size_of(meta, "ssm.group_count", kMostHeads));
  shape.n_state = TRY(size_of(meta, "ssm.state_size", kMostSize));
  shape.n_taps = TRY(size_of(meta, "ssm.conv_kernel", kMostTaps, 2));
  shape.size = n_inner / shape.n_head;
  shape.eps = config.eps;
  if (n_inner % shape.n_head != 0 || shape.size > kMostSize || shape.n_head % shape.n_group != 0)
    return mismatch(fmt::format("{} heads in {} groups do not divide {}", shape.n_head, shape.n_group, n_inner));
  return shape;
}

}  // namespace sluice::models
