#include "support/attention_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(AttnSplit, AttentionCase, attention_cases(KernelId::attn_split));

// A token alone gives the bits it gives among others, whatever the room for ranges.
TEST(AttnSplit, does_not_depend_on_company) {
  AttentionCase alone{.id = KernelId::attn_split, .sequences = {{.n_tokens = 1}}};
  AttentionCase together = alone;
  together.sequences = {{.n_tokens = 1}, {.n_tokens = 1, .first_pos = 300}};
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(alone.key())) continue;
    SCOPED_TRACE(subject.name);
    Job one(*subject.device), other(*subject.device);
    const std::vector<double> first = alone.run(one)[0].reals;
    std::vector<double> all = together.run(other)[0].reals;
    all.resize(first.size());
    ASSERT_EQ(first, all);
  }
}

}  // namespace
}  // namespace sluice::test
