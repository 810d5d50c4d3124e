#include "sluice/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "base/text.h"
#include "base/thread_pool.h"
#include "engine/mixture.h"
#include "gguf/parse.h"
#include "quant/quant.h"
#include "sluice/gguf.h"

namespace sluice {
namespace {

constexpr uint64_t kSliceElements = 1u << 21;  // converted at a time: 8 MB as floats

struct TargetType {
  Type type;
  uint32_t file_type;  // general.file_type of a file made of it
  float largest;       // weights above it do not fit its scales
};
struct TargetMixture {
  std::string_view name;
  Type type;
  Mixture mixture;
  uint32_t file_type;
};
constexpr float kHalfMax = 65504.0f;
constexpr float kFloatMax = 3.38e38f;
constexpr TargetType kTargets[] = {
    {Type::F32, 0, INFINITY},        {Type::F16, 1, kHalfMax},          {Type::BF16, 32, kFloatMax},
    {Type::Q4_0, 2, 8 * kHalfMax},   {Type::Q4_1, 3, kHalfMax},         {Type::Q5_0, 8, 16 * kHalfMax},
    {Type::Q5_1, 9, kHalfMax},       {Type::Q8_0, 7, 127 * kHalfMax},   {Type::Q2_K, 10, 8 * kHalfMax},
    {Type::Q3_K, 11, 32 * kHalfMax}, {Type::Q4_K, 14, 32 * kHalfMax},   {Type::Q5_K, 16, 32 * kHalfMax},
    {Type::Q6_K, 18, 32 * kHalfMax}, {Type::IQ4_NL, 25, 64 * kHalfMax}, {Type::IQ4_XS, 30, 64 * kHalfMax},
    {Type::MXFP4, 38, kFloatMax},
};
constexpr TargetMixture kMixtures[] = {
    {"Q3_K_M", Type::Q3_K, Mixture::medium, 12}, {"Q4_K_S", Type::Q4_K, Mixture::small, 14},
    {"Q4_K_M", Type::Q4_K, Mixture::medium, 15}, {"Q5_K_S", Type::Q5_K, Mixture::small, 16},
    {"Q5_K_M", Type::Q5_K, Mixture::medium, 17},
};

const TargetType* find_target(Type type) {
  for (const TargetType& target : kTargets)
    if (target.type == type) return &target;
  return nullptr;
}

const TargetMixture* find_mixture(Type type, Mixture mixture) {
  for (const TargetMixture& target : kMixtures)
    if (target.type == type && target.mixture == mixture) return &target;
  return nullptr;
}

struct Job {
  const gguf::TensorInfo* tensor;
  Type type;
};

bool is_matrix_to_convert(const gguf::TensorInfo& t) {
  size_t n_dims = t.dims.size();
  while (n_dims > 1 && t.dims[n_dims - 1] == 1) --n_dims;
  if (n_dims < 2 || !t.name.ends_with(".weight")) return false;
  // Small and sensitive, whatever their shape.
  for (const char* part : {"norm", "ffn_gate_inp", "shortconv.conv", "rope_", "ssm_conv1d", "position_embd"})
    if (t.name.find(part) != std::string::npos) return false;
  return true;
}

bool is_head(std::string_view name) { return name == "token_embd.weight" || name == "output.weight"; }

// For rows that hold no blocks of 256: the type with blocks of 32 that keeps as much at least.
Type with_small_blocks(Type wanted) {
  switch (wanted) {
    case Type::Q2_K:
    case Type::Q3_K:
    case Type::IQ4_XS:
      return Type::IQ4_NL;
    case Type::Q4_K:
      return Type::Q5_0;
    case Type::Q5_K:
      return Type::Q5_1;
    case Type::Q6_K:
      return Type::Q8_0;
    default:
      return wanted;
  }
}

bool has_fewer_bits(Type a, Type b) {
  const TypeInfo &of_a = type_info(a), &of_b = type_info(b);
  return of_a.block_bytes * of_b.block < of_b.block_bytes * of_a.block;
}

// The type that a matrix should have: the one asked for, or a better one.
Type wanted_type(const gguf::TensorInfo& t, Type asked, const MixtureRule* rule) {
  if (rule != nullptr) return rule->type_for(t.name);
  return is_head(t.name) && has_fewer_bits(asked, Type::Q6_K) ? Type::Q6_K : asked;
}

// The same, or the next one whose blocks divide the rows.
Type type_for(const gguf::TensorInfo& t, Type asked, const MixtureRule* rule) {
  if (!is_matrix_to_convert(t)) return Type::F32;
  Type wanted = wanted_type(t, asked, rule);
  const uint64_t n_row = t.dims[0];
  if (n_row % type_info(wanted).block != 0) wanted = with_small_blocks(wanted);
  return n_row % type_info(wanted).block == 0 ? wanted : Type::F16;
}

bool is_block_type(Type type) { return type_info(type).block > 1; }

class Converter {
 public:
  Converter(const gguf::File& file, gguf::Writer& writer, const QuantizeOptions& options)
      : file_(file), writer_(writer), options_(options), pool_(std::max(options.n_threads, 1u)) {
    for (const gguf::TensorInfo& t : file.tensors()) total_ += t.n_bytes;
  }

  Result<void> write(const Job& job) {
    const std::span<const std::byte> in = file_.data(*job.tensor);
    const bool same = job.tensor->type->type == job.type;
    const uint64_t n_row = std::max<uint64_t>(job.tensor->dims[0], 1), n_rows = job.tensor->n_elements / n_row;
    const uint64_t step = std::max<uint64_t>(kSliceElements / n_row, 1);
    const size_t in_row = quant::row_bytes(job.tensor->type->type, n_row);
    for (uint64_t row = 0; row < n_rows; row += step) {
      const uint64_t n = std::min(step, n_rows - row);
      const auto piece = in.subspan(row * in_row, n * in_row);
      if (same)
        TRY(writer_.data(piece));
      else
        TRY(convert(job, piece, n_row, n));
      done_ += piece.size();
      file_.release(piece);
      if (options_.on_progress && !options_.on_progress(done_, total_))
        return Error{Code::cancelled, "interrupted; nothing was written"};
    }
    return {};
  }

 private:
  Result<void> convert(const Job& job, std::span<const std::byte> in, uint64_t n_row, uint64_t n_rows) {
    const quant::Codec &from = quant::codec(job.tensor->type->type), &to = quant::codec(job.type);
    const size_t in_row = in.size() / n_rows, out_row = quant::row_bytes(job.type, n_row);
    const float largest = find_target(job.type)->largest;
    floats_.resize(n_rows * n_row);
    out_.resize(n_rows * out_row);
    std::vector<char> bad(pool_.size(), 0);
    pool_.run([&](uint32_t idx) {
      for (uint64_t r = n_rows * idx / pool_.size(); r < n_rows * (idx + 1) / pool_.size(); ++r) {
        const std::span<float> row(floats_.data() + r * n_row, n_row);
        from.dequantize(in.data() + r * in_row, row.data(), n_row);
        for (const float x : row)
          if (!(std::fabs(x) <= largest) || std::isinf(x)) bad[idx] = 1;
        if (bad[idx] == 0) to.quantize(row.data(), out_.data() + r * out_row, n_row);
      }
    });
    if (std::find(bad.begin(), bad.end(), 1) != bad.end())
      return Error{
          Code::unsupported,
          fmt::format(
              "tensor '{}' has a weight that is not a number or too large for {}; use BF16 or F32, or check the file",
              printable(job.tensor->name), type_info(job.type).name)};
    return writer_.data(out_);
  }

  const gguf::File& file_;
  gguf::Writer& writer_;
  const QuantizeOptions& options_;
  ThreadPool pool_;
  std::vector<float> floats_;
  std::vector<std::byte> out_;
  uint64_t done_ = 0, total_ = 0;
};

Result<std::vector<Job>> plan(const gguf::File& file, const QuantizeOptions& options, QuantizeReport& report) {
  const Type wanted = options.type;
  std::optional<MixtureRule> rule;
  if (options.mixture != Mixture::none) rule.emplace(file, wanted, options.mixture);
  std::vector<Job> jobs;
  for (const gguf::TensorInfo& t : file.tensors()) {
    if (t.type == nullptr)
      return Error{
          Code::unsupported,
          fmt::format("tensor '{}' has type {}, which cannot be read yet; start from an F16, BF16 or Q8_0 file",
                      printable(t.name), foreign_type_name(t.type_id))};
    const Type type = type_for(t, wanted, rule ? &*rule : nullptr);
    if (is_matrix_to_convert(t) && type != wanted) {
      const bool fits = t.dims[0] % type_info(wanted).block == 0;
      (fits ? report.better : report.fallbacks).push_back(fmt::format("{}: {}", t.name, type_info(type).name));
    }
    if (type != t.type->type && is_block_type(t.type->type)) report.requantized.push_back(t.name);
    ++(type == t.type->type ? report.n_kept : report.n_converted);
    report.in_bytes += t.n_bytes;
    report.out_bytes += t.n_elements / type_info(type).block * type_info(type).block_bytes;
    jobs.push_back({&t, type});
  }
  if (jobs.empty()) return Error{Code::unsupported, "the file has no tensors; give a file with weights"};
  return jobs;
}

}  // namespace

std::vector<std::string> quantize_types() {
  std::vector<std::string> names;
  for (const TargetType& target : kTargets) names.emplace_back(type_info(target.type).name);
  for (const TargetMixture& target : kMixtures) names.emplace_back(target.name);
  return names;
}

std::optional<QuantizeTarget> find_quantize_type(std::string_view name) {
  for (const TargetMixture& target : kMixtures)
    if (target.name == name) return QuantizeTarget{target.type, target.mixture};
  const TypeInfo* info = find_type(name);
  if (info == nullptr || find_target(info->type) == nullptr) return std::nullopt;
  return QuantizeTarget{info->type, Mixture::none};
}

namespace {

Result<std::vector<std::string>> files_of(const gguf::File& file) {
  const gguf::Split split = TRY(gguf::read_split(file.path(), file.metadata()));
  if (split.count == 1) return std::vector{file.path()};
  const std::string stem = TRY(gguf::split_stem(file.path(), split));
  std::vector<std::string> files;
  for (uint32_t no = 0; no < split.count; ++no) files.push_back(gguf::split_path(stem, no, split.count));
  return files;
}

Result<QuantizeReport> convert_file(const std::string& in_path, const std::string& out_path,
                                    const QuantizeOptions& options) {
  const TargetType* target = find_target(options.type);
  if (target == nullptr)
    return Error{Code::invalid_argument,
                 fmt::format("files of {} cannot be written yet; choose another type", type_info(options.type).name)};
  const TargetMixture* mixture = find_mixture(options.type, options.mixture);
  if (mixture == nullptr && options.mixture != Mixture::none)
    return Error{Code::invalid_argument,
                 fmt::format("{} has no such mixture; choose another one", type_info(options.type).name)};
  const gguf::File file = TRY(gguf::File::open(in_path));
  for (const std::string& part : TRY(files_of(file))) {
    std::error_code ignored;
    if (std::filesystem::equivalent(part, out_path, ignored))
      return Error{Code::invalid_argument,
                   fmt::format("{} is input and output; give the output another name", printable_path(part))};
  }
  QuantizeReport report;
  const std::vector<Job> jobs = TRY(plan(file, options, report));
  gguf::Writer writer = TRY(gguf::Writer::create(out_path));
  for (const gguf::KeyValue& kv : file.metadata())
    if (!kv.key.starts_with("split.")) writer.set(kv.key, kv.value);
  writer.set("general.file_type", gguf::Value::of(mixture != nullptr ? mixture->file_type : target->file_type));
  if (is_block_type(options.type)) writer.set("general.quantization_version", gguf::Value::of(uint32_t{2}));
  for (const Job& job : jobs) TRY(writer.declare(job.tensor->name, job.tensor->dims, job.type));
  TRY(writer.write_header());
  Converter converter(file, writer, options);
  for (const Job& job : jobs) TRY(converter.write(job));
  TRY(file.check_whole());
  TRY(writer.finish());
  return report;
}

}  // namespace

Result<QuantizeReport> quantize_file(const std::string& in_path, const std::string& out_path,
                                     const QuantizeOptions& options) {
  try {
    return convert_file(in_path, out_path, options);
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, "no memory is left to convert this file; close other programs"};
  } catch (const std::length_error&) {
    return Error{Code::out_of_memory, "a row of this file needs more memory than a program can have; use another file"};
  } catch (const std::system_error& e) {
    return Error{Code::out_of_memory,
                 fmt::format("the system gives no more threads ({}); give fewer with --threads", e.what())};
  }
}

}  // namespace sluice
