#include "support/matmul_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "quant/panel.h"
#include "quant/quant.h"
#include "support/types.h"

namespace sluice::test {
namespace {

constexpr uint32_t kColumns[] = {32, 64, 96, 256, 288, 512, 1408, 2048, 2880, 7168};
constexpr uint32_t kRows[] = {17, 1, 77, 16, 3, 15};
constexpr uint32_t kXRows[] = {1, 9, 2, 33, 7, 3, 65, 8, 31, 16, 5, 4};

std::string label(Type type, Layout layout) {
  return std::string(type_info(type).name) + (layout == Layout::panel16 ? " panel16" : " row_major");
}

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float u, float v) { return double{u} * double{v}; });
}

// The activations that a kernel of this layout sees.
std::vector<float> seen(Layout layout, std::span<const float> x, size_t k) {
  if (layout == Layout::row_major) return {x.begin(), x.end()};
  return q8_values(q8_rows(x, x.size() / k, k), x.size() / k, k);
}

// As the kernel of this key wants it.
DevPtr<uint> upload_x(Job& job, Layout layout, bool matrices, std::span<const float> x, size_t k) {
  return matrices ? job.bytes(f16_rows(x, x.size() / k, k)) : upload_x(job, layout, x, k);
}

// Products below 2^-126 are lost where a device flushes them: up to a block's share of a sum.
constexpr double kFlushBound = 1e-4;

Outputs near(Outputs outputs) {
  for (Output& output : outputs) output.truth_bound = kF16Bound;
  return outputs;
}

constexpr Type kMatrixTypes[] = {Type::F16, Type::Q8_0, Type::Q4_0, Type::Q6_K};

// y as stored, and, where it is long enough for statistics, once more to be compared with f32 activations.
Outputs products(Layout layout, const std::vector<double>& y, const std::vector<double>& y_of_f32) {
  const bool panel = layout == Layout::panel16;
  Outputs outputs = {{.name = "y", .reals = y, .tier_bound = panel ? 0 : 1e-10}};
  if (panel && y.size() >= 500)
    outputs.push_back({.name = "y against f32 x", .reals = y_of_f32, .truth_bound = kQ8Bound});
  return outputs;
}

}  // namespace

std::vector<std::pair<Type, Layout>> weight_kinds() {
  std::vector<std::pair<Type, Layout>> kinds;
  for (const Type type : kAllTypes) {
    kinds.emplace_back(type, Layout::row_major);
    if (quant::has_panel16(type)) kinds.emplace_back(type, Layout::panel16);
  }
  return kinds;
}

Weights make_weights(Random& random, Type type, Layout layout, size_t m, size_t k) {
  std::vector<float> values = random.normals(m * k, 0.1f);
  for (size_t i = 0; i < values.size(); i += 16) {
    const float scale = 0.25f + static_cast<float>(random.below(16)) / 4;
    for (size_t j = i; j < std::min(i + 16, values.size()); ++j) values[j] *= scale;
  }
  Weights w;
  const std::vector<std::byte> rows = quantised(type, values);
  w.values = dequantised(type, rows, m, k);
  w.bytes = rows;
  if (layout == Layout::panel16) {
    w.bytes.assign(quant::panel16_bytes(type, m, k), std::byte{0xff});
    quant::pack_panel16(type, rows.data(), m, k, w.bytes.data());
  }
  return w;
}

DevPtr<uint> upload_x(Job& job, Layout layout, std::span<const float> x, size_t k) {
  return layout == Layout::panel16 ? job.bytes(q8_rows(x, x.size() / k, k)) : job.bytes(std::as_bytes(x));
}

const std::vector<Weights>& expert_weights(Type type, Layout layout, uint32_t m, uint32_t k, uint32_t n) {
  using Key = std::tuple<Type, Layout, uint32_t, uint32_t, uint32_t>;
  static Key last;
  static std::vector<Weights> experts;  // of the last call: a case asks once per subject
  if (experts.empty() || last != Key(type, layout, m, k, n)) {
    last = {type, layout, m, k, n};
    experts.clear();
    Random random(m * 131 + k * 7 + n);
    for (uint32_t e = 0; e < n; ++e) experts.push_back(make_weights(random, type, layout, m, k));
  }
  return experts;
}

std::vector<float> MatmulCase::x() const {
  Random random(k + n_rows);
  std::vector<float> x = random.normals(size_t{n_rows} * k, x_scale);
  if (nan_row) x[5] = kNaN;
  return x;
}

Outputs MatmulCase::run(Job& job) const {
  Step step = make_step(of_out ? 3 : n_rows);
  if (of_out) step.out_token.assign(n_rows / 2, 2);
  kernels::GemvArgs args{.y = job.out<float>(size_t{n_rows} * m),
                         .x = upload_x(job, layout, matrices, x(), k),
                         .w = job.bytes(expert_weights(type, layout, m, k, 1)[0].bytes),
                         .step = job.step(step),
                         .rows = {of_out ? kernels::kRowsOfOut : kernels::kRowsOfTokens, of_out ? 2u : 1u},
                         .m = m,
                         .k = k};
  const uint32_t tile = matrices ? backend::kMatrixTile : 16;
  const Grid grid =
      id == KernelId::gemv ? Grid{ceil_div(m, 8), n_rows, 1} : Grid{ceil_div(m, tile), ceil_div(n_rows, tile), 1};
  job.launch(key(), args, grid);
  const std::vector<double> y = reals(job.read(args.y, size_t{n_rows} * m));
  Outputs outputs = products(layout, y, y);
  if (x_scale < 1e-30f) outputs[0].flush_bound = kFlushBound;
  return matrices ? near(std::move(outputs)) : outputs;
}

Outputs MatmulCase::expected() const {
  const std::vector<float>& w = expert_weights(type, layout, m, k, 1)[0].values;
  const std::vector<float> all_x = x(), seen_x = seen(layout, all_x, k);
  std::vector<double> y, y_of_f32;
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t i = 0; i < m; ++i) {
      const std::span row = std::span(w).subspan(i * k, k);
      y.push_back(dot(row, std::span(seen_x).subspan(r * k, k)));
      y_of_f32.push_back(dot(row, std::span(all_x).subspan(r * k, k)));
    }
  }
  return products(layout, y, y_of_f32);
}

std::vector<Group<MatmulCase>> matmul_cases(KernelId id) {
  std::vector<Group<MatmulCase>> groups;
  size_t turn = 0;
  for (const auto& [type, layout] : weight_kinds()) {
    if (id == KernelId::gemm && !has_tile_cases(type)) continue;
    const auto group = [&, type = type, layout = layout](const char* what, std::vector<MatmulCase> cases) {
      for (MatmulCase& c : cases) {
        c.id = id;
        c.type = type;
        c.layout = layout;
        c.name += fmt::format(" m {} k {} rows {}", c.m, c.k, c.n_rows);
      }
      groups.push_back({fmt::format("Q03 {} {}", label(type, layout), what), std::move(cases)});
    };
    std::vector<MatmulCase> widths, heights, rows;
    for (const uint32_t k : kColumns) {
      if (k % type_info(type).block != 0) continue;
      const uint32_t m = kRows[turn % std::size(kRows)], n = kXRows[turn % std::size(kXRows)];
      widths.push_back({.m = k > 1000 ? std::min(m, 17u) : m, .k = k, .n_rows = n});
      ++turn;
    }
    for (const uint32_t m : kRows) heights.push_back({.m = m, .k = 256, .n_rows = 1 + m % 4});
    for (const uint32_t n : {0u, 1u, 6u, 10u, 12u, 13u, 14u, 17u, 24u, 32u, 63u, 64u}) {
      rows.push_back({.m = 33, .k = 256, .n_rows = n});
    }
    if (type == Type::Q4_0) rows.push_back({.m = 16, .k = 32, .n_rows = 1025});
    for (std::vector<MatmulCase>* cases : {&widths, &heights, &rows}) thin_out(*cases, type);
    group("columns", widths);
    if (is_read_only(type)) continue;
    group("heights", heights);
    group("M05 rows of x", rows);
    group("hazards", {{.name = "huge", .m = 17, .n_rows = 2, .x_scale = 1e30f},
                      {.name = "tiny", .m = 17, .n_rows = 2, .x_scale = 1e-36f},
                      {.name = "one NaN", .m = 33, .n_rows = 5, .nan_row = true},
                      {.name = "rows of out", .m = 17, .n_rows = 4, .of_out = true}});
  }
  return groups;
}

std::vector<Group<MatmulCase>> matrix_cases() {
  std::vector<Group<MatmulCase>> groups;
  for (const Type type : kMatrixTypes) {
    const auto group = [&](const char* what, std::vector<MatmulCase> cases) {
      for (MatmulCase& c : cases) {
        c.id = KernelId::gemm;
        c.type = type;
        c.matrices = true;
        c.name += fmt::format(" m {} k {} rows {}", c.m, c.k, c.n_rows);
      }
      groups.push_back({fmt::format("{} {}", label(type, Layout::row_major), what), std::move(cases)});
    };
    std::vector<MatmulCase> widths;
    for (const uint32_t k : {32u, 64u, 96u, 256u, 512u, 1792u}) {
      if (k % type_info(type).block == 0) widths.push_back({.m = 68, .k = k, .n_rows = 33});
    }
    group("columns", widths);
    group("tiles", {{.m = 1, .n_rows = 1},
                    {.m = 17, .n_rows = 15},
                    {.m = 64, .n_rows = 63},
                    {.m = 127, .n_rows = 65},
                    {.m = 128, .n_rows = 128},
                    {.m = 129, .n_rows = 127},
                    {.m = 260, .n_rows = 193},
                    {.m = 33, .n_rows = 0}});
    group("hazards", {{.name = "huge", .m = 17, .n_rows = 2, .x_scale = 1e30f},
                      {.name = "beyond f16", .m = 17, .n_rows = 2, .x_scale = 1e5f},
                      {.name = "tiny", .m = 17, .n_rows = 2, .x_scale = 1e-34f},
                      {.name = "one NaN", .m = 33, .n_rows = 5, .nan_row = true},
                      {.name = "rows of out", .m = 17, .n_rows = 4, .of_out = true}});
  }
  return groups;
}

std::vector<uint> MoeCase::sel_expert() const {
  Random random(n_expert + n_entries());
  std::vector<uint> sel;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    const uint first = random.below(n_expert);
    for (uint32_t s = 0; s < n_used; ++s) {
      switch (route) {
        // Odd experts stay empty in most cases: first and 2 s are even.
        case Route::spread:
          sel.push_back((first / 2 * 2 + 2 * s) % n_expert);
          break;
        case Route::all_to_one:
          sel.push_back(n_expert / 2);
          break;
        case Route::last:
          sel.push_back(n_expert - 1 - s);
          break;
        case Route::same_in_token:
          sel.push_back(first);
          break;
      }
    }
  }
  return sel;
}

std::vector<float> MoeCase::x() const {
  Random random(k + n_entries());
  return random.normals(size_t{n_entries()} * k, x_scale);
}

Grouped group_entries(std::span<const uint> sel_expert, uint32_t n_expert, uint32_t tile_entries) {
  Grouped g;
  g.offsets.push_back(0);
  for (uint32_t expert = 0; expert < n_expert; ++expert) {
    for (uint32_t e = 0, of_expert = 0; e < sel_expert.size(); ++e) {
      if (sel_expert[e] != expert) continue;
      if (of_expert++ % tile_entries == 0) {
        g.tiles.push_back(expert);
        g.tiles.push_back(static_cast<uint>(g.order.size()));
      }
      g.order.push_back(e);
    }
    g.offsets.push_back(static_cast<uint>(g.order.size()));
  }
  return g;
}

Outputs MoeCase::run(Job& job) const {
  const uint32_t tile = matrices ? backend::kMatrixTile : 16;
  const std::vector<uint> sel = sel_expert();
  const DevPtr<uint> device_x = upload_x(job, layout, matrices, x(), k);
  const DevPtr<float> device_y = job.out<float>(size_t{n_entries()} * m);
  std::vector<uint64_t> addresses;
  for (const Weights& w : expert_weights(type, layout, m, k, n_expert)) addresses.push_back(job.bytes(w.bytes).address);
  if (absent) addresses[sel[0]] = 0;
  const DevPtr<kernels::StepState> step = job.step(make_step(n_tokens));
  if (id == KernelId::moe_gemv) {
    job.launch(key(),
               kernels::MoeGemvArgs{.y = device_y,
                                    .x = device_x,
                                    .expert_addr = job.in(addresses),
                                    .sel_expert = job.in(sel),
                                    .step = step,
                                    .m = m,
                                    .k = k,
                                    .n_used = n_used,
                                    .n_expert = n_expert,
                                    .x_by_entry = x_by_entry},
               {ceil_div(m, 8), n_entries(), 1});
  } else {
    const Grouped g = group_entries(sel, n_expert, tile);
    const uint32_t n_tiles = static_cast<uint32_t>(g.tiles.size() / 2);
    job.launch(key(),
               kernels::MoeGemmArgs{.y = device_y,
                                    .x = device_x,
                                    .expert_addr = job.in(addresses),
                                    .offsets = job.in(g.offsets),
                                    .order = job.in(g.order),
                                    .tiles = job.in(g.tiles),
                                    .grid = job.in(std::vector<uint>{ceil_div(m, tile), n_tiles, 1}),
                                    .step = step,
                                    .m = m,
                                    .k = k,
                                    .n_used = n_used,
                                    .n_expert = n_expert,
                                    .x_by_entry = x_by_entry,
                                    .tile_entries = tile},
               {ceil_div(m, tile), n_tiles, 1});
  }
  const std::vector<double> y = reals(job.read(device_y, size_t{n_entries()} * m));
  return matrices ? near(products(layout, y, y)) : products(layout, y, y);
}

Outputs MoeCase::expected() const {
  const std::vector<uint> sel = sel_expert();
  const std::vector<Weights>& experts = expert_weights(type, layout, m, k, n_expert);
  const std::vector<float> all_x = x(), seen_x = seen(layout, all_x, k);
  std::vector<double> y, y_of_f32;
  for (size_t e = 0; e < n_entries(); ++e) {
    const size_t x_row = x_by_entry != 0 ? e : e / n_used;
    const bool zeros = absent && sel[e] == sel[0];
    for (size_t i = 0; i < m; ++i) {
      const std::span row = std::span(experts[sel[e]].values).subspan(i * k, k);
      y.push_back(zeros ? 0 : dot(row, std::span(seen_x).subspan(x_row * k, k)));
      y_of_f32.push_back(zeros ? 0 : dot(row, std::span(all_x).subspan(x_row * k, k)));
    }
  }
  return products(layout, y, y_of_f32);
}

std::vector<Group<MoeCase>> moe_cases(KernelId id) {
  std::vector<Group<MoeCase>> groups;
  for (const auto& [type, layout] : weight_kinds()) {
    if (id == KernelId::moe_gemm && !has_tile_cases(type)) continue;
    // Each case with x by token and by entry.
    const auto group = [&, type = type, layout = layout](const char* what, std::vector<MoeCase> cases) {
      if (cases.size() > 2) thin_out(cases, type);
      Group<MoeCase> both{fmt::format("{} {}", label(type, layout), what), {}};
      for (MoeCase c : cases) {
        c.id = id;
        c.type = type;
        c.layout = layout;
        for (c.x_by_entry = 0; c.x_by_entry < 2; ++c.x_by_entry) {
          both.cases.push_back(c);
          both.cases.back().name += fmt::format(" tokens {} x_by_entry {}", c.n_tokens, c.x_by_entry);
        }
      }
      groups.push_back(std::move(both));
    };
    const uint32_t odd_k = 96 % type_info(type).block != 0 ? 512 : 96;
    group("sizes", {{.name = "one token", .m = 17, .n_used = 4},
                    {.name = "odd sizes", .m = 77, .k = odd_k, .n_expert = 7, .n_used = 3, .n_tokens = 5},
                    {.name = "last experts", .n_expert = 32, .n_used = 4, .n_tokens = 3, .route = Route::last},
                    {.name = "wide", .m = 3, .k = 7168, .n_expert = 4, .n_tokens = 2},
                    {.name = "no tokens", .n_tokens = 0}});
    if (is_read_only(type)) continue;
    group("M05 tails", {{.n_expert = 4, .n_tokens = 7},
                        {.n_expert = 4, .n_tokens = 8},
                        {.n_expert = 4, .n_tokens = 9},
                        {.n_expert = 4, .n_tokens = 31},
                        {.n_expert = 4, .n_tokens = 65}});
    if (type == Type::Q4_0) group("many tokens", {{.k = 32, .n_expert = 5, .n_tokens = 1025}});
    group("M06 repeated expert in one token", {{.n_used = 3, .n_tokens = 4, .route = Route::same_in_token}});
    group("M10 all tokens to one expert", {{.m = 33, .n_used = 1, .n_tokens = 33, .route = Route::all_to_one}});
    group("hazards", {{.name = "expert not here", .m = 15, .n_tokens = 9, .absent = true},
                      {.name = "huge", .n_tokens = 2, .x_scale = 1e30f}});
  }
  return groups;
}

std::vector<Group<MoeCase>> moe_matrix_cases() {
  std::vector<Group<MoeCase>> groups;
  for (const Type type : kMatrixTypes) {
    Group<MoeCase> group{label(type, Layout::row_major), {}};
    for (MoeCase c :
         {MoeCase{.name = "one token", .m = 17, .n_used = 4},
          MoeCase{.name = "odd sizes", .m = 77, .k = 512, .n_expert = 7, .n_used = 3, .n_tokens = 5},
          MoeCase{.name = "no tokens", .n_tokens = 0},
          MoeCase{.name = "several tiles", .m = 132, .n_expert = 4, .n_tokens = 193},
          MoeCase{.name = "M06 repeated", .n_used = 3, .n_tokens = 4, .route = Route::same_in_token},
          MoeCase{.name = "M10 all to one", .m = 33, .n_used = 1, .n_tokens = 33, .route = Route::all_to_one},
          MoeCase{.name = "expert not here", .m = 15, .n_tokens = 9, .absent = true},
          MoeCase{.name = "huge", .n_tokens = 2, .x_scale = 1e30f}}) {
      c.id = KernelId::moe_gemm;
      c.type = type;
      c.matrices = true;
      for (c.x_by_entry = 0; c.x_by_entry < 2; ++c.x_by_entry) {
        group.cases.push_back(c);
        group.cases.back().name += fmt::format(" x_by_entry {}", c.x_by_entry);
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace sluice::test
