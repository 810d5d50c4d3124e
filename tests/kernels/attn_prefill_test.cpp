#include "support/attention_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(AttnPrefill, AttentionCase, attention_cases(KernelId::attn_prefill));
SLUICE_MATRIX_CASES(AttnPrefillMatrix, AttentionCase, attention_matrix_cases());

TEST(AttnPrefill, equals_attn_decode) {
  for (const AttentionCase& prefill : attention_cases(KernelId::attn_prefill)) {
    AttentionCase decode = prefill;
    decode.id = KernelId::attn_decode;
    for (const Subject& subject : subjects()) {
      if (!subject.device->has(prefill.key()) || !subject.device->has(decode.key())) continue;
      SCOPED_TRACE(subject.name + ", " + prefill.name);
      Job one(*subject.device), other(*subject.device);
      ASSERT_EQ(prefill.run(one)[0].reals, decode.run(other)[0].reals);
    }
  }
}

// A token alone gives the bits it gives among others.
TEST(AttnPrefill, does_not_depend_on_company) {
  AttentionCase together{.id = KernelId::attn_prefill, .sequences = {{.n_tokens = 100}}};
  const size_t row = size_t{together.n_head} * together.d_v;
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(together.key())) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    const std::vector<double> all = together.run(job)[0].reals;
    // The same keys and values, since they are drawn position by position; q of the last tokens differs, so token 0
    // only.
    AttentionCase alone = together;
    alone.sequences = {{.n_tokens = 1}};
    Job other(*subject.device);
    const std::vector<double> first = alone.run(other)[0].reals;
    ASSERT_EQ(first, std::vector<double>(all.begin(), all.begin() + row));
  }
}

}  // namespace
}  // namespace sluice::test
