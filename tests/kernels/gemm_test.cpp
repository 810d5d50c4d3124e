#include "support/matmul_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(Gemm, Group<MatmulCase>, matmul_cases(KernelId::gemm));
SLUICE_MATRIX_CASES(GemmMatrix, Group<MatmulCase>, matrix_cases());

// A row's bits do not depend on the rows beside it, nor on which of the two kernels computes it.
TEST(Gemm, each_row_equals_its_gemv) {
  constexpr uint32_t kM = 33, kK = 512, kRows = 37;
  for (const auto& kind : weight_kinds()) {
    const Type type = kind.first;
    const Layout layout = kind.second;
    const KernelKey gemm{KernelId::gemm, type, layout, 0}, gemv{KernelId::gemv, type, layout, 0};
    Random random(1);
    const std::vector<float> x = random.normals(size_t{kRows} * kK);
    const Weights& w = expert_weights(type, layout, kM, kK, 1)[0];
    for (const Subject& subject : subjects()) {
      if (!subject.device->has(gemm) || !subject.device->has(gemv)) continue;
      SCOPED_TRACE(subject.name + ", " + std::string(type_info(type).name));
      Job job(*subject.device);
      const auto product = [&](const KernelKey& key, size_t first, uint32_t n) {
        const kernels::GemvArgs args{.y = job.out<float>(size_t{n} * kM),
                                     .x = upload_x(job, layout, std::span(x).subspan(first * kK, size_t{n} * kK), kK),
                                     .w = job.bytes(w.bytes),
                                     .step = job.step(make_step(n)),
                                     .rows = {kernels::kRowsOfTokens, 1},
                                     .m = kM,
                                     .k = kK};
        job.launch(key, args,
                   key.id == KernelId::gemv ? Grid{ceil_div(kM, 8), n, 1} : Grid{ceil_div(kM, 16), ceil_div(n, 16), 1});
        return job.read(args.y, size_t{n} * kM);
      };
      const std::vector<float> together = product(gemm, 0, kRows);
      for (size_t r = 0; r < kRows; ++r) {
        const std::vector<float> row(together.begin() + r * kM, together.begin() + (r + 1) * kM);
        ASSERT_EQ(product(gemv, r, 1), row) << "row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
