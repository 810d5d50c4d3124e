// Matrix kernels at the shapes of LFM2-8B-A1B, per type, layout and CPU tier, through the backend as a model runs them.
// moe_gemm runs with its moe_group. GB/s counts weights, activations and results once per launch, GOPS two operations
// per weight and row.
//   kernels_bench --benchmark_filter='moe_gemv/.*Q4_0'
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "attention_bench.h"
#include "backend/cpu/simd/tiers.h"
#include "backend/registry.h"
#include "device.h"
#include "kernels/all_contracts.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice::bench {
namespace {

using backend::KernelId;
using backend::KernelKey;
using backend::Layout;
using kernels::DevPtr;
using kernels::uint;

struct Shape {
  const char* name;
  KernelId id;
  uint32_t m, k, n_tokens;
  uint32_t n_expert = 0, n_used = 1;  // 0: one matrix
  uint32_t x_by_entry = 0;

  uint32_t n_rows() const { return n_tokens * n_used; }
};

constexpr Shape kShapes[] = {
    {"attn_q", KernelId::gemv, 2048, 2048, 1},
    {"dense_up", KernelId::gemv, 7168, 2048, 1},
    {"head", KernelId::gemv, 65536, 2048, 1},
    {"attn_q", KernelId::gemm, 2048, 2048, 512},
    {"expert_up", KernelId::moe_gemv, 1792, 2048, 1, 32, 4, 0},
    {"expert_down", KernelId::moe_gemv, 2048, 1792, 1, 32, 4, 1},
    {"expert_up", KernelId::moe_gemm, 1792, 2048, 512, 32, 4, 0},
    {"expert_down", KernelId::moe_gemm, 2048, 1792, 512, 32, 4, 1},
};
constexpr uint32_t kTileEntries = 16;

// A matrix of the layout. Its first rows are random and then repeat: quantising all would take longer than the
// benchmark.
std::vector<std::byte> weights(Type type, Layout layout, uint64_t m, uint64_t k, std::mt19937& random) {
  const uint64_t n_distinct = std::min<uint64_t>(m, 64), row = quant::row_bytes(type, k);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(k);
  std::vector<std::byte> rows(m * row);
  for (uint64_t r = 0; r < n_distinct; ++r) {
    for (float& v : values) v = normal(random);
    quant::codec(type).quantize(values.data(), &rows[r * row], k);
  }
  for (uint64_t r = n_distinct; r < m; ++r) std::memcpy(&rows[r * row], &rows[(r - n_distinct) * row], row);
  if (layout == Layout::row_major) return rows;
  std::vector<std::byte> panels(quant::panel16_bytes(type, m, k));
  quant::pack_panel16(type, rows.data(), m, k, panels.data());
  return panels;
}

// One shape on one backend: memory and plan.
class Setup : private Device {
 public:
  Setup(std::unique_ptr<backend::Backend> backend, const Shape& shape, Type type, Layout layout)
      : Device(std::move(backend)), shape_(shape), key_{shape.id, type, layout, 0} {
    make_step();
    make_x();
    make_weights();
    y_ = allocate(uint64_t{shape.n_rows()} * shape.m * sizeof(float));
    pick_experts(0);
    plan_ = must(backend_->prepare(launches()));
  }

  // Other experts each time, so that a decode step finds its weights in memory and not in a cache.
  void pick_experts(uint32_t turn) {
    if (shape_.n_expert == 0) return;
    std::vector<uint> picked;
    for (uint32_t e = 0; e < shape_.n_rows(); ++e) picked.push_back((e * 7 + turn * 5) % shape_.n_expert);
    must(backend_->upload(sel_expert_, std::as_bytes(std::span(picked))));
  }
  void run() { must(backend_->wait(backend_->run(*plan_))); }

  double operations() const { return 2.0 * shape_.m * shape_.k * shape_.n_rows(); }
  double bytes() const {
    const double experts = std::min<double>(shape_.n_rows(), shape_.n_expert);
    return static_cast<double>(weight_bytes_) * (shape_.n_expert == 0 ? 1.0 : experts) + static_cast<double>(x_bytes_) +
           4.0 * shape_.n_rows() * shape_.m;
  }

 private:
  void make_step() {
    kernels::StepState step{};
    step.n_tokens = shape_.n_tokens;
    step_ = upload(std::vector{step});
  }

  void make_x() {
    const uint32_t n_rows = shape_.x_by_entry != 0 ? shape_.n_rows() : shape_.n_tokens;
    x_ = upload(normals(uint64_t{n_rows} * shape_.k));
    x_bytes_ = uint64_t{n_rows} * shape_.k * sizeof(float);
    if (key_.layout == Layout::row_major) return;
    const uint64_t f32 = x_;
    x_bytes_ = n_rows * kernels::q8_row_bytes(shape_.k);
    x_ = allocate(x_bytes_);
    const kernels::QuantizeQ8Args args{
        {x_}, {f32}, {step_}, {kernels::kRowsOfTokens, n_rows / shape_.n_tokens}, shape_.k};
    const auto launch = backend::Launch::of({KernelId::quantize_q8, Type::F32, Layout::row_major, 0}, args,
                                            {shape_.k / 32, n_rows, 1}, backend::Stage::rest);
    const auto plan = must(backend_->prepare(std::span(&launch, 1)));
    must(backend_->wait(backend_->run(*plan)));
  }

  void make_weights() {
    const std::vector<std::byte> matrix = weights(key_.type, key_.layout, shape_.m, shape_.k, random_);
    weight_bytes_ = matrix.size();
    std::vector<uint64_t> addresses;
    for (uint32_t e = 0; e < std::max(shape_.n_expert, 1u); ++e) addresses.push_back(upload(matrix));
    w_ = addresses[0];
    if (shape_.n_expert == 0) return;
    expert_addr_ = upload(addresses);
    sel_expert_ = allocate(shape_.n_rows() * sizeof(uint));
  }

  std::vector<backend::Launch> launches() {
    const Shape& s = shape_;
    const uint32_t panels = (s.m + 15) / 16;
    const auto of = [&](const auto& args, backend::Grid grid) {
      return backend::Launch::of(key_, args, grid, backend::Stage::experts);
    };
    switch (s.id) {
      case KernelId::moe_gemv:
        return {of(
            kernels::MoeGemvArgs{
                {y_}, {x_}, {expert_addr_}, {sel_expert_}, {step_}, s.m, s.k, s.n_used, s.n_expert, s.x_by_entry},
            {s.m, s.n_rows(), 1})};
      case KernelId::moe_gemm: {
        const uint32_t max_tiles = (s.n_rows() + (kTileEntries - 1) * std::min(s.n_expert, s.n_rows())) / kTileEntries;
        const uint64_t offsets = allocate((s.n_expert + 1) * sizeof(uint)), order = allocate(s.n_rows() * sizeof(uint)),
                       tiles = allocate(uint64_t{max_tiles} * 2 * sizeof(uint)), grid = allocate(3 * sizeof(uint));
        const kernels::MoeGroupArgs group{{offsets}, {order},    {tiles},  {grid},       {sel_expert_},
                                          {step_},   s.n_expert, s.n_used, kTileEntries, panels};
        return {backend::Launch::of({KernelId::moe_group, Type::F32, Layout::row_major, 0}, group, {1, 1, 1},
                                    backend::Stage::experts),
                of(kernels::MoeGemmArgs{{y_},
                                        {x_},
                                        {expert_addr_},
                                        {offsets},
                                        {order},
                                        {tiles},
                                        {grid},
                                        {step_},
                                        s.m,
                                        s.k,
                                        s.n_used,
                                        s.n_expert,
                                        s.x_by_entry,
                                        kTileEntries},
                   {panels, max_tiles, 1})};
      }
      default:
        return {of(kernels::GemvArgs{{y_}, {x_}, {w_}, {step_}, {kernels::kRowsOfTokens, 1}, s.m, s.k},
                   s.id == KernelId::gemv ? backend::Grid{s.m, s.n_rows(), 1}
                                          : backend::Grid{panels, (s.n_rows() + 15) / 16, 1})};
    }
  }

  Shape shape_;
  KernelKey key_;
  std::unique_ptr<backend::Plan> plan_;
  uint64_t step_ = 0, x_ = 0, y_ = 0, w_ = 0, expert_addr_ = 0, sel_expert_ = 0;
  uint64_t weight_bytes_ = 0, x_bytes_ = 0;
};

void measure(benchmark::State& state, const backend::Options& options, const Shape& shape, Type type, Layout layout) {
  auto backend = must(backend::open(options));
  if (!backend->has({shape.id, type, layout, 0})) return state.SkipWithError("not on this backend");
  Setup setup(std::move(backend), shape, type, layout);
  uint32_t turn = 0;
  for (auto _ : state) {
    setup.pick_experts(++turn);
    setup.run();
  }
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(setup.bytes() * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GOPS"] = Counter(setup.operations() * 1e-9, Counter::kIsIterationInvariantRate);
}

void register_all() {
  std::vector<backend::Options> choices = {{.name = "cpu", .reference = true}};
  for (const backend::cpu::Tier tier : backend::cpu::tiers()) {
    if (tier != backend::cpu::Tier::scalar) {
      choices.push_back({.name = "cpu", .cpu_isa = std::string(backend::cpu::tier_name(tier))});
    }
  }
  constexpr Type kTypes[] = {
#define SLUICE_TYPE(name, id, block, bytes, header) Type::name,
#include "sluice/types.inc"
#undef SLUICE_TYPE
  };
  for (const Shape& shape : kShapes) {
    for (const Type type : kTypes) {
      if (quant::codec(type).quantize == nullptr) continue;
      for (const Layout layout : {Layout::panel16, Layout::row_major}) {
        if (layout == Layout::panel16 && !quant::has_panel16(type)) continue;
        for (const backend::Options& options : choices) {
          if (options.reference && layout == Layout::panel16) continue;
          const std::string name = fmt::format(
              "{}/{}/{}/{}/{}", kernel_name(shape.id), shape.name, type_info(type).name,
              layout == Layout::panel16 ? "panel16" : "row_major", options.reference ? "reference" : options.cpu_isa);
          benchmark::RegisterBenchmark(name.c_str(), measure, options, shape, type, layout)->UseRealTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  sluice::bench::register_all();
  sluice::bench::register_attention();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
