// Cases of gemv and gemm, and of moe_gemv and moe_gemm: each pair has the same outputs.
#pragma once
#include "support/kernel_case.h"

namespace sluice::test {

// Weights whose blocks have unequal scales, in the file's layout and in the key's.
struct Weights {
  std::vector<std::byte> bytes;  // of the layout
  std::vector<float> values;     // (m, k)
};
Weights make_weights(Random& random, Type type, Layout layout, size_t m, size_t k);
const std::vector<Weights>& expert_weights(Type type, Layout layout, uint32_t m, uint32_t k, uint32_t n);
std::vector<std::pair<Type, Layout>> weight_kinds();  // of this build

// How far int8 activations and f32 sums may be from f64 arithmetic on the f32 activations.
inline constexpr double kQ8Bound = 1e-4;

struct MatmulCase {
  std::string name;
  KernelId id = KernelId::gemv;
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint32_t m = 16, k = 256, n_rows = 1;
  float x_scale = 1.0f;
  bool nan_row = false;  // x[0][5] is NaN: row 0 of y must be, no other
  bool of_out = false;   // rows are two per token of out_token, of which there are n_rows / 2
  bool matrices = false;

  KernelKey key() const { return {id, type, layout, matrices ? backend::kMatrixVariant : uint8_t{0}}; }
  std::vector<float> x() const;
  Outputs run(Job& job) const;
  Outputs expected() const;
};

// Every type and layout, all sizes of k that the type allows, with m and the number of rows going round their hazards.
std::vector<Group<MatmulCase>> matmul_cases(KernelId id);

// Of the matrix variants, by type.
std::vector<Group<MatmulCase>> matrix_cases();

enum class Route : uint8_t { spread, all_to_one, last, same_in_token };

struct MoeCase {
  std::string name;
  KernelId id = KernelId::moe_gemv;
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint32_t m = 16, k = 256, n_expert = 8, n_used = 2, n_tokens = 1;
  uint32_t x_by_entry = 0;
  Route route = Route::spread;
  bool absent = false;  // the expert of entry 0 has address 0
  float x_scale = 1.0f;
  bool matrices = false;

  KernelKey key() const { return {id, type, layout, matrices ? backend::kMatrixVariant : uint8_t{0}}; }
  uint32_t n_entries() const { return n_tokens * n_used; }
  std::vector<uint> sel_expert() const;
  std::vector<float> x()
      const;  // n_entries rows, also where only n_tokens are to be read: the wrong choice gives other values
  Outputs run(Job& job) const;
  Outputs expected() const;
};

std::vector<Group<MoeCase>> moe_cases(KernelId id);
std::vector<Group<MoeCase>> moe_matrix_cases();

// What moe_group gives, by a plain sort.
struct Grouped {
  std::vector<uint> offsets, order, tiles;  // tiles: (n_tiles, 2)
};
Grouped group_entries(std::span<const uint> sel_expert, uint32_t n_expert, uint32_t tile_entries);

// f32 (n_rows, k), turned into q8 where the layout wants it.
DevPtr<uint> upload_x(Job& job, Layout layout, std::span<const float> x, size_t k);

}  // namespace sluice::test
