#include "backend/cpu/phases.h"

#include <gtest/gtest.h>

#include "kernels/all_contracts.h"

namespace sluice::backend::cpu {
namespace {

Launch norm(uint32_t n_rows, uint32_t n) {
  kernels::RmsNormArgs args{};
  args.n = n;
  return Launch::of({.id = KernelId::rms_norm}, args, {1, n_rows, 1}, Stage::rest);
}
Launch product(uint32_t m, uint32_t k, bool overlaps_previous = false) {
  kernels::GemvArgs args{};
  args.m = m;
  args.k = k;
  Launch launch = Launch::of({.id = KernelId::gemv}, args, {m, 1, 1}, Stage::rest);
  launch.overlaps_previous = overlaps_previous;
  return launch;
}
Launch attention() {
  return Launch::of({.id = KernelId::attn_decode}, kernels::AttnDecodeArgs{}, {1, 1, 1}, Stage::rest);
}

std::string describe(const std::vector<Launch>& launches) {
  std::string text;
  for (const Phase& p : phases_of(launches)) {
    text += p.alone ? 'a' : 's';
    text += std::to_string(p.first) + "-" + std::to_string(p.end) + " ";
  }
  return text;
}

TEST(Phases, SmallLaunchesInARowAreOnePhaseOfOneThread) {
  EXPECT_EQ(describe({norm(1, 384), product(16, 384), norm(1, 384), product(1152, 384), norm(1, 384)}),
            "a0-3 s3-4 a4-5 ");
}

TEST(Phases, LargeLaunchesAreShared) {
  EXPECT_EQ(describe({norm(512, 384), norm(64, 2048), product(2048, 2048)}), "s0-1 s1-2 s2-3 ");
}

// Whether attention is small depends on the cache's length.
TEST(Phases, AttentionIsShared) { EXPECT_EQ(describe({attention(), attention()}), "s0-1 s1-2 "); }

TEST(Phases, OverlappingLaunchesStayTogether) {
  EXPECT_EQ(describe({product(16, 64), product(16, 64, true), product(2048, 512), product(16, 64, true)}),
            "a0-2 s2-4 ");
}

TEST(Phases, Empty) { EXPECT_EQ(describe({}), ""); }

}  // namespace
}  // namespace sluice::backend::cpu
