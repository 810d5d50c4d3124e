#include "models/latent_config.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace sluice::models {
namespace {

// What the attention kernels and their scratch memory allow, as in attention_config.cpp.
constexpr uint32_t kMostCached = 1024, kMostHeadSize = 1024, kMostHeads = 4096;
constexpr uint64_t kMostGroupValues = 1u << 17;

}  // namespace

Result<LatentConfig> read_latent(Metadata& meta, Config& config) {
  LatentConfig latent;
  ops::LatentShape& shape = latent.shape;
  shape.n_head = TRY(meta.count("attention.head_count"));
  TRY(meta.number_or("attention.head_count_kv", 1));  // 1 or all of them: one vector serves all heads either way
  latent.q_rank = TRY(meta.number_or("attention.q_lora_rank", 0));
  shape.kv_rank = TRY(meta.count("attention.kv_lora_rank"));
  shape.n_rot = TRY(meta.count("rope.dimension_count"));
  // Where the file has sizes of a head, the others are those of what is cached.
  const uint32_t d_k = meta.has("attention.key_length_mla") ? TRY(meta.count("attention.key_length_mla"))
                                                            : TRY(meta.count("attention.key_length"));
  shape.d_v = meta.has("attention.value_length_mla") ? TRY(meta.count("attention.value_length_mla"))
                                                     : TRY(meta.count("attention.value_length"));
  TRY(meta.number_or("attention.key_length", 0));
  TRY(meta.number_or("attention.value_length", 0));
  if (shape.n_rot >= d_k || shape.n_rot % 2 != 0) {
    return Error(Code::corrupt_file,
                 fmt::format("metadata rotates {} of {} values of a head; download the file again", shape.n_rot, d_k));
  }
  shape.d_plain = d_k - shape.n_rot;
  const uint64_t n_cached = uint64_t{shape.kv_rank} + shape.n_rot;
  if (n_cached > kMostCached || d_k > kMostHeadSize || shape.d_v > kMostHeadSize || shape.n_head > kMostHeads ||
      latent.q_rank > (1u << 18) || shape.n_head * n_cached > kMostGroupValues) {
    return Error(Code::unsupported,
                 fmt::format("{} heads of {} and {} values over {} cached ones are more than this program allows; use "
                             "another model",
                             shape.n_head, d_k, shape.d_v, n_cached));
  }
  shape.eps = config.eps;
  shape.scale = 1 / std::sqrt(static_cast<float>(d_k));
  // Yarn's magnitude: on the scores of the whole head where this key says so, else on the rotated part alone.
  const float log_multiplier = TRY(meta.float_or("rope.scaling.yarn_log_multiplier", 0));
  if (log_multiplier != 0 && config.rope.kind == RopeScaling::Kind::yarn) {
    const float magnitude = 1 + log_multiplier * std::log(config.rope.factor);
    shape.scale *= magnitude * magnitude;
    config.rope.magnitude /= yarn_magnitude(config.rope.factor);
  }
  config.n_rot = shape.n_rot;
  for (LayerSpec& layer : config.layers) {
    layer.n_kv_head = 1;
    layer.d_k = static_cast<uint32_t>(n_cached);
    layer.d_v = shape.kv_rank;
  }
  return latent;
}

Result<ops::LatentWeights> load_latent(WeightLoader& loader, const LatentConfig& latent, const Config& config,
                                       const std::string& prefix) {
  const ops::LatentShape& s = latent.shape;
  const uint32_t n_q = s.n_head * (s.d_plain + s.n_rot), n_kv = s.kv_rank + s.n_rot;
  ops::LatentWeights w;
  if (latent.q_rank != 0) {
    w.q_down = TRY(loader.matrix(prefix + "attn_q_a.weight", latent.q_rank, config.n_embd));
    w.q_norm = TRY(loader.vector(prefix + "attn_q_a_norm.weight", {latent.q_rank}));
    w.q = TRY(loader.matrix(prefix + "attn_q_b.weight", n_q, latent.q_rank));
  } else {
    w.q = TRY(loader.matrix(prefix + "attn_q.weight", n_q, config.n_embd));
  }
  w.kv = TRY(loader.rows(prefix + "attn_kv_a_mqa.weight", n_kv, 0, s.kv_rank, config.n_embd));
  w.k_rot = TRY(loader.rows(prefix + "attn_kv_a_mqa.weight", n_kv, s.kv_rank, s.n_rot, config.n_embd));
  w.kv_norm = TRY(loader.vector(prefix + "attn_kv_a_norm.weight", {s.kv_rank}));
  if (const std::string both = prefix + "attn_kv_b.weight"; loader.has(both)) {
    const uint32_t n_rows = s.d_plain + s.d_v;  // of a head
    w.k_up = TRY(loader.stack_of_columns(both, s.n_head, n_rows, 0, s.d_plain, s.kv_rank));
    w.v_up = TRY(loader.stack_of_rows(both, s.n_head, n_rows, s.d_plain, s.d_v, s.kv_rank));
  } else {
    w.k_up = TRY(loader.stack(prefix + "attn_k_b.weight", s.n_head, s.kv_rank, s.d_plain));
    w.v_up = TRY(loader.stack(prefix + "attn_v_b.weight", s.n_head, s.d_v, s.kv_rank));
  }
  w.o = TRY(loader.matrix(prefix + "attn_output.weight", config.n_embd, s.n_head * s.d_v));
  return w;
}

Result<uint64_t> make_head_ids(backend::Backend& backend, WeightMemory& memory, uint32_t n) {
  std::vector<uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0u);
  backend::Buffer buffer = TRY(backend.allocate(n * sizeof(uint32_t), backend::Use::weights));
  TRY(backend.upload(buffer.address(), std::as_bytes(std::span(ids))));
  const uint64_t address = buffer.address();
  memory.n_bytes += buffer.size();
  memory.buffers.push_back(std::move(buffer));
  return address;
}

}  // namespace sluice::models
