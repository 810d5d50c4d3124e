#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/file_io.h"
#include "base/text.h"
#include "gguf/parse.h"
#include "sluice/gguf.h"

namespace sluice::gguf {
namespace {

// The beginning of a file, field by field.
class Bytes {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void string(std::string_view value) {
    number(uint64_t{value.size()});
    text_ += value;
  }
  void raw(std::string_view value) { text_ += value; }
  void pad_to(uint64_t size) { text_.resize(size, '\0'); }
  uint64_t size() const { return text_.size(); }
  std::span<const std::byte> view() const { return std::as_bytes(std::span(text_)); }

 private:
  std::string text_;
};

template <class T, class From>
bool put_narrow(Bytes& out, From value) {
  if constexpr (std::is_integral_v<T>) {
    if (value < static_cast<From>(std::numeric_limits<T>::min()) ||
        value > static_cast<From>(std::numeric_limits<T>::max())) {
      return false;
    }
  } else if (std::isfinite(value) && std::fabs(value) > static_cast<From>(std::numeric_limits<T>::max())) {
    return false;
  }
  out.number(static_cast<T>(value));
  return true;
}

// One element of a scalar kind; false where `value` is of another C++ type than the kind needs, or out of its range.
bool put_element(Bytes& out, Kind kind, uint64_t value) {
  switch (kind) {
    case Kind::boolean:
      return value <= 1 && put_narrow<uint8_t>(out, value);
    case Kind::u8:
      return put_narrow<uint8_t>(out, value);
    case Kind::u16:
      return put_narrow<uint16_t>(out, value);
    case Kind::u32:
      return put_narrow<uint32_t>(out, value);
    case Kind::u64:
      return put_narrow<uint64_t>(out, value);
    default:
      return false;
  }
}

bool put_element(Bytes& out, Kind kind, int64_t value) {
  switch (kind) {
    case Kind::i8:
      return put_narrow<int8_t>(out, value);
    case Kind::i16:
      return put_narrow<int16_t>(out, value);
    case Kind::i32:
      return put_narrow<int32_t>(out, value);
    case Kind::i64:
      return put_narrow<int64_t>(out, value);
    default:
      return false;
  }
}

bool put_element(Bytes& out, Kind kind, double value) {
  if (kind == Kind::f32) return put_narrow<float>(out, value);
  return kind == Kind::f64 && put_narrow<double>(out, value);
}

bool put_element(Bytes& out, Kind kind, const std::string& value) {
  out.string(value);
  return kind == Kind::string;
}

bool put_array(Bytes& out, Kind element, const Array& array);

bool put_element(Bytes& out, Kind kind, const Value& value) {
  const Array* inner = value.as_array();
  return kind == Kind::array && inner != nullptr && put_array(out, value.element, *inner);
}

bool put_element(Bytes&, Kind, const Array&) { return false; }

bool put_array(Bytes& out, Kind element, const Array& array) {
  out.number(static_cast<uint32_t>(element));
  return std::visit(
      [&](const auto& elements) {
        out.number(uint64_t{elements.size()});
        return std::all_of(elements.begin(), elements.end(),
                           [&](const auto& e) { return put_element(out, element, e); });
      },
      array);
}

bool put_value(Bytes& out, const Value& value) {
  out.number(static_cast<uint32_t>(value.kind));
  if (value.kind == Kind::array) {
    const Array* array = value.as_array();
    return array != nullptr && put_array(out, value.element, *array);
  }
  return std::visit([&](const auto& v) { return put_element(out, value.kind, v); }, value.data);
}

Error misuse(std::string what) { return Error{Code::invalid_argument, std::move(what) + "; report this"}; }

}  // namespace

struct Writer::Impl {
  explicit Impl(AtomicFile output) : file(std::move(output)) {}

  AtomicFile file;
  std::vector<KeyValue> metadata;
  std::vector<TensorInfo> tensors;  // file_offset: absolute, once the header is written
  bool header_written = false;
  size_t tensor_idx = 0;        // the tensor whose data comes next
  uint64_t tensor_written = 0;  // bytes of it that are written
  uint32_t alignment = kDefaultAlignment;

  Result<void> read_alignment_key();
  Result<void> pad() {
    static constexpr std::byte kZeros[4096] = {};
    uint64_t missing = *checked_align_up(file.written(), alignment) - file.written();
    while (missing > 0) {
      const uint64_t piece = std::min<uint64_t>(missing, sizeof(kZeros));
      TRY(file.write(std::span(kZeros).first(static_cast<size_t>(piece))));
      missing -= piece;
    }
    return {};
  }
};

Result<void> Writer::Impl::read_alignment_key() {
  const auto at =
      std::find_if(metadata.begin(), metadata.end(), [](const KeyValue& kv) { return kv.key == kAlignmentKey; });
  if (at == metadata.end()) return {};
  const uint64_t wanted = at->value.as_uint().value_or(0);
  if (at->value.kind != Kind::u32 || !is_power_of_two(wanted) || wanted < kMinAlignment || wanted > kMaxAlignment) {
    return Error{Code::invalid_argument,
                 fmt::format("{} is not a u32 that is a power of two from {} to {}; change or drop it", kAlignmentKey,
                             kMinAlignment, kMaxAlignment)};
  }
  alignment = static_cast<uint32_t>(wanted);
  return {};
}

Result<Writer> Writer::create(const std::string& path) {
  AtomicFile file = TRY(AtomicFile::create(path));
  return Writer(std::make_unique<Impl>(std::move(file)));
}

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

void Writer::set(std::string key, Value value) {
  assert(!impl_->header_written);
  for (KeyValue& kv : impl_->metadata) {
    if (kv.key == key) {
      kv.value = std::move(value);
      return;
    }
  }
  impl_->metadata.push_back({std::move(key), std::move(value)});
}

Result<void> Writer::declare(std::string name, std::vector<uint64_t> dims, Type type) {
  if (impl_->header_written) return misuse("a tensor is declared after the header was written");
  if (dims.empty() || dims.size() > 4) {
    return Error{Code::invalid_argument,
                 fmt::format("tensor '{}' has {} dimensions; give it 1 to 4", printable(name), dims.size())};
  }
  for (const TensorInfo& other : impl_->tensors) {
    if (other.name == name) {
      return Error{Code::invalid_argument,
                   fmt::format("tensor '{}' is declared twice; name each once", printable(name))};
    }
  }
  TensorInfo tensor;
  tensor.name = std::move(name);
  tensor.dims = std::move(dims);
  tensor.type_id = static_cast<uint32_t>(type);
  tensor.type = find_type(tensor.type_id);
  if (auto sizes = fill_sizes(tensor); !sizes) {
    return Error{Code::invalid_argument, sizes.error().message + "; choose another type or shape"};
  }
  impl_->tensors.push_back(std::move(tensor));
  return {};
}

Result<void> Writer::write_header() {
  Impl& w = *impl_;
  if (w.header_written) return misuse("the header is written twice");
  TRY(w.read_alignment_key());
  Bytes out;
  out.raw("GGUF");
  out.number(kVersion);
  out.number(uint64_t{w.tensors.size()});
  out.number(uint64_t{w.metadata.size()});
  for (const KeyValue& kv : w.metadata) {
    out.string(kv.key);
    if (kv.key.size() > kMaxNameBytes || !put_value(out, kv.value)) {
      return Error{Code::invalid_argument,
                   fmt::format("key '{}' is too long or its value does not fit its kind {}; change it",
                               printable(kv.key), kind_name(kv.value.kind))};
    }
  }
  uint64_t offset = 0;
  for (TensorInfo& tensor : w.tensors) {
    out.string(tensor.name);
    out.number(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) out.number(dim);
    out.number(tensor.type_id);
    out.number(offset);
    const auto end = checked_add(offset, tensor.n_bytes);
    const auto next = end ? checked_align_up(*end, w.alignment) : std::nullopt;
    if (!next) {
      return Error{Code::invalid_argument,
                   fmt::format("tensor '{}' is too large for any file; choose another shape", printable(tensor.name))};
    }
    tensor.file_offset = offset;
    offset = *next;
  }
  out.pad_to(*checked_align_up(out.size(), w.alignment));
  TRY(w.file.write(out.view()));
  w.header_written = true;
  return {};
}

Result<void> Writer::data(std::span<const std::byte> piece) {
  Impl& w = *impl_;
  if (!w.header_written) return misuse("tensor data is written before the header");
  if (piece.empty()) return {};
  if (w.tensor_idx == w.tensors.size()) return misuse("more tensor data is written than was declared");
  const TensorInfo& tensor = w.tensors[w.tensor_idx];
  if (piece.size() > tensor.n_bytes - w.tensor_written) {
    return misuse(fmt::format("more than the declared {} bytes are written for tensor '{}'", tensor.n_bytes,
                              printable(tensor.name)));
  }
  TRY(w.file.write(piece));
  w.tensor_written += piece.size();
  if (w.tensor_written < tensor.n_bytes) return {};
  ++w.tensor_idx;
  w.tensor_written = 0;
  return w.pad();
}

Result<void> Writer::finish() {
  Impl& w = *impl_;
  if (!w.header_written) return misuse("the file is finished before its header was written");
  if (w.tensor_idx != w.tensors.size()) {
    return misuse(fmt::format("the data of tensor '{}' is not complete", printable(w.tensors[w.tensor_idx].name)));
  }
  return w.file.commit();
}

}  // namespace sluice::gguf
