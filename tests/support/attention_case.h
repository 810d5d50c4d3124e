// Cases of attn_decode and attn_prefill, whose outputs are the same to the bit, and of attn_split with attn_merge.
#pragma once
#include "support/kernel_case.h"

namespace sluice::test {

struct AttentionCase {
  std::string name;
  KernelId id = KernelId::attn_decode;
  Type k_type = Type::F16, v_type = Type::F16;
  uint32_t n_head = 4, n_kv_head = 2, d_k = 64, d_v = 64;
  std::vector<Sequence> sequences = {{.n_tokens = 1}};
  float q_scale = 1.0f;
  uint32_t window = 0;
  float sink = kNaN;  // NaN: none; else that of head 0, half a unit more for each head after it
  bool matrices = false;

  KernelKey key() const {
    const auto of_v = static_cast<uint8_t>(v_type);
    return {id, k_type, Layout::row_major, matrices ? static_cast<uint8_t>(of_v | backend::kMatrixVariant) : of_v};
  }
  std::vector<float> q() const;
  Outputs run(Job& job) const;
  Outputs expected() const;

 private:
  std::vector<float> sinks() const;
  Outputs run_split(Job& job, const Step& step) const;
  // Rows as stored, (n_pages, n_kv_head, kPageTokens); all bits set where no position lies or none that is seen, which
  // reads as NaN in every type.
  std::vector<std::byte> cache(Type type, uint32_t d, uint64_t seed) const;
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

std::vector<AttentionCase> attention_cases(KernelId id);
std::vector<AttentionCase> attention_matrix_cases();

}  // namespace sluice::test
