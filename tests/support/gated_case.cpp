#include "support/gated_case.h"

#include <fmt/format.h>

#include "support/types.h"

namespace sluice::test {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace

std::vector<uint> GatedCase::sel_expert() const {
  return MoeCase{.n_expert = n_expert, .n_used = n_used, .n_tokens = n_tokens, .route = route}.sel_expert();
}

std::vector<float> GatedCase::x() const { return Random(k + n_tokens).normals(size_t{n_tokens} * k, x_scale); }

// Gates lie first, then the up matrices.
std::vector<uint64_t> GatedCase::addresses(Job& job, int which) const {
  const std::vector<Weights>& all = expert_weights(type, layout, m, k, 2 * n_expert);
  std::vector<uint64_t> result;
  for (uint32_t e = 0; e < n_expert; ++e) result.push_back(job.bytes(all[size_t(which) * n_expert + e].bytes).address);
  if (absent) result[sel_expert()[0]] = 0;
  return result;
}

size_t GatedCase::y_bytes() const {
  return n_entries() * (q8 ? kernels::q8_row_bytes(m) : uint64_t{m} * sizeof(float));
}

DevPtr<uint> GatedCase::launch(Job& job) const {
  const DevPtr<uint> y = job.out<uint>(y_bytes() / sizeof(uint));
  const DevPtr<float> floats{q8 ? 0 : y.address};
  const DevPtr<uint> bytes{q8 ? y.address : 0};
  const DevPtr<uint> device_x = upload_x(job, layout, x(), k);
  const DevPtr<kernels::StepState> step = job.step(make_step(n_tokens));
  const Grid grid{ceil_div(m, 4), n_entries(), 1};
  if (id == KernelId::gate_up) {
    job.launch(key(),
               kernels::GateUpArgs{.y = floats,
                                   .y_q8 = bytes,
                                   .x = device_x,
                                   .gate = {addresses(job, 0)[0]},
                                   .up = {addresses(job, 1)[0]},
                                   .step = step,
                                   .rows = {kernels::kRowsOfTokens, 1},
                                   .m = m,
                                   .k = k},
               grid);
    return y;
  }
  kernels::MoeGateUpArgs args{.y = floats,
                              .y_q8 = bytes,
                              .x = device_x,
                              .gate_addr = job.in(addresses(job, 0)),
                              .up_addr = job.in(addresses(job, 1)),
                              .sel_expert = job.in(sel_expert()),
                              .step = step,
                              .m = m,
                              .k = k,
                              .n_used = n_used,
                              .n_expert = n_expert};
  if (grouped) {
    const Grouped g = group_entries(sel_expert(), n_expert, 16);
    args.offsets = job.in(g.offsets);
    args.order = job.in(g.order);
  }
  job.launch(key(), args, grid);
  return y;
}

std::vector<std::byte> GatedCase::fused(Job& job) const { return job.read_bytes(launch(job), y_bytes()); }

std::vector<std::byte> GatedCase::chained(Job& job) const {
  const DevPtr<kernels::StepState> step = job.step(make_step(n_tokens));
  const DevPtr<uint> device_x = upload_x(job, layout, x(), k), sel = job.in(sel_expert());
  DevPtr<float> product[2];
  for (int which = 0; which < 2; ++which) {
    product[which] = job.out<float>(size_t{n_entries()} * m);
    job.launch({KernelId::moe_gemv, type, layout, 0},
               kernels::MoeGemvArgs{.y = product[which],
                                    .x = device_x,
                                    .expert_addr = job.in(addresses(job, which)),
                                    .sel_expert = sel,
                                    .step = step,
                                    .m = m,
                                    .k = k,
                                    .n_used = n_used,
                                    .n_expert = n_expert,
                                    .x_by_entry = 0},
               {ceil_div(m, 8), n_entries(), 1});
  }
  const DevPtr<uint> y = job.out<uint>(y_bytes() / sizeof(uint));
  job.launch({KernelId::swiglu, Type::F32, Layout::row_major, 0},
             kernels::SwigluArgs{.y = {q8 ? 0 : y.address},
                                 .y_q8 = {q8 ? y.address : 0},
                                 .gate = product[0],
                                 .up = product[1],
                                 .step = step,
                                 .rows = {kernels::kRowsOfTokens, n_used},
                                 .n = m},
             {ceil_div(m, 64), n_entries(), 1});
  return job.read_bytes(y, y_bytes());
}

Outputs GatedCase::run(Job& job) const {
  const DevPtr<uint> y = launch(job);
  if (!q8) return {{.name = "y", .reals = reals(job.read(DevPtr<float>{y.address}, size_t{n_entries()} * m))}};
  const std::vector<std::byte> rows = job.read_bytes(y, y_bytes());
  return {{.name = "y in 8 bits",
           .reals = reals(q8_values(rows, n_entries(), m)),
           .truth_bound = kQ8Bound,
           .tier_bound = kQ8Bound}};
}

Outputs GatedCase::expected() const {
  const std::vector<Weights>& all = expert_weights(type, layout, m, k, 2 * n_expert);
  std::vector<float> seen = x();
  if (layout == Layout::panel16) seen = q8_values(q8_rows(seen, n_tokens, k), n_tokens, k);
  const std::vector<uint> sel = sel_expert();
  std::vector<double> y;
  for (size_t e = 0; e < n_entries(); ++e) {
    const std::span row = std::span(seen).subspan(e / n_used * k, k);
    const auto product = [&](size_t which, size_t i) {
      return dot(std::span(all[which * n_expert + sel[e]].values).subspan(i * k, k), row);
    };
    const bool zeros = absent && sel[e] == sel[0];
    for (size_t i = 0; i < m; ++i) y.push_back(zeros ? 0 : silu(product(0, i)) * product(1, i));
  }
  if (!q8) return {{.name = "y", .reals = y}};
  return {{.name = "y in 8 bits", .reals = y}};
}

std::vector<Group<GatedCase>> gated_cases(KernelId id) {
  std::vector<Group<GatedCase>> groups;
  for (const auto& [type, layout] : weight_kinds()) {
    std::vector<GatedCase> cases;
    if (id == KernelId::gate_up) {
      cases = {{.name = "one row"},
               {.name = "one row, one panel", .m = 16},
               {.name = "odd heights", .m = 77, .n_tokens = 3},
               {.name = "end in a first panel", .m = 33, .n_tokens = 13},
               {.name = "end in a second panel", .m = 63, .k = 512, .n_tokens = 25},
               {.name = "8 bits", .m = 96, .k = 512, .n_tokens = 14, .q8 = true},
               {.name = "huge", .n_tokens = 2, .x_scale = 1e15f},
               {.name = "no tokens", .n_tokens = 0}};
    } else {
      cases = {
          {.name = "one token", .m = 64, .q8 = true, .n_expert = 8, .n_used = 4},
          {.name = "odd sizes", .m = 77, .n_tokens = 5, .n_expert = 7, .n_used = 3},
          {.name = "tails", .m = 32, .n_tokens = 31, .q8 = true, .n_expert = 4, .n_used = 2},
          {.name = "repeated expert", .n_tokens = 4, .n_expert = 8, .n_used = 3, .route = Route::same_in_token},
          {.name = "all to one", .m = 33, .n_tokens = 33, .n_expert = 8, .route = Route::all_to_one},
          {.name = "expert not here", .m = 64, .n_tokens = 9, .q8 = true, .n_expert = 8, .n_used = 2, .absent = true},
          {.name = "no tokens", .n_tokens = 0, .n_expert = 8, .n_used = 2}};
    }
    thin_out(cases, type);
    for (GatedCase& c : cases) {
      c.id = id;
      c.type = type;
      c.layout = layout;
    }
    if (id == KernelId::moe_gate_up) {
      const size_t n = cases.size();
      for (size_t i = 0; i < n; ++i) {
        cases.push_back(cases[i]);
        cases.back().grouped = true;
        cases.back().name += " grouped";
      }
    }
    const char* suffix = layout == Layout::panel16 ? "panel16" : "row_major";
    groups.push_back({fmt::format("{} {}", type_info(type).name, suffix), std::move(cases)});
  }
  return groups;
}

void expect_equals_chain(KernelId id) {
  for (const Group<GatedCase>& group : gated_cases(id)) {
    for (const GatedCase& c : group.cases) {
      for (const Subject& subject : subjects()) {
        if (!subject.device->has(c.key()) || !subject.device->has({KernelId::moe_gemv, c.type, c.layout, 0}) ||
            !subject.device->has({KernelId::swiglu, Type::F32, Layout::row_major, 0}))
          continue;
        SCOPED_TRACE(subject.name + ", " + group.name + ", " + c.name);
        Job fused(*subject.device);
        const std::vector<std::byte> one = c.fused(fused);
        Job chained(*subject.device);
        ASSERT_EQ(one, c.chained(chained));
      }
    }
  }
}

}  // namespace sluice::test
