// Any bytes: they are opened or refused with a clean message, and all that an opened file shows lies inside the bytes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sluice/gguf.h"

namespace {

using namespace sluice;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void check_message(const Error& error) {
  require(error.code != Code::internal, "an internal error");
  require(error.message.find("; ") != std::string::npos, "a message without a remedy");
  require(error.message.size() < 4000, "a long message");
  require(
      std::none_of(error.message.begin(), error.message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
      "a control character in a message");
}

template <class T>
void check_lookup(const Result<T>& result) {
  if (!result) check_message(result.error());
}

void walk(const gguf::Value& value, int depth, size_t& total) {
  require(depth < 10, "deep nesting");
  require(gguf::kind_name(value.kind) != "unknown", "an unknown kind");
  const gguf::Array* array = value.as_array();
  require((array != nullptr) == (value.kind == gguf::Kind::array), "an array of another kind");
  if (const std::string* text = value.as_string()) total += text->size();
  total +=
      value.as_uint().value_or(0) + static_cast<uint64_t>(value.as_int().value_or(0)) + value.as_bool().value_or(false);
  if (array == nullptr) return;
  total += value.array_size();
  if (const auto* inner = std::get_if<std::vector<gguf::Value>>(array)) {
    for (const gguf::Value& v : *inner) walk(v, depth + 1, total);
  }
  if (const auto* strings = std::get_if<std::vector<std::string>>(array)) {
    for (const std::string& s : *strings) total += s.size();
  }
}

void walk(const gguf::File& file, std::span<const std::byte> bytes) {
  size_t total = 0;
  for (const gguf::KeyValue& kv : file.metadata()) {
    require(file.find(kv.key) == &kv.value, "a key that is not found");
    walk(kv.value, 0, total);
    check_lookup(file.get_uint(kv.key));
    check_lookup(file.get_float(kv.key));
    check_lookup(file.get_bool(kv.key));
    check_lookup(file.get_string(kv.key));
    check_lookup(file.get_strings(kv.key));
    check_lookup(file.get_ints(kv.key));
    check_lookup(file.get_floats(kv.key));
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor, "a tensor that is not found");
    require(!tensor.dims.empty() && tensor.dims.size() <= 4 && tensor.n_elements > 0, "impossible dimensions");
    const auto data = file.data(tensor);
    require(data.size() == tensor.n_bytes, "data of another size");
    if (data.empty()) continue;
    require(data.data() >= bytes.data() && data.data() + data.size() <= bytes.data() + bytes.size(), "data outside");
    for (const std::byte b : data) total += static_cast<size_t>(b);
    file.release(data);
  }
  static volatile size_t sink;
  sink = total;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = gguf::File::parse(bytes);
  if (file) {
    walk(*file, bytes);
  } else {
    check_message(file.error());
  }
  return 0;
}
