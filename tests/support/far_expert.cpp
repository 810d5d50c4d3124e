#include "support/far_expert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#endif

#include "support/matmul_case.h"

namespace sluice::test {

#if defined(__unix__) || defined(__APPLE__)
SparseMemory::SparseMemory(size_t n_bytes) : n_bytes_(n_bytes) {
  void* p = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED) data_ = static_cast<std::byte*>(p);
}
SparseMemory::~SparseMemory() {
  if (data_ != nullptr) munmap(data_, n_bytes_);
}
#else
SparseMemory::SparseMemory(size_t n_bytes) : n_bytes_(n_bytes) {}
SparseMemory::~SparseMemory() = default;
#endif

void expect_far_expert(KernelId id) {
  constexpr uint64_t kFar = (uint64_t{4} << 30) + (uint64_t{96} << 20);
  constexpr uint32_t kM = 17, kK = 512;
  const SparseMemory stack(kFar + (1 << 20));
  if (stack.data() == nullptr) GTEST_SKIP() << "no address space";
  for (const auto& [type, layout] : weight_kinds()) {
    const std::vector<Weights>& experts = expert_weights(type, layout, kM, kK, 2);
    std::memcpy(stack.data() + static_cast<uint32_t>(kFar), experts[0].bytes.data(), experts[0].bytes.size());
    std::memcpy(stack.data() + kFar, experts[1].bytes.data(), experts[1].bytes.size());
    const std::vector<uint64_t> addresses = {reinterpret_cast<uint64_t>(stack.data()),
                                             reinterpret_cast<uint64_t>(stack.data() + kFar)};
    // One column of the weights, 127-fold: an input that 8 bits hold exactly.
    std::vector<float> x(kK, 0.0f);
    x[300] = 127.0f;
    for (const Subject& subject : subjects()) {
      const KernelKey key{id, type, layout, 0};
      if (!subject.host_memory || !subject.device->has(key)) continue;
      SCOPED_TRACE(subject.name + ", " + std::string(type_info(type).name));
      Job job(*subject.device);
      const DevPtr<float> y = job.out<float>(kM);
      const DevPtr<uint> device_x = upload_x(job, layout, x, kK);
      const DevPtr<kernels::StepState> step = job.step(make_step(1));
      if (id == KernelId::moe_gemv) {
        job.launch(key,
                   kernels::MoeGemvArgs{.y = y,
                                        .x = device_x,
                                        .expert_addr = job.in(addresses),
                                        .sel_expert = job.in(std::vector<uint>{1}),
                                        .step = step,
                                        .m = kM,
                                        .k = kK,
                                        .n_used = 1,
                                        .n_expert = 2,
                                        .x_by_entry = 0},
                   {ceil_div(kM, 8), 1, 1});
      } else {
        const std::vector<uint> one = {1};
        const Grouped g = group_entries(one, 2, 16);
        job.launch(key,
                   kernels::MoeGemmArgs{.y = y,
                                        .x = device_x,
                                        .expert_addr = job.in(addresses),
                                        .offsets = job.in(g.offsets),
                                        .order = job.in(g.order),
                                        .tiles = job.in(g.tiles),
                                        .grid = job.in(std::vector<uint>{2, 1, 1}),
                                        .step = step,
                                        .m = kM,
                                        .k = kK,
                                        .n_used = 1,
                                        .n_expert = 2,
                                        .x_by_entry = 0,
                                        .tile_entries = 16},
                   {2, 1, 1});
      }
      const std::vector<float> got = job.read(y, kM);
      // Panels with a minimum sum two terms of either sign, each as large as weights can be.
      const bool of_two = layout == Layout::panel16 &&
                          (type == Type::Q4_1 || type == Type::Q5_1 || type == Type::Q4_K || type == Type::Q5_K);
      float largest = 0.0f;
      for (uint32_t r = 0; r < kM; ++r)
        largest = std::max(largest, 127.0f * std::fabs(experts[1].values[r * kK + 300]));
      for (uint32_t r = 0; r < kM; ++r) {
        const float expected = 127.0f * experts[1].values[r * kK + 300];
        ASSERT_NEAR(got[r], expected, 1e-6f * (of_two ? largest : std::fabs(expected)));
      }
    }
  }
}

}  // namespace sluice::test
