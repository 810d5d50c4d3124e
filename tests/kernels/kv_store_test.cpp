#include <cstring>

#include "quant/quant.h"
#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct KvStoreCase {
  std::string name;
  Type type = Type::F16;
  uint32_t n_kv_head = 2, d = 64;
  std::vector<Sequence> sequences = {{.n_tokens = 1}};

  KernelKey key() const { return {KernelId::kv_store, type, Layout::row_major, 0}; }
  std::vector<float> x() const { return Random(d).normals(size_t{make_step(sequences).n_tokens()} * n_kv_head * d); }
  // The old cache, every byte of it distinct from what is stored.
  std::vector<std::byte> before() const {
    const size_t n_rows = size_t{make_step(sequences).n_pages} * n_kv_head * kernels::kPageTokens;
    return std::vector<std::byte>(n_rows * quant::row_bytes(type, d), std::byte{0x5a});
  }

  Outputs run(Job& job) const {
    const Step step = make_step(sequences);
    const kernels::KvStoreArgs args{
        .cache = job.bytes(before()), .x = job.in(x()), .step = job.step(step), .n_kv_head = n_kv_head, .d = d};
    job.launch(key(), args, {n_kv_head, step.n_tokens(), 1});
    return {{.name = "cache", .ints = words(job.read_bytes(args.cache, before().size()))}};
  }

  Outputs expected() const {
    const Step step = make_step(sequences);
    const std::vector<float> all = x();
    std::vector<std::byte> cache = before();
    const std::vector<std::byte> rows = quantised(type, all);
    const size_t row_bytes = quant::row_bytes(type, d);
    for (size_t i = 0; i < size_t{step.n_tokens()} * n_kv_head; ++i) {
      const size_t t = i / n_kv_head, head = i % n_kv_head, pos = step.pos[t];
      const size_t row = (step.page_of(t, pos) * n_kv_head + head) * 64 + pos % 64;
      std::memcpy(&cache[row * row_bytes], &rows[i * row_bytes], row_bytes);
    }
    return {{.name = "cache", .ints = words(cache)}};
  }
};

std::vector<KvStoreCase> cases() {
  std::vector<KvStoreCase> cases;
  for (const Type type : {Type::F32, Type::F16, Type::Q8_0}) {
    const std::string name(type_info(type).name);
    cases.push_back({.name = name + " one token", .type = type});
    cases.push_back({.name = name + " over a page boundary", .type = type, .n_kv_head = 3, .sequences = {{4, 62}}});
    cases.push_back(
        {.name = name + " several sequences",
         .type = type,
         .d = 96,
         .sequences = {{.n_tokens = 1, .first_pos = 200}, {.n_tokens = 7}, {.n_tokens = 1, .first_pos = 63}}});
    cases.push_back({.name = name + " no tokens", .type = type, .sequences = {}});
  }
  cases.push_back({.name = "odd head size", .n_kv_head = 5, .d = 21, .sequences = {{.n_tokens = 3}}});
  return cases;
}

SLUICE_KERNEL_CASES(KvStore, KvStoreCase, cases());

}  // namespace
}  // namespace sluice::test
