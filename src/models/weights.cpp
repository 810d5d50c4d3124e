#include "models/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/cpu_info.h"
#include "base/text.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice::models {
namespace {

using backend::KernelId;
using backend::Layout;
using backend::Use;

// An unpacked row must fit the scratch memory of a CPU kernel.
constexpr uint32_t kMostColumns = 1u << 20;

std::string dims_text(const std::vector<uint64_t>& dims) {
  std::string text;
  for (uint64_t d : dims) text += fmt::format("{}{}", text.empty() ? "" : " x ", d);
  return text;
}

// Of "blk.3.ffn_norm.weight": 3.
std::optional<uint32_t> block_of(const std::string& name) {
  unsigned block = 0;
  return std::sscanf(name.c_str(), "blk.%u.", &block) == 1 ? std::optional<uint32_t>(block) : std::nullopt;
}

// Shapes that differ only in trailing ones are the same.
std::vector<uint64_t> trimmed(std::vector<uint64_t> dims) {
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

}  // namespace

Result<const gguf::TensorInfo*> WeightLoader::find(const std::string& name, const std::vector<uint64_t>& dims) {
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (info == nullptr) {
    return Error(Code::corrupt_file, fmt::format("tensor '{}' is missing; the file is incomplete or of another layout: "
                                                 "convert or download the model again",
                                                 name));
  }
  if (info->type == nullptr) {
    return Error(Code::unsupported,
                 fmt::format("tensor '{}' has type {}, which is not supported; use a file with another "
                             "quantisation",
                             name, foreign_type_name(info->type_id)));
  }
  if (trimmed(info->dims) != trimmed(dims)) {
    return Error(Code::corrupt_file,
                 fmt::format("tensor '{}' is {}, and the metadata asks for {}; download the file again", name,
                             dims_text(info->dims), dims_text(dims)));
  }
  if (dims.size() > 1 && dims[0] > kMostColumns) {
    return Error(Code::unsupported,
                 fmt::format("tensor '{}' has rows of {} values, more than this program allows ({}); use another model",
                             name, dims[0], kMostColumns));
  }
  if (asked_.insert(name).second) asked_bytes_ += info->n_bytes;
  return info;
}

Result<uint64_t> WeightLoader::keep(backend::Buffer buffer, bool allocated) {
  const uint64_t address = buffer.address();
  if (allocated) memory_.n_bytes += buffer.size();
  memory_.buffers.push_back(std::move(buffer));
  return address;
}

Result<std::optional<uint64_t>> WeightLoader::in_place(std::span<const std::byte> bytes) {
  auto adopted = backend_->adopt(bytes, Use::weights);
  if (!adopted && adopted.error().code != Code::unsupported) return std::move(adopted.error());
  if (!adopted) return std::optional<uint64_t>();
  return std::optional<uint64_t>(TRY(keep(std::move(*adopted), false)));
}

void WeightLoader::count(uint64_t n_bytes, std::optional<uint32_t> expert_layer) {
  constexpr uint64_t kAlign = 256;  // as small allocations share blocks
  n_bytes = (n_bytes + kAlign - 1) / kAlign * kAlign;
  (expert_layer ? sizes_.experts[*expert_layer] : sizes_.rest) += n_bytes;
}

Result<std::vector<uint64_t>> WeightLoader::allocate(uint64_t matrix_bytes, uint64_t n, Use use) {
  constexpr uint64_t kSlack = 64;  // backends round sizes up
  const uint64_t limit = backend_->caps().max_allocation_bytes;
  const uint64_t at_once =
      limit == 0 ? n : std::clamp<uint64_t>((limit - std::min(limit, kSlack)) / matrix_bytes, 1, n);
  std::vector<uint64_t> addresses;
  while (addresses.size() < n) {
    const uint64_t here = std::min(at_once, n - addresses.size());
    backend::Buffer buffer = TRY(backend_->allocate(here * matrix_bytes, use));
    const uint64_t base = TRY(keep(std::move(buffer), true));
    for (uint64_t i = 0; i < here; ++i) addresses.push_back(base + i * matrix_bytes);
  }
  return addresses;
}

Result<void> WeightLoader::expert_table(ops::Weight& w, const std::vector<uint64_t>& addresses) {
  backend::Buffer buffer = TRY(backend_->allocate(addresses.size() * sizeof(uint64_t), Use::weights));
  TRY(backend_->upload(buffer.address(), std::as_bytes(std::span(addresses))));
  w.expert_table = TRY(keep(std::move(buffer), true));
  return {};
}

Result<std::vector<const gguf::TensorInfo*>> WeightLoader::find_parts(const std::string& name, uint32_t n_expert,
                                                                      uint32_t m, uint32_t k) {
  std::vector<const gguf::TensorInfo*> parts;
  const size_t at = name.find("_exps.");
  const auto part_name = [&](uint32_t e) { return fmt::format("{}.{}{}", name.substr(0, at), e, name.substr(at + 5)); };
  if (n_expert == 0 || has(name) || at == name.npos || !has(part_name(0))) {
    std::vector<uint64_t> dims = {k, m};
    if (n_expert != 0) dims.push_back(n_expert);
    parts.push_back(TRY(find(name, dims)));
    return parts;
  }
  for (uint32_t e = 0; e < n_expert; ++e) {
    parts.push_back(TRY(find(part_name(e), {k, m})));
    if (parts[e]->type != parts[0]->type) {
      return Error(Code::unsupported, fmt::format("tensor '{}' has another type than that of the first expert; use a "
                                                  "file with one type for all experts of a layer",
                                                  part_name(e)));
    }
  }
  return parts;
}

bool WeightLoader::packs(Type type, uint32_t n_expert) const {
  const KernelId product = n_expert != 0 ? KernelId::moe_gemv : KernelId::gemv;
  return repack_ && quant::has_panel16(type) && backend_->has({.id = product, .type = type, .layout = Layout::panel16});
}

Result<ops::Weight> WeightLoader::weight(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k,
                                         bool may_repack) {
  const auto parts = TRY(find_parts(name, n_expert, m, k));
  ops::Weight w = TRY(weight(name, parts, n_expert, m, k, may_repack, {.every = m}));
  TRY(add_low_rank(w, name));
  return w;
}

Result<ops::Weight> WeightLoader::weight(const std::string& name, const std::vector<const gguf::TensorInfo*>& parts,
                                         uint32_t n_expert, uint32_t m, uint32_t k, bool may_repack, Cut cut) {
  ops::Weight w;
  w.type = parts[0]->type->type;
  w.m = m;
  w.k = k;
  w.n_expert = n_expert;
  w.matrix_bytes = quant::row_bytes(w.type, k) * m;
  const uint64_t n_matrices = std::max(n_expert, 1u), source_bytes = w.matrix_bytes;
  const bool experts = n_expert != 0 && name.find("_exps.") != name.npos;
  const std::optional<uint32_t> layer = experts ? block_of(name) : std::nullopt;
  count(n_matrices * source_bytes, layer);
  if (n_expert != 0) count(n_expert * sizeof(uint64_t), std::nullopt);
  if (backend_ == nullptr) return w;

  const bool packs = may_repack && this->packs(w.type, n_expert);
  const uint64_t n_in_part = n_matrices / parts.size(), row_bytes = quant::row_bytes(w.type, k);
  const auto source = [&](uint64_t i) {  // in its part
    return (cut.first + i % n_in_part * cut.every) * row_bytes;
  };
  std::vector<uint64_t> addresses;
  if (packs) {
    w.layout = Layout::panel16;
    w.matrix_bytes = quant::panel16_bytes(w.type, m, k);
  } else {
    if (type_info(w.type).block > 1 && may_repack && repack_ && backend_->caps().unified &&
        !backend_->caps().reference) {
      slow_.push_back(fmt::format("{} ({})", name, type_info(w.type).name));
    }
    for (const gguf::TensorInfo* part : parts) {
      const std::optional<uint64_t> base = TRY(in_place(file_.data(*part)));
      for (uint64_t i = 0; base && i < n_in_part; ++i) addresses.push_back(*base + source(i));
    }
  }
  if (addresses.empty()) {
    const bool on_host = layer && host_layers_.contains(*layer);
    addresses = TRY(allocate(w.matrix_bytes, n_matrices, on_host ? Use::host_weights : Use::weights));
    for (uint64_t e = 0; e < n_matrices; ++e)
      jobs_.push_back({w.type, file_.data(*parts[e / n_in_part]).data() + source(e), m, k, addresses[e], packs});
  }
  w.address = addresses[0];
  if (n_expert != 0) TRY(expert_table(w, addresses));
  return w;
}

Result<ops::Weight> WeightLoader::f32_weight(std::span<const float> values, uint32_t n_expert, uint32_t m, uint32_t k) {
  ops::Weight w;
  w.m = m;
  w.k = k;
  w.n_expert = n_expert;
  w.matrix_bytes = uint64_t{m} * k * sizeof(float);
  count(w.matrix_bytes * std::max(n_expert, 1u), std::nullopt);
  if (n_expert != 0) count(n_expert * sizeof(uint64_t), std::nullopt);
  if (backend_ == nullptr) return w;
  const std::vector<uint64_t> addresses = TRY(allocate(w.matrix_bytes, std::max(n_expert, 1u), Use::weights));
  for (size_t e = 0; e < addresses.size(); ++e)
    TRY(backend_->upload(addresses[e], std::as_bytes(values.subspan(e * m * k, uint64_t{m} * k))));
  w.address = addresses[0];
  if (n_expert != 0) TRY(expert_table(w, addresses));
  return w;
}

Result<void> WeightLoader::add_low_rank(ops::Weight& w, const std::string& name) {
  // The embedding is looked up, not multiplied, and may be the output matrix as well.
  if (name != "token_embd.weight") adaptable_.insert(name);
  for (const Adapter& adapter : adapters_) {
    if (!adapter.changes(name)) continue;
    const Adapter::Factors factors = TRY(adapter.factors(name, w.n_expert, w.m, w.k));
    if (!w.low_rank) w.low_rank = std::make_shared<std::vector<ops::LowRank>>();
    w.low_rank->push_back({.a = TRY(f32_weight(factors.a, w.n_expert, factors.rank, w.k)),
                           .b = TRY(f32_weight(factors.b, w.n_expert, w.m, factors.rank))});
  }
  return {};
}

Result<void> WeightLoader::check_adapters() const {
  for (const Adapter& adapter : adapters_) TRY(adapter.check_all_used(adaptable_));
  return {};
}

Result<ops::Weight> WeightLoader::matrix(const std::string& name, uint32_t m, uint32_t k) {
  return weight(name, 0, m, k, true);
}

Result<ops::Weight> WeightLoader::gathered_rows(const std::string& name, uint32_t n_rows, uint32_t k,
                                                std::span<const RowRun> runs) {
  const gguf::TensorInfo* info = TRY(find(name, {k, n_rows}));
  ops::Weight w;
  w.type = info->type->type;
  w.k = k;
  bool whole_panels = true;  // but for the last rows
  for (const RowRun& run : runs) {
    whole_panels = whole_panels && w.m % quant::kPanelRows == 0;
    w.m += run.n;
  }
  const uint64_t row_bytes = quant::row_bytes(w.type, k);
  w.matrix_bytes = row_bytes * w.m;
  count(w.matrix_bytes, std::nullopt);
  if (backend_ == nullptr) return w;
  const bool packs = whole_panels && this->packs(w.type, 0);
  if (packs) {
    w.layout = Layout::panel16;
    w.matrix_bytes = quant::panel16_bytes(w.type, w.m, k);
  }
  w.address = TRY(allocate(w.matrix_bytes, 1, Use::weights))[0];
  uint64_t at = w.address;
  for (const RowRun& run : runs) {
    jobs_.push_back({w.type, file_.data(*info).data() + run.first * row_bytes, run.n, k, at, packs});
    at += run.n * row_bytes;  // a whole panel has the bytes of its rows
  }
  return w;
}

Result<ops::Weight> WeightLoader::exact_matrix(const std::string& name, uint32_t m, uint32_t k) {
  return weight(name, 0, m, k, false);
}

Result<ops::Weight> WeightLoader::stack(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k) {
  return weight(name, n_expert, m, k, true);
}

Result<ops::Weight> WeightLoader::rows(const std::string& name, uint32_t n_rows, uint32_t first, uint32_t m,
                                       uint32_t k) {
  return weight(name, {TRY(find(name, {k, n_rows}))}, 0, m, k, true, {.first = first});
}

Result<ops::Weight> WeightLoader::stack_of_rows(const std::string& name, uint32_t n, uint32_t n_rows, uint32_t first,
                                                uint32_t m, uint32_t k) {
  const gguf::TensorInfo* stored = file_.find_tensor(name);
  const bool is_stack = stored != nullptr && stored->dims.size() == 3;
  const std::vector<uint64_t> dims =
      is_stack ? std::vector<uint64_t>{k, n_rows, n} : std::vector<uint64_t>{k, uint64_t{n} * n_rows};
  const gguf::TensorInfo* info = TRY(find(name, dims));
  return weight(name, {info}, n, m, k, true, {.first = first, .every = n_rows});
}

Result<ops::Weight> WeightLoader::stack_of_columns(const std::string& name, uint32_t n, uint32_t n_rows, uint32_t first,
                                                   uint32_t m, uint32_t k) {
  const gguf::TensorInfo* info = TRY(find(name, {k, uint64_t{n} * n_rows}));
  std::vector<float> row(k), turned(backend_ != nullptr ? uint64_t{n} * m * k : 0);
  const quant::Codec& codec = quant::codec(info->type->type);
  const uint64_t row_bytes = quant::row_bytes(info->type->type, k);
  for (uint64_t i = 0; backend_ != nullptr && i < n; ++i) {
    for (uint64_t r = 0; r < m; ++r) {
      codec.dequantize(file_.data(*info).data() + (i * n_rows + first + r) * row_bytes, row.data(), k);
      for (uint64_t c = 0; c < k; ++c) turned[(i * k + c) * m + r] = row[c];
    }
  }
  return f32_weight(turned, n, k, m);
}

Result<ops::Vector> WeightLoader::vector(const std::string& name, const std::vector<uint64_t>& dims, float scale) {
  const gguf::TensorInfo* info = TRY(find(name, dims));
  ops::Vector v;
  v.n = static_cast<uint32_t>(info->n_elements);
  count(info->n_elements * sizeof(float), std::nullopt);
  if (backend_ == nullptr) return v;
  if (info->type->type == Type::F32 && scale == 1) {
    const std::span<const std::byte> source = file_.data(*info);
    if (const std::optional<uint64_t> address = TRY(in_place(source))) {
      v.address = *address;
      return v;
    }
    v.address = TRY(allocate(source.size(), 1, Use::weights))[0];
    jobs_.push_back({Type::F32, source.data(), 1, v.n, v.address, false});
    return v;
  }
  std::vector<float> values(v.n);
  quant::codec(info->type->type).dequantize(file_.data(*info).data(), values.data(), values.size());
  for (float& value : values) value *= scale;
  backend::Buffer buffer = TRY(backend_->allocate(values.size() * sizeof(float), Use::weights));
  TRY(backend_->upload(buffer.address(), std::as_bytes(std::span(values))));
  v.address = TRY(keep(std::move(buffer), true));
  return v;
}

Result<ops::Vector> WeightLoader::constant(uint32_t n, float value) {
  const std::vector<float> values(n, value);
  count(n * sizeof(float), std::nullopt);
  if (backend_ == nullptr) return ops::Vector{.n = n};
  const uint64_t address = TRY(allocate(n * sizeof(float), 1, Use::weights))[0];
  TRY(backend_->upload(address, std::as_bytes(std::span(values))));
  return ops::Vector{address, n};
}

Result<float> WeightLoader::number(const std::string& name) {
  const gguf::TensorInfo* info = TRY(find(name, {1}));
  float value = 1;
  if (backend_ != nullptr) quant::codec(info->type->type).dequantize(file_.data(*info).data(), &value, 1);
  return value;
}

Result<std::vector<float>> WeightLoader::rope_factors(const std::string& name, uint32_t n) {
  const gguf::TensorInfo* info = TRY(find(name, {n}));
  std::vector<float> values(n);
  if (backend_ == nullptr) return values;
  quant::codec(info->type->type).dequantize(file_.data(*info).data(), values.data(), values.size());
  for (const float value : values) {
    if (!(value > 0))
      return Error(Code::corrupt_file, fmt::format("tensor '{}' divides by {}; download the file again", name, value));
  }
  return values;
}

Result<std::vector<std::string>> WeightLoader::unused(uint32_t n_layer) const {
  // Blocks past the last layer are drafting heads where one of their tensors says so; else the file has layers that
  // were not computed.
  std::set<uint32_t> drafting;
  for (const gguf::TensorInfo& info : file_.tensors()) {
    const auto block = block_of(info.name);
    if (block && info.name.find("nextn") != info.name.npos) drafting.insert(*block);
  }
  std::vector<std::string> names;
  for (const gguf::TensorInfo& info : file_.tensors()) {
    if (asked_.contains(info.name)) continue;
    const std::string_view name = info.name;
    names.push_back(printable(name));
    const auto block = block_of(info.name);
    const bool drafts = name.find("nextn") != name.npos || (block && *block >= n_layer && drafting.contains(*block));
    if (drafts) continue;
    const bool in_model =
        block || name.starts_with("output") || name.starts_with("rope_") || name.starts_with("token_embd");
    const bool matters = name.ends_with(".bias") || name.ends_with(".scale") || name.starts_with("rope_f") ||
                         name.ends_with("_norm.weight") || name.find("_scale") != name.npos ||
                         name.find("sinks") != name.npos || name.find("shexp") != name.npos ||
                         (block && *block >= n_layer);
    if (in_model && matters) {
      return Error(Code::unsupported,
                   fmt::format("tensor '{}' would change the arithmetic, and this architecture has no place for it "
                               "here; use another conversion of the model",
                               printable(name)));
    }
  }
  return names;
}

Result<void> WeightLoader::load(uint32_t n_threads, const std::function<bool(uint64_t, uint64_t)>& progress) {
  // Small, so that the file's pages can go as soon as they are packed; larger than a huge page, since threads that
  // touch a new one together both have it cleared.
  constexpr uint64_t kPieceBytes = 4 << 20;
  std::vector<Job> pieces;
  uint64_t total = 0;
  for (const Job& job : jobs_) {
    const uint64_t row_bytes = quant::row_bytes(job.type, job.k), panel_bytes = row_bytes * quant::kPanelRows;
    const uint64_t rows = std::max<uint64_t>(1, kPieceBytes / panel_bytes) * quant::kPanelRows;
    for (uint64_t row = 0; row < job.n_rows; row += rows) {
      pieces.push_back({job.type, job.source + row * row_bytes, std::min(rows, job.n_rows - row), job.k,
                        job.destination + row / quant::kPanelRows * panel_bytes, job.packs});
    }
    total += job.n_rows * row_bytes;
  }
  std::atomic<uint64_t> next{0}, done{0};
  std::atomic<bool> cancelled{false};
  const bool unified = backend_->caps().unified;
  std::mutex upload_mutex;
  std::optional<Error> failed;
  const auto send = [&](uint64_t destination, std::span<const std::byte> bytes) {
    const std::lock_guard lock(upload_mutex);
    if (auto sent = backend_->upload(destination, bytes); !sent) {
      failed = std::move(sent.error());
      cancelled = true;
    }
  };
  const auto work = [&](bool reports) {
    std::vector<std::byte> packed;
    for (uint64_t i = next.fetch_add(1); i < pieces.size() && !cancelled; i = next.fetch_add(1)) {
      const Job& piece = pieces[i];
      const uint64_t n_bytes = piece.n_rows * quant::row_bytes(piece.type, piece.k);
      if (!piece.packs) {
        send(piece.destination, {piece.source, n_bytes});
      } else if (unified) {
        quant::pack_panel16(piece.type, piece.source, piece.n_rows, piece.k,
                            reinterpret_cast<std::byte*>(piece.destination));
      } else {
        packed.resize(quant::panel16_bytes(piece.type, piece.n_rows, piece.k));
        quant::pack_panel16(piece.type, piece.source, piece.n_rows, piece.k, packed.data());
        send(piece.destination, packed);
      }
      file_.release({piece.source, n_bytes});
      const uint64_t so_far = done += n_bytes;
      if (reports && progress && !progress(so_far, total)) cancelled = true;
    }
  };
  std::vector<std::thread> threads;
  try {
    for (uint32_t i = 1; i < n_threads && pieces.size() > 4; ++i) threads.emplace_back(work, false);
  } catch (const std::system_error&) {
    // Fewer threads do.
  }
  work(true);
  for (std::thread& thread : threads) thread.join();
  jobs_.clear();
  if (failed) return std::move(*failed);
  if (cancelled) return Error(Code::cancelled, "loading was stopped; start again");
  if (progress) progress(total, total);
  return {};
}

Result<ops::RopeTable> make_rope_table(backend::Backend& backend, WeightMemory& memory, uint32_t n_ctx, uint32_t n_rot,
                                       float base, uint32_t style, std::span<const float> factors, float magnitude) {
  constexpr uint32_t kChunk = 1024;
  const uint32_t n_pairs = n_rot / 2;
  const auto scale = static_cast<double>(magnitude);
  const uint64_t row_bytes = uint64_t{n_pairs} * 2 * sizeof(float);
  if (const uint64_t free = read_memory_info().available_bytes; free != 0 && n_ctx * row_bytes > free / 2) {
    return Error(Code::out_of_memory,
                 fmt::format("{} positions need a table of {:.1f} GB, too much for the {:.1f} GB that are free; "
                             "give a smaller --ctx-size",
                             n_ctx, static_cast<double>(n_ctx * row_bytes) / 1e9, static_cast<double>(free) / 1e9));
  }
  std::vector<double> frequency(n_pairs);
  for (uint32_t i = 0; i < n_pairs; ++i) {
    frequency[i] = std::pow(static_cast<double>(base), -2.0 * i / n_rot);
    if (!factors.empty()) frequency[i] /= static_cast<double>(factors[i]);
  }
  // Position = chunk + offset: the sines of both, and the addition theorem, in double.
  std::vector<double> offset(uint64_t{std::min(n_ctx, kChunk)} * n_pairs * 2);
  for (uint64_t at = 0; at < offset.size(); at += 2) {
    const uint64_t position = at / 2 / n_pairs;
    const double angle = static_cast<double>(position) * frequency[at / 2 % n_pairs];
    offset[at] = std::cos(angle);
    offset[at + 1] = std::sin(angle);
  }
  backend::Buffer buffer = TRY(backend.allocate(n_ctx * row_bytes, Use::weights));
  std::vector<float> rows(offset.size());
  for (uint32_t first = 0; first < n_ctx; first += kChunk) {
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const double c = std::cos(first * frequency[i]), s = std::sin(first * frequency[i]);
      for (uint64_t at = uint64_t{i} * 2; at < rows.size(); at += uint64_t{n_pairs} * 2) {
        rows[at] = static_cast<float>(scale * (c * offset[at] - s * offset[at + 1]));
        rows[at + 1] = static_cast<float>(scale * (s * offset[at] + c * offset[at + 1]));
      }
    }
    const uint64_t n_bytes = std::min(kChunk, n_ctx - first) * row_bytes;
    TRY(backend.upload(buffer.address() + first * row_bytes, std::as_bytes(std::span(rows)).first(n_bytes)));
  }
  ops::RopeTable table{buffer.address(), n_rot, style};
  memory.n_bytes += buffer.size();
  memory.buffers.push_back(std::move(buffer));
  return table;
}

}  // namespace sluice::models
