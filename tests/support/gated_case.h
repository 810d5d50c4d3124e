// Cases of gate_up and moe_gate_up: the truth in f64, and the chain of the kernels that they stand for, to the bit.
#pragma once
#include "support/matmul_case.h"

namespace sluice::test {

struct GatedCase {
  std::string name;
  KernelId id = KernelId::gate_up;
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint32_t m = 32, k = 256, n_tokens = 1;
  bool q8 = false;                    // y in 8 bits
  uint32_t n_expert = 1, n_used = 1;  // of moe_gate_up
  Route route = Route::spread;
  bool grouped = false;  // bucketed by moe_group
  bool absent = false;   // the expert of entry 0 has address 0
  float x_scale = 1.0f;

  KernelKey key() const { return {id, type, layout, 0}; }
  uint32_t n_entries() const { return n_tokens * n_used; }
  Outputs run(Job& job) const;
  Outputs expected() const;
  // run()'s bytes of y, and those of both products and swiglu.
  std::vector<std::byte> fused(Job& job) const;
  std::vector<std::byte> chained(Job& job) const;

 private:
  std::vector<uint> sel_expert() const;
  std::vector<float> x() const;
  // Addresses of the experts' matrices: 0 gate, 1 up.
  std::vector<uint64_t> addresses(Job& job, int which) const;
  size_t y_bytes() const;
  DevPtr<uint> launch(Job& job) const;
};

std::vector<Group<GatedCase>> gated_cases(KernelId id);
void expect_equals_chain(KernelId id);

}  // namespace sluice::test
