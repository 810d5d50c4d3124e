// Every type of the list.
#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

#include "quant/quant.h"
#include "sluice/type.h"

namespace sluice::test {

inline constexpr Type kAllTypes[] = {
#define SLUICE_TYPE(name, id, block, bytes, header) Type::name,
#include "sluice/types.inc"
#undef SLUICE_TYPE
};

// Types of which every case is run. The others differ from them in nothing but how a row is read.
inline constexpr Type kFullTypes[] = {Type::F32, Type::F16, Type::BF16, Type::Q4_0, Type::Q8_0, Type::Q6_K};

// Such types are read alone and rarely used.
inline bool is_read_only(Type type) { return quant::codec(type).quantize == nullptr; }

// Whether a kernel of tiles, slow to compile, is run for the type: of those that are only read, for every third.
inline bool has_tile_cases(Type type) { return !is_read_only(type) || static_cast<uint32_t>(type) % 3 == 2; }

// Of each other type a third of the cases, so that together they meet all; of those that are only read, one.
template <class Case>
void thin_out(std::vector<Case>& cases, Type type) {
  if (std::find(std::begin(kFullTypes), std::end(kFullTypes), type) != std::end(kFullTypes)) return;
  std::vector<Case> kept;
  for (size_t i = static_cast<uint32_t>(type) % 3; i < cases.size(); i += 3) kept.push_back(cases[i]);
  if (is_read_only(type) && kept.size() > 1) kept.resize(1);
  cases = kept;
}

}  // namespace sluice::test
