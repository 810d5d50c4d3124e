#include "support/gguf_builder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "quant/quant.h"

namespace sluice::test {
namespace {

using gguf::Array;
using gguf::Kind;
using gguf::Value;

class Layout {
 public:
  Layout(std::vector<Field>& fields, bool big_endian) : fields_(fields), big_endian_(big_endian) {}

  void text(const std::string& name, std::string_view value) {
    fields_.push_back({name, out.size(), value.size()});
    const auto bytes = std::as_bytes(std::span(value));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void number(const std::string& name, T value) {
    fields_.push_back({name, out.size(), sizeof(T)});
    append(value);
  }
  void string(const std::string& name, std::string_view value) {
    number(name + "/length", uint64_t{value.size()});
    text(name, value);
  }
  void scalar(Kind kind, const Value& value) {
    if (value.data.index() == 0) return element(kind, std::get<uint64_t>(value.data));
    if (value.data.index() == 1) return element(kind, std::get<int64_t>(value.data));
    element(kind, std::get<double>(value.data));
  }
  void value(const std::string& name, const Value& v) {
    number(name + "/kind", static_cast<uint32_t>(v.kind));
    if (const std::string* s = v.as_string()) return string(name + "/value", *s);
    if (const Array* array = v.as_array()) return elements(name, v.element, *array);
    const size_t start = out.size();
    scalar(v.kind, v);
    fields_.push_back({name + "/value", start, out.size() - start});
  }

  std::vector<std::byte> out;

 private:
  void elements(const std::string& name, Kind kind, const Array& array) {
    number(name + "/element", static_cast<uint32_t>(kind));
    number(name + "/count", uint64_t{std::visit([](const auto& v) { return v.size(); }, array)});
    if (const auto* strings = std::get_if<std::vector<std::string>>(&array)) {
      for (size_t i = 0; i < strings->size(); ++i) string(name + "/value/" + std::to_string(i), (*strings)[i]);
      return;
    }
    if (const auto* inner = std::get_if<std::vector<Value>>(&array)) {
      for (size_t i = 0; i < inner->size(); ++i) {
        elements(name + "/value/" + std::to_string(i), (*inner)[i].element, *(*inner)[i].as_array());
      }
      return;
    }
    const size_t start = out.size();
    if (const auto* v = std::get_if<0>(&array)) std::for_each(v->begin(), v->end(), [&](auto e) { element(kind, e); });
    if (const auto* v = std::get_if<1>(&array)) std::for_each(v->begin(), v->end(), [&](auto e) { element(kind, e); });
    if (const auto* v = std::get_if<2>(&array)) std::for_each(v->begin(), v->end(), [&](auto e) { element(kind, e); });
    fields_.push_back({name + "/value", start, out.size() - start});
  }
  template <class T>
  void element(Kind kind, T v) {
    switch (kind) {
      case Kind::u8:
      case Kind::boolean:
        return append(static_cast<uint8_t>(v));
      case Kind::i8:
        return append(static_cast<int8_t>(v));
      case Kind::u16:
        return append(static_cast<uint16_t>(v));
      case Kind::i16:
        return append(static_cast<int16_t>(v));
      case Kind::u32:
        return append(static_cast<uint32_t>(v));
      case Kind::i32:
        return append(static_cast<int32_t>(v));
      case Kind::u64:
        return append(static_cast<uint64_t>(v));
      case Kind::i64:
        return append(static_cast<int64_t>(v));
      case Kind::f32:
        return append(static_cast<float>(v));
      case Kind::f64:
        return append(static_cast<double>(v));
      default:
        throw std::logic_error("no scalar kind");
    }
  }
  template <class T>
  void append(T value) {
    std::byte bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    if (big_endian_) std::reverse(std::begin(bytes), std::end(bytes));
    out.insert(out.end(), std::begin(bytes), std::end(bytes));
  }

  std::vector<Field>& fields_;
  bool big_endian_;
};

void pad(std::vector<std::byte>& bytes, size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

}  // namespace

GgufBuilder& GgufBuilder::set(const std::string& key, Value value) {
  for (auto& [other, old] : metadata_) {
    if (other == key) return old = std::move(value), *this;
  }
  metadata_.emplace_back(key, std::move(value));
  return *this;
}

GgufBuilder& GgufBuilder::set_again(const std::string& key, Value value) {
  metadata_.emplace_back(key, std::move(value));
  return *this;
}

GgufBuilder& GgufBuilder::add(const std::string& name, std::vector<uint64_t> dims, Type type,
                              std::span<const float> values) {
  uint64_t n = 1;
  for (const uint64_t dim : dims) n *= dim;
  if (n != values.size() || dims[0] % type_info(type).block != 0) throw std::logic_error("wrong size of " + name);
  return add_raw(name, std::move(dims), static_cast<uint32_t>(type), quantised(type, values));
}

GgufBuilder& GgufBuilder::add_random(const std::string& name, std::vector<uint64_t> dims, Type type, float scale) {
  uint64_t n = 1, seed = 14695981039346656037u;
  for (const uint64_t dim : dims) n *= dim;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return add(name, std::move(dims), type, random_values(n, seed, scale));
}

GgufBuilder& GgufBuilder::add_raw(const std::string& name, std::vector<uint64_t> dims, uint32_t type_id,
                                  std::vector<std::byte> data) {
  tensors_.push_back({name, std::move(dims), type_id, std::move(data)});
  return *this;
}

GgufBuilder& GgufBuilder::patch_bytes(const std::string& field, std::string_view bytes) {
  const auto view = std::as_bytes(std::span(bytes));
  patches_[field].assign(view.begin(), view.end());
  return *this;
}

std::vector<std::byte> GgufBuilder::layout(std::vector<Field>& fields) const {
  Layout to(fields, big_endian_);
  to.text("magic", "GGUF");
  to.number("version", uint32_t{3});
  to.number("n_tensors", uint64_t{tensors_.size()});
  to.number("n_metadata", uint64_t{metadata_.size()});
  size_t alignment = 32;
  std::map<std::string, int> seen;
  const auto unique = [&](const std::string& base) {
    const int count = ++seen[base];
    return count == 1 ? base : base + "#" + std::to_string(count);
  };
  for (const auto& [key, value] : metadata_) {
    const std::string base = unique("key/" + key);
    to.number(base + "/length", uint64_t{key.size()});
    to.text(base + "/bytes", key);
    to.value(base, value);
    const uint64_t wanted = value.kind == Kind::u32 ? *value.as_uint() : 0;
    if (key == "general.alignment" && wanted > 0 && wanted < (1u << 21)) alignment = wanted;
  }
  uint64_t offset = 0;
  std::vector<std::string> bases;
  for (const Tensor& t : tensors_) {
    const std::string base = bases.emplace_back(unique("tensor/" + t.name));
    to.number(base + "/length", uint64_t{t.name.size()});
    to.text(base + "/bytes", t.name);
    to.number(base + "/n_dims", static_cast<uint32_t>(t.dims.size()));
    for (size_t i = 0; i < t.dims.size(); ++i) to.number(base + "/dim" + std::to_string(i), t.dims[i]);
    to.number(base + "/type", t.type_id);
    to.number(base + "/offset", offset);
    offset = (offset + t.data.size() + alignment - 1) / alignment * alignment;
  }
  pad(to.out, alignment);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& data = tensors_[i].data;
    to.text(bases[i] + "/data", {reinterpret_cast<const char*>(data.data()), data.size()});
    pad(to.out, alignment);
  }
  return std::move(to.out);
}

std::vector<std::byte> GgufBuilder::bytes() const {
  std::vector<Field> all;
  std::vector<std::byte> out = layout(all);
  for (const auto& patch : patches_) {
    const auto& name = patch.first;
    const auto& value = patch.second;
    const auto at = std::find_if(all.begin(), all.end(), [&](const Field& f) { return f.name == name; });
    if (at == all.end()) throw std::logic_error("no field " + name);
    if (at->size != value.size()) throw std::logic_error("wrong size for field " + name);
    std::copy(value.begin(), value.end(), out.begin() + static_cast<ptrdiff_t>(at->offset));
  }
  return out;
}

std::vector<Field> GgufBuilder::fields() const {
  std::vector<Field> all;
  layout(all);
  return all;
}

void GgufBuilder::write(const std::string& path) const { write_bytes(path, bytes()); }

uint64_t next_bits(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<float> random_values(size_t n, uint64_t seed, float scale) {
  std::vector<float> out(n);
  uint64_t state = seed;
  for (float& v : out) {
    float sum = 0.0f;  // of four uniform numbers: variance 4/12
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(next_bits(state) >> 40) * 0x1p-24f - 0.5f;
    v = sum * 1.7320508f * scale;
  }
  return out;
}

std::vector<std::byte> random_bytes(size_t n, uint64_t seed) {
  std::vector<std::byte> out(n);
  uint64_t state = seed;
  for (size_t at = 0; at < n; at += 8) {
    const uint64_t bits = next_bits(state);
    std::memcpy(&out[at], &bits, std::min<size_t>(n - at, 8));
  }
  return out;
}

// One block whose weights are of the usual size. Larger ones make gates of hundreds, where the exponential turns the
// rounding of a sum into a relative error; rows of many sizes are no good in 8 bits.
void put_random_block(Type type, uint64_t seed, std::byte* out) {
  const TypeInfo& info = type_info(type);
  std::vector<float> values(info.block);
  double power = 0;
  do {
    const std::vector<std::byte> bytes = random_bytes(info.block_bytes, seed++);
    quant::codec(type).dequantize(bytes.data(), values.data(), values.size());
    power = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / info.block;
    std::memcpy(out, bytes.data(), bytes.size());
  } while (!(power > 0.02 && power < 0.2));  // nor is it a NaN
}

std::vector<std::byte> quantised(Type type, std::span<const float> values) {
  std::vector<std::byte> out(quant::row_bytes(type, values.size()));
  if (values.empty()) return out;
  if (quant::codec(type).quantize != nullptr) {
    quant::codec(type).quantize(values.data(), out.data(), values.size());
    return out;
  }
  const TypeInfo& info = type_info(type);
  for (size_t b = 0; b < values.size() / info.block; ++b) {
    uint64_t seed = 0;
    std::memcpy(&seed, &values[b * info.block], sizeof(seed));  // of two weights
    put_random_block(type, seed, &out[b * info.block_bytes]);
  }
  return out;
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

void write_text(const std::string& path, std::string_view text) { write_bytes(path, std::as_bytes(std::span(text))); }

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace sluice::test
