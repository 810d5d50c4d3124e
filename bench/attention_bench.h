#pragma once

namespace sluice::bench {

void register_attention();

}  // namespace sluice::bench
