#include "support/attention_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(AttnDecode, AttentionCase, attention_cases(KernelId::attn_decode));

}  // namespace
}  // namespace sluice::test
