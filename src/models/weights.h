// Tensors of a file into device memory: checked by name and shape, laid out for the backend's kernels.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/adapter.h"
#include "ops/graph.h"
#include "sluice/gguf.h"

namespace sluice::models {

// The device memory of a model's weights; keep it as long as the model.
struct WeightMemory {
  std::vector<backend::Buffer> buffers;
  uint64_t n_bytes = 0;  // allocated, not counting what is used in place from the map
};

// What weights take in device memory, each as the file has it.
struct WeightSizes {
  uint64_t rest = 0;                     // all but experts
  std::map<uint32_t, uint64_t> experts;  // by layer
};

// Rows of a matrix in a file, one behind the other.
struct RowRun {
  uint32_t first = 0, n = 0;
};

class WeightLoader {
 public:
  // `repack`: into the layouts of the fast kernels where the backend has them. `dry`: check names and shapes only.
  WeightLoader(const gguf::File& file, backend::Backend* backend, bool repack)
      : file_(file), backend_(backend), repack_(repack) {}
  // The experts of these layers lie in host memory, where the device reads them in place.
  void set_host_layers(std::span<const uint32_t> layers) { host_layers_ = {layers.begin(), layers.end()}; }

  // These change the weights that they name. They must outlive the loader's last load().
  void set_adapters(std::span<const Adapter> adapters) { adapters_ = adapters; }

  // Each names the tensor in its error where it is missing or has another shape. Contents come with load().
  Result<ops::Weight> matrix(const std::string& name, uint32_t m, uint32_t k);
  // Some rows of a tensor of n_rows, in the order of the runs.
  Result<ops::Weight> gathered_rows(const std::string& name, uint32_t n_rows, uint32_t k, std::span<const RowRun> runs);
  // Rows first .. first + m - 1 of a tensor of n_rows.
  Result<ops::Weight> rows(const std::string& name, uint32_t n_rows, uint32_t first, uint32_t m, uint32_t k);
  // One matrix per expert; "blk.0.ffn_up_exps.weight" may come as "blk.0.ffn_up.E.weight", as older files have it.
  Result<ops::Weight> stack(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k);
  // A stack of n matrices of rows first .. first + m - 1 of every n_rows of a tensor of n * n_rows, or (n, n_rows).
  Result<ops::Weight> stack_of_rows(const std::string& name, uint32_t n, uint32_t n_rows, uint32_t first, uint32_t m,
                                    uint32_t k);
  // The same rows turned into columns, as f32: a stack of n matrices of k rows of m values.
  Result<ops::Weight> stack_of_columns(const std::string& name, uint32_t n, uint32_t n_rows, uint32_t first, uint32_t m,
                                       uint32_t k);
  // A matrix whose products must not round their input: the router.
  Result<ops::Weight> exact_matrix(const std::string& name, uint32_t m, uint32_t k);
  // As f32, whatever the file holds, times scale. `dims` in the file's order.
  Result<ops::Vector> vector(const std::string& name, const std::vector<uint64_t>& dims, float scale = 1);
  // n equal numbers.
  Result<ops::Vector> constant(uint32_t n, float value);
  // The one number of a tensor; 1 in a dry run.
  Result<float> number(const std::string& name);
  // Divisors of the rotary angles, for make_rope_table: n positive numbers.
  Result<std::vector<float>> rope_factors(const std::string& name, uint32_t n);
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  // Tensors that nobody asked for. `unsupported` where one of them would change the arithmetic.
  Result<std::vector<std::string>> unused(uint32_t n_layer) const;
  // An error where an adapter changes a tensor that nobody asked for as a weight.
  Result<void> check_adapters() const;
  const std::vector<std::string>& slow() const { return slow_; }

  // Fills everything asked for, with all threads, and lets go of the file's pages as they are consumed.
  Result<void> load(uint32_t n_threads, const std::function<bool(uint64_t, uint64_t)>& progress);
  WeightMemory take_memory() { return std::move(memory_); }
  uint64_t asked_bytes() const { return asked_bytes_; }
  const WeightSizes& sizes() const { return sizes_; }

 private:
  struct Job {
    Type type;
    const std::byte* source;
    uint64_t n_rows, k;  // whole panels, or the last rows of a matrix
    uint64_t destination;
    bool packs;  // else the bytes go as they are
  };

  Result<const gguf::TensorInfo*> find(const std::string& name, const std::vector<uint64_t>& dims);
  // The tensors that hold a weight: one, or one for each expert.
  Result<std::vector<const gguf::TensorInfo*>> find_parts(const std::string& name, uint32_t n_expert, uint32_t m,
                                                          uint32_t k);
  // Matrix i of a weight begins at row first + i * every of its tensor, or of the parts one behind the other.
  struct Cut {
    uint64_t first = 0, every = 0;
  };
  Result<ops::Weight> weight(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k, bool may_repack);
  Result<void> add_low_rank(ops::Weight& w, const std::string& name);
  // An f32 weight whose values are not in the file: (n_expert, m, k), or (m, k) where n_expert is 0.
  Result<ops::Weight> f32_weight(std::span<const float> values, uint32_t n_expert, uint32_t m, uint32_t k);
  Result<uint64_t> keep(backend::Buffer buffer, bool allocated);
  // Whether the backend has kernels for panels of that type.
  bool packs(Type type, uint32_t n_expert) const;
  Result<ops::Weight> weight(const std::string& name, const std::vector<const gguf::TensorInfo*>& parts,
                             uint32_t n_expert, uint32_t m, uint32_t k, bool may_repack, Cut cut);
  // Address of bytes used in place; none where the backend cannot.
  Result<std::optional<uint64_t>> in_place(std::span<const std::byte> bytes);
  // New memory for n matrices, in as few buffers as the backend's limit allows.
  Result<std::vector<uint64_t>> allocate(uint64_t matrix_bytes, uint64_t n, backend::Use use);
  void count(uint64_t n_bytes, std::optional<uint32_t> expert_layer);
  Result<void> expert_table(ops::Weight& w, const std::vector<uint64_t>& addresses);

  const gguf::File& file_;
  backend::Backend* backend_;
  bool repack_;
  WeightMemory memory_;
  std::vector<Job> jobs_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> slow_;
  uint64_t asked_bytes_ = 0;
  WeightSizes sizes_;
  std::set<uint32_t> host_layers_;
  std::span<const Adapter> adapters_;
  std::set<std::string, std::less<>> adaptable_;  // names of weights that were asked for
};

// cos and sin of every position and pair, times magnitude: angle = position / base^(2 i / n_rot), divided by the pair's
// factor where there are any. Models ask load_rope_table (rope_scaling.h).
Result<ops::RopeTable> make_rope_table(backend::Backend& backend, WeightMemory& memory, uint32_t n_ctx, uint32_t n_rot,
                                       float base, uint32_t style, std::span<const float> factors = {},
                                       float magnitude = 1);

}  // namespace sluice::models
