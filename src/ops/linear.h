// Matrix products, embedding rows, and the dense feed-forward network.
#pragma once
#include <initializer_list>
#include <vector>

#include "ops/graph.h"

namespace sluice::ops {

// Steps of at most this many rows take the GEMV kernels. Both give the same bits on a backend that promises it.
inline constexpr uint64_t kGemvRows = 4;

// Of products with `n_matrices` matrices of a weight, `rows` rows in all.
Cost product_cost(const Weight& w, double n_matrices, double rows);

// W x for every row of x.
Tensor linear(Graph& g, const Tensor& x, const Weight& w);
// Several products of one input, computed side by side.
std::vector<Tensor> linears(Graph& g, const Tensor& x, std::initializer_list<const Weight*> weights);
// W x written to memory that outlives the graph.
void linear_into(Graph& g, const Tensor& x, const Weight& w, uint64_t y);
// Whether a step of that many rows multiplies w on cooperative matrices, by kernel `id`.
bool on_matrices(Graph& g, const Weight& w, KernelId id, uint64_t rows);
// Adds b's rows to those at y.
void add_to(Graph& g, uint64_t y, const Tensor& b);
// x in the form that w multiplies: the address of its q8 or f16 rows (made once per tensor) or of its f32 rows.
uint64_t input_for(Graph& g, const Tensor& x, const Weight& w, bool matrices = false);

// f32 rows, or words as long, `stride` of them apart.
struct Columns {
  uint64_t address = 0;
  uint32_t stride = 0;
};
// The first n columns of `from`, to those of `to`.
void copy_columns(Graph& g, Columns to, Columns from, Rows rows, uint32_t n, bool overlaps_previous = false);

// The rows of the step's tokens, times scale, into the residual stream.
Tensor embed(Graph& g, const Weight& w, float scale = 1);
// The rows whose logits are wanted.
Tensor gather_out(Graph& g, const Tensor& x);

// The most probable token of each row of logits, into the graph's memory.
void sample_greedy(Graph& g, uint32_t n_vocab);
// The token that the step's rule for each row draws from its logits, into the same memory.
void sample_by_rules(Graph& g, uint32_t n_vocab);

// Memory for a gated product, in the form that `reader` wants.
Tensor gated_output(Graph& g, Rows rows, uint32_t n, const Weight& reader);
// Whether kernel `id`, both matrices at once, is the way to go: `few` tells whether the products are those of few rows.
bool can_fuse(Graph& g, const Weight& gate, const Weight& up, const Weight& reader, KernelId id, bool few);
// How a gate and a value become one: kernels/swiglu.h. The addresses are all 0, or none.
struct Gating {
  uint32_t activation = kernels::kSilu;
  uint64_t gate_bias = 0, up_bias = 0;  // f32 (n_expert, n)
  uint64_t sel_expert = 0;              // u32 (rows)
};
// act(gate) * up in the form that `reader` wants.
Tensor swiglu(Graph& g, const Tensor& gate, const Tensor& up, const Weight& reader, const Gating& how = {});
// max(x, 0)^2 in the form that `reader` wants.
Tensor relu_squared(Graph& g, const Tensor& x, const Weight& reader);
// act(gate(x)) * up(x) in the form that `reader` wants.
Tensor gate_up(Graph& g, const Tensor& x, const Weight& gate, const Weight& up, const Weight& reader,
               uint32_t activation = kernels::kSilu);
// down(act(gate(x)) * up(x))
Tensor dense_ffn(Graph& g, const Tensor& x, const Weight& gate, const Weight& up, const Weight& down,
                 uint32_t activation = kernels::kSilu);
// cap * tanh(y / cap) of the rows of logits, in the graph's memory.
void softcap_logits(Graph& g, uint32_t n_vocab, float cap);
// down(max(up(x), 0)^2)
Tensor relu_squared_ffn(Graph& g, const Tensor& x, const Weight& up, const Weight& down);

}  // namespace sluice::ops
