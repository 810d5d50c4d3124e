// sluice inspect
#include <algorithm>
#include <map>

#include "base/cpu_info.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/hub_model.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "sluice/gguf.h"

namespace sluice::cli {
namespace {

constexpr size_t kShownElements = 6;

struct TypeTotal {
  uint64_t n_tensors = 0, n_elements = 0, n_bytes = 0;
};

struct Report {
  gguf::File file;
  ModelSupport support;
  std::map<std::string, TypeTotal> types;
  std::string architecture;
  uint64_t n_elements = 0, n_bytes = 0;
  uint64_t n_ctx = 0;
  bool vocabulary_only = false;

  uint64_t cache_bytes() const { return support.cache_bytes_per_token * n_ctx + support.state_bytes_per_sequence; }
  uint64_t run_bytes() const { return support.weight_bytes + cache_bytes() + support.scratch_bytes; }
};

std::string type_name(const gguf::TensorInfo& t) {
  return t.type != nullptr ? std::string(t.type->name) : std::string(foreign_type_name(t.type_id));
}

Report examine(gguf::File file, uint64_t n_ctx) {
  Report r{.file = std::move(file)};
  r.support = model_support(r.file);
  for (const gguf::TensorInfo& t : r.file.tensors()) {
    TypeTotal& total = r.types[type_name(t)];
    ++total.n_tensors;
    total.n_elements += t.n_elements;
    total.n_bytes += t.n_bytes;
    r.n_elements += t.n_elements;
    r.n_bytes += t.n_bytes;
  }
  r.vocabulary_only = r.file.tensors().empty();
  if (const auto* arch = r.file.find("general.architecture"); arch != nullptr && arch->as_string() != nullptr)
    r.architecture = *arch->as_string();
  const gguf::Value* trained = r.file.find(r.architecture + ".context_length");
  r.n_ctx = n_ctx != 0 ? n_ctx : trained != nullptr ? trained->as_uint().value_or(0) : 0;
  // A model's whole context may be far more than a run takes; a number nobody can multiply is not shown.
  r.n_ctx = std::min<uint64_t>(r.n_ctx, 1u << 30);
  return r;
}

std::string scalar_text(const gguf::Value& v) {
  if (const std::string* s = v.as_string()) return fmt::format("'{}'", printable(*s, 70));
  if (v.kind == gguf::Kind::boolean) return v.as_bool().value_or(false) ? "true" : "false";
  if (const auto i = v.as_int()) return fmt::format("{}", *i);
  if (const auto u = v.as_uint()) return fmt::format("{}", *u);
  // 32-bit numbers are shown as such: 1e-05 and not 9.999999747378752e-06.
  const double number = v.as_float().value_or(0);
  return v.kind == gguf::Kind::f32 ? fmt::format("{}", static_cast<float>(number)) : fmt::format("{}", number);
}

template <class T>
std::string element_text(const T& e, gguf::Kind kind) {
  if constexpr (std::is_same_v<T, std::string>)
    return fmt::format("'{}'", printable(e, 24));
  else if constexpr (std::is_same_v<T, gguf::Value>)
    return e.as_array() != nullptr ? fmt::format("[{} elements]", e.array_size()) : scalar_text(e);
  else if (kind == gguf::Kind::f32)
    return fmt::format("{}", static_cast<float>(e));
  else
    return fmt::format("{}", e);
}

std::string value_text(const gguf::Value& v) {
  const gguf::Array* array = v.as_array();
  if (array == nullptr) return scalar_text(v);
  return std::visit(
      [&](const auto& elements) {
        std::string out = fmt::format("{} x {} [", elements.size(), gguf::kind_name(v.element));
        for (size_t i = 0; i < std::min(elements.size(), kShownElements); ++i)
          out += (i == 0 ? "" : ", ") + element_text(elements[i], v.element);
        return out + (elements.size() > kShownElements ? ", ...]" : "]");
      },
      *array);
}

std::string shape_text(const std::vector<uint64_t>& dims) {
  // Slowest dimension first, as everywhere in sluice.
  const std::vector<uint64_t> slowest_first(dims.rbegin(), dims.rend());
  return fmt::format("({})", fmt::join(slowest_first, ", "));
}

std::string memory_text(const Report& r) {
  const ModelSupport& s = r.support;
  std::string out = fmt::format("\nMemory of a run with a context of {}:\n", r.n_ctx);
  out += fmt::format("  weights {}, cache {} ({} per token), working memory {}: {} in all\n",
                     bytes_text(double(s.weight_bytes)), bytes_text(double(r.cache_bytes())),
                     bytes_text(double(s.cache_bytes_per_token)), bytes_text(double(s.scratch_bytes)),
                     bytes_text(double(r.run_bytes())));
  const MemoryInfo memory = read_memory_info();
  return out + fmt::format("  cpu: {} available, {}\n", bytes_text(double(memory.available_bytes)),
                           memory.available_bytes >= r.run_bytes() ? "enough"
                                                                   : "not enough: use a smaller context (-c) or model");
}

std::string as_text(const Report& r, const std::string& path) {
  const gguf::File& f = r.file;
  std::string out =
      fmt::format("{}: GGUF version {}, {}{}, {} tensors, {} keys\n", printable_path(path), f.version(),
                  bytes_text(double(f.file_bytes())), f.n_files() > 1 ? fmt::format(" in {} files", f.n_files()) : "",
                  f.tensors().size(), f.metadata().size());
  out += "\nMetadata:\n";
  for (const gguf::KeyValue& kv : f.metadata())
    out += fmt::format("  {:<45} {}\n", printable(kv.key), value_text(kv.value));
  if (!r.vocabulary_only) {
    out += "\nTensors (slowest dimension first):\n";
    for (const gguf::TensorInfo& t : f.tensors())
      out += fmt::format("  {:<40} {:<22} {:<8} {:>10}\n", printable(t.name), shape_text(t.dims), type_name(t),
                         bytes_text(double(t.n_bytes)));
    out += "\nTypes:\n";
    for (const auto& [name, total] : r.types)
      out += fmt::format("  {:<8} {:>5} tensors {:>12} weights {:>10}\n", name, total.n_tensors,
                         count_text(double(total.n_elements)), bytes_text(double(total.n_bytes)));
    out += fmt::format("  in all   {:>5} tensors {:>12} weights {:>10}\n", f.tensors().size(),
                       count_text(double(r.n_elements)), bytes_text(double(r.n_bytes)));
  }
  if (r.support.supported) out += memory_text(r);
  for (const std::string& name : r.support.unused_tensors) out += fmt::format("\nnot used: {}", printable(name));
  if (!r.support.unused_tensors.empty()) out += '\n';
  if (r.support.supported) return out + fmt::format("\nSupported: {}\n", printable(r.architecture));
  out += r.vocabulary_only
             ? "\nNot a model: the file holds no tensors (a vocabulary alone works with sluice tokenize)\n"
             : "\nNot supported:\n";
  for (const std::string& reason : r.support.reasons) out += fmt::format("  {}\n", reason);
  return out;
}

void put_scalar(JsonWriter& json, const gguf::Value& v) {
  if (const std::string* s = v.as_string())
    json.value(*s);
  else if (v.kind == gguf::Kind::boolean)
    json.value(v.as_bool().value_or(false));
  else if (const auto i = v.as_int())
    json.value(*i);
  else if (const auto u = v.as_uint())
    json.value(*u);
  else if (v.kind == gguf::Kind::f32)
    json.value(static_cast<float>(v.as_float().value_or(0)));
  else
    json.value(v.as_float().value_or(0));
}

void put_value(JsonWriter& json, const gguf::Value& v) {
  const gguf::Array* array = v.as_array();
  if (array == nullptr) return put_scalar(json, v);
  constexpr size_t kWhole = 64;  // longer arrays: their length and beginning
  json.open('{').field("kind", gguf::kind_name(v.element)).field("length", v.array_size());
  json.key(v.array_size() <= kWhole ? "values" : "first").open('[');
  std::visit(
      [&](const auto& elements) {
        for (size_t i = 0; i < std::min(elements.size(), kWhole); ++i) {
          if constexpr (std::is_same_v<std::decay_t<decltype(elements[i])>, gguf::Value>)
            put_value(json, elements[i]);
          else
            json.value(elements[i]);
        }
      },
      *array);
  json.close().close();
}

std::string as_json(const Report& r, const std::string& path) {
  JsonWriter json;
  json.open('{')
      .field("file", path)
      .field("version", r.file.version())
      .field("bytes", r.file.file_bytes())
      .field("n_files", r.file.n_files());
  json.field("architecture", r.architecture)
      .field("supported", r.support.supported)
      .key("reasons")
      .list(r.support.reasons);
  json.key("unused_tensors").list(r.support.unused_tensors).key("metadata").open('{');
  for (const gguf::KeyValue& kv : r.file.metadata()) {
    json.key(kv.key);
    put_value(json, kv.value);
  }
  json.close().key("tensors").open('[');
  for (const gguf::TensorInfo& t : r.file.tensors()) {
    const std::vector<uint64_t> shape(t.dims.rbegin(), t.dims.rend());
    json.open('{').field("name", t.name).key("shape").list(shape).field("type", type_name(t));
    json.field("bytes", t.n_bytes).field("offset", t.file_offset).field("file", t.file_idx).close();
  }
  json.close().key("types").open('{');
  for (const auto& [name, total] : r.types) {
    json.key(name)
        .open('{')
        .field("n_tensors", total.n_tensors)
        .field("n_weights", total.n_elements)
        .field("bytes", total.n_bytes)
        .close();
  }
  json.close().key("memory").open('{').field("n_ctx", r.n_ctx).field("weight_bytes", r.support.weight_bytes);
  json.field("cache_bytes", r.cache_bytes()).field("cache_bytes_per_token", r.support.cache_bytes_per_token);
  json.field("state_bytes_per_sequence", r.support.state_bytes_per_sequence)
      .field("scratch_bytes", r.support.scratch_bytes);
  return json.field("total_bytes", r.run_bytes()).close().close().take();
}

}  // namespace

Result<int> inspect_command(Arguments argv) {
  OutputOptions output;
  std::string path, hub_name;
  uint32_t n_ctx = 0;
  Args args(
      "inspect FILE.gguf [--json]",
      "Shows what is in a GGUF file: metadata, tensors, sizes per type, the memory a run will need, and what is not\n"
      "supported and why. Loads no weights; works for any GGUF file.");
  args.text("-m,--model", "FILE", path, "the file, or hf:OWNER/REPO[:QUANT]");
  args.text("-hf,--hf-repo", "OWNER/REPO[:QUANT]", hub_name, "a model of the hub");
  args.number<uint32_t>("-c,--ctx-size", "N", n_ctx, 0, 1u << 24,
                        "positions of context to reckon with; 0: the model's");
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  if (path.empty() && hub_name.empty() && !args.rest().empty()) {
    path = args.rest()[0];
    args.rest().erase(args.rest().begin());
  }
  TRY(expect_no_more(args.rest()));
  if (names_a_hub_model(path)) hub_name = path;
  if (path.empty() && hub_name.empty()) return usage_error("no file is named; try: sluice inspect FILE.gguf");
  if (!hub_name.empty()) path = TRY(get_hub_model(hub_name, false)).path();
  const Report report = examine(TRY(file_result(gguf::File::open(path))), n_ctx);
  TRY(put(output.json ? as_json(report, path) : as_text(report, path)));
  return kExitDone;
}

}  // namespace sluice::cli
