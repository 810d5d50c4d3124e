// Attention at depth, at the heads of LFM2-8B-A1B and Qwen3-30B-A3B, per cache type and CPU tier. GB/s counts the keys
// and values once per launch, GFLOP/s two operations per multiply-add of scores and outputs.
//   sluice_kernels_bench --benchmark_filter='attn_decode/.*F16.*8192'
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

#include "attention_bench.h"
#include "backend/cpu/simd/tiers.h"
#include "backend/registry.h"
#include "device.h"
#include "kernels/all_contracts.h"
#include "quant/quant.h"

namespace sluice::bench {
namespace {

using backend::KernelId;

struct Heads {
  const char* name;
  uint32_t n_head, n_kv_head, d;
};
constexpr Heads kHeads[] = {{"lfm2", 32, 8, 64}, {"qwen3", 32, 4, 128}};

// Decode steps walk through as many caches as a model has layers, so that keys and values come from memory.
constexpr uint32_t kLayers = 6;

struct Case {
  Heads heads;
  KernelId id;
  Type type;
  uint32_t n_tokens, depth;  // the tokens follow `depth` positions

  uint32_t n_pages() const { return (depth + n_tokens + kernels::kPageTokens - 1) / kernels::kPageTokens; }
  uint64_t cache_bytes() const {
    return uint64_t{n_pages()} * heads.n_kv_head * kernels::kPageTokens * quant::row_bytes(type, heads.d);
  }
  double bytes() const {
    return 2.0 * (depth + n_tokens) * heads.n_kv_head * static_cast<double>(quant::row_bytes(type, heads.d));
  }
  double operations() const { return 4.0 * heads.n_head * heads.d * n_tokens * (depth + (n_tokens + 1) / 2.0); }
};

class Setup : private Device {
 public:
  Setup(std::unique_ptr<backend::Backend> backend, const Case& c) : Device(std::move(backend)) {
    const kernels::SeqSlice seq{.first_token = 0, .n_tokens = c.n_tokens, .first_pos = c.depth};
    std::vector<uint32_t> pos(c.n_tokens), page(c.n_pages());
    for (uint32_t t = 0; t < c.n_tokens; ++t) pos[t] = c.depth + t;
    for (uint32_t p = 0; p < c.n_pages(); ++p) page[p] = p;
    kernels::StepState step{};
    step.pos = {upload(pos)};
    step.seq = {upload(std::vector<uint32_t>(c.n_tokens))};
    step.seqs = {upload(std::vector{seq})};
    step.page_table = {upload(page)};
    step.n_tokens = c.n_tokens;
    step.n_seqs = 1;
    kernels::AttnDecodeArgs args{};
    args.out = {allocate(uint64_t{c.n_tokens} * c.heads.n_head * c.heads.d * sizeof(float))};
    args.q = {upload(normals(uint64_t{c.n_tokens} * c.heads.n_head * c.heads.d))};
    args.step = {upload(std::vector{step})};
    args.n_head = c.heads.n_head;
    args.n_kv_head = c.heads.n_kv_head;
    args.d_k = args.d_v = c.heads.d;
    args.scale = 0.125f;
    const std::vector<std::byte> rows = page_rows(c);
    const bool decode = c.id == KernelId::attn_decode;
    std::vector<backend::Launch> launches;
    for (uint32_t layer = 0; layer < (decode ? kLayers : 1); ++layer) {
      args.k_cache = {cache(c, rows)};
      args.v_cache = {cache(c, rows)};
      launches.push_back(backend::Launch::of({c.id, c.type, backend::Layout::row_major, static_cast<uint8_t>(c.type)},
                                             args, {c.heads.n_kv_head, decode ? c.n_tokens : (c.n_tokens + 15) / 16, 1},
                                             backend::Stage::attention));
    }
    n_launches_ = launches.size();
    plan_ = must(backend_->prepare(launches));
  }

  void run() { must(backend_->wait(backend_->run(*plan_))); }
  double n_launches() const { return static_cast<double>(n_launches_); }

 private:
  // One page; all pages hold the same.
  std::vector<std::byte> page_rows(const Case& c) {
    const uint64_t n = uint64_t{c.heads.n_kv_head} * kernels::kPageTokens * c.heads.d;
    std::vector<std::byte> rows(quant::row_bytes(c.type, n));
    quant::codec(c.type).quantize(normals(n).data(), rows.data(), n);
    return rows;
  }
  uint64_t cache(const Case& c, const std::vector<std::byte>& page) {
    const uint64_t address = allocate(c.cache_bytes());
    for (uint64_t i = 0; i < c.n_pages(); ++i) must(backend_->upload(address + i * page.size(), page));
    return address;
  }

  std::unique_ptr<backend::Plan> plan_;
  size_t n_launches_ = 0;
};

void measure(benchmark::State& state, const backend::Options& options, const Case& c) {
  auto backend = must(backend::open(options));
  Setup setup(std::move(backend), c);
  for (auto _ : state) setup.run();
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(c.bytes() * setup.n_launches() * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] = Counter(c.operations() * setup.n_launches() * 1e-9, Counter::kIsIterationInvariantRate);
}

}  // namespace

void register_attention() {
  std::vector<Case> cases;
  for (const Heads& heads : kHeads) {
    for (const Type type : {Type::F16, Type::Q8_0, Type::F32}) {
      cases.push_back({heads, KernelId::attn_decode, type, 1, 511});
      cases.push_back({heads, KernelId::attn_decode, type, 1, 8191});
      cases.push_back({heads, KernelId::attn_prefill, type, 512, 0});
      cases.push_back({heads, KernelId::attn_prefill, type, 512, 7680});
    }
  }
  for (const Case& c : cases) {
    for (const backend::cpu::Tier tier : backend::cpu::tiers()) {
      if (tier == backend::cpu::Tier::scalar) continue;
      const backend::Options options{.name = "cpu", .cpu_isa = std::string(backend::cpu::tier_name(tier))};
      const std::string name = fmt::format("{}/{}/{}/{}/{}", kernel_name(c.id), c.heads.name, type_info(c.type).name,
                                           c.depth + c.n_tokens, options.cpu_isa);
      benchmark::RegisterBenchmark(name.c_str(), measure, options, c)->UseRealTime();
    }
  }
}

}  // namespace sluice::bench
