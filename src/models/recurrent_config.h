// Sizes of recurrent layers, from metadata that several architectures name alike.
#pragma once
#include "models/model.h"
#include "ops/recurrent.h"

namespace sluice::models {

// ssm.state_size, ssm.group_count, ssm.time_step_rank, ssm.inner_size and ssm.conv_kernel, checked against each other.
Result<ops::DeltaNetShape> read_delta_net(Metadata& meta, const Config& config);
Result<ops::MambaShape> read_mamba(Metadata& meta, const Config& config);

// What such a layer keeps for a sequence.
template <class Shape>
std::vector<StateRing> state_rings(const Shape& shape) {
  return {{shape.n_taps - 1, shape.n_conv()}, {1, static_cast<uint32_t>(shape.state_floats())}};
}

}  // namespace sluice::models
