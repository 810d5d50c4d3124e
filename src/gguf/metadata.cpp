// Header and metadata of one file.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/text.h"
#include "gguf/name_index.h"
#include "gguf/parse.h"

namespace sluice::gguf {
namespace {

constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;  // empty key, kind, the smallest value
constexpr int kMaxDepth = 4;                    // arrays in arrays

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

Result<Kind> read_kind(Cursor& cursor, std::string_view key) {
  const uint32_t id = TRY(cursor.number<uint32_t>());
  if (id > static_cast<uint32_t>(Kind::f64)) {
    return cursor.corrupt(fmt::format("key '{}' has a value of kind {}, which GGUF does not have", printable(key), id));
  }
  return static_cast<Kind>(id);
}

// Widens `count` numbers of type From, which lie unaligned in the file, to To.
template <class From, class To>
std::vector<To> widen(std::span<const std::byte> bytes) {
  std::vector<To> out(bytes.size() / sizeof(From));
  for (size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): numbers, not characters
  }
  return out;
}

Array widen_kind(Kind kind, std::span<const std::byte> bytes) {
  switch (kind) {
    case Kind::i8:
      return widen<int8_t, int64_t>(bytes);
    case Kind::i16:
      return widen<int16_t, int64_t>(bytes);
    case Kind::i32:
      return widen<int32_t, int64_t>(bytes);
    case Kind::i64:
      return widen<int64_t, int64_t>(bytes);
    case Kind::f32:
      return widen<float, double>(bytes);
    case Kind::f64:
      return widen<double, double>(bytes);
    case Kind::u16:
      return widen<uint16_t, uint64_t>(bytes);
    case Kind::u32:
      return widen<uint32_t, uint64_t>(bytes);
    case Kind::u64:
      return widen<uint64_t, uint64_t>(bytes);
    default:  // u8, boolean
      return widen<uint8_t, uint64_t>(bytes);
  }
}

Error bad_boolean(const Cursor& cursor, std::string_view key) {
  return cursor.corrupt(fmt::format("key '{}' has a boolean that is neither 0 nor 1", printable(key)));
}

Result<Array> read_strings(Cursor& cursor, uint64_t count) {
  std::vector<std::string> out;
  // Not the whole count at once: it is only known to be possible, not to be there.
  out.reserve(static_cast<size_t>(std::min<uint64_t>(count, 1u << 20)));
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view text = TRY(cursor.string());
    if (text.size() > 15) TRY(cursor.charge(text.size()));
    out.emplace_back(text);
  }
  return Array(std::move(out));
}

Result<Value> read_array(Cursor& cursor, std::string_view key, int depth) {
  if (depth > kMaxDepth) {
    return cursor.corrupt(fmt::format("key '{}' nests arrays more than {} deep", printable(key), kMaxDepth));
  }
  Value value;
  value.kind = Kind::array;
  value.element = TRY(read_kind(cursor, key));
  const uint64_t count = TRY(cursor.number<uint64_t>());
  const uint32_t number_bytes = kind_bytes(value.element);
  // The least that an element takes in the file: a string its length, an array its kind and its count.
  const uint64_t least = number_bytes != 0 ? number_bytes : value.element == Kind::string ? 8 : 12;
  if (count > cursor.remaining() / least) {
    return cursor.corrupt(
        fmt::format("key '{}' is an array of {} elements of kind {}, and {} bytes are left in the file", printable(key),
                    count, kind_name(value.element), cursor.remaining()));
  }
  if (number_bytes != 0) {
    TRY(cursor.charge(count * 8));
    const std::span<const std::byte> bytes = TRY(cursor.take(count * number_bytes));
    if (value.element == Kind::boolean &&
        std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
      return bad_boolean(cursor, key);
    }
    value.data = widen_kind(value.element, bytes);
    return value;
  }
  TRY(cursor.charge(count * (value.element == Kind::string ? sizeof(std::string) : sizeof(Value))));
  if (value.element == Kind::string) {
    value.data = TRY(read_strings(cursor, count));
    return value;
  }
  std::vector<Value> inner;
  for (uint64_t i = 0; i < count; ++i) inner.push_back(TRY(read_array(cursor, key, depth + 1)));
  value.data = Array(std::move(inner));
  return value;
}

Result<Value> read_value(Cursor& cursor, std::string_view key) {
  const Kind kind = TRY(read_kind(cursor, key));
  if (kind == Kind::array) return read_array(cursor, key, 1);
  Value value;
  value.kind = kind;
  if (kind == Kind::string) {
    const std::string_view text = TRY(cursor.string());
    TRY(cursor.charge(text.size()));
    value.data = std::string(text);
    return value;
  }
  const std::span<const std::byte> bytes = TRY(cursor.take(kind_bytes(kind)));
  if (kind == Kind::boolean && bytes[0] > std::byte{1}) return bad_boolean(cursor, key);
  const Array one = widen_kind(kind, bytes);
  if (const auto* v = std::get_if<std::vector<uint64_t>>(&one)) value.data = v->front();
  if (const auto* v = std::get_if<std::vector<int64_t>>(&one)) value.data = v->front();
  if (const auto* v = std::get_if<std::vector<double>>(&one)) value.data = v->front();
  return value;
}

}  // namespace

Result<Header> read_header(Cursor& cursor, std::span<const std::byte> window) {
  if (window.size() < 4 || std::memcmp(window.data(), "GGUF", 4) != 0) {
    const std::string what = describe_foreign(window, cursor.file_bytes());
    return cursor.corrupt("the file " + what, "download the model again, as a .gguf file");
  }
  cursor.enter("the header");
  TRY(cursor.take(4));
  Header header;
  header.version = TRY(cursor.number<uint32_t>());
  if (header.version != 0 && (header.version & 0xffffu) == 0) {
    return cursor.unsupported("the file is big-endian (its bytes are in the reverse order)",
                              "get or convert the little-endian file");
  }
  if (header.version == 1) {
    return cursor.unsupported("the file has version 1 of the format, and 2 and 3 can be read",
                              "convert the model again");
  }
  if (header.version < 2 || header.version > kVersion) {
    return cursor.unsupported(
        fmt::format("the file has version {} of the format, and 2 and 3 can be read", header.version),
        "use a newer Sluice or another file");
  }
  header.n_tensors = TRY(cursor.number<uint64_t>());
  header.n_metadata = TRY(cursor.number<uint64_t>());
  if (header.n_metadata > cursor.remaining() / kMinEntryBytes) {
    return cursor.corrupt(fmt::format("the header tells of {} metadata entries, and {} bytes follow", header.n_metadata,
                                      cursor.remaining()));
  }
  return header;
}

Result<std::vector<KeyValue>> read_metadata(Cursor& cursor, uint64_t n_metadata) {
  std::vector<KeyValue> out;
  for (uint64_t i = 0; i < n_metadata; ++i) {
    cursor.enter("a metadata key");
    const std::string_view key = TRY(cursor.string());
    if (key.size() > kMaxNameBytes) {
      return cursor.corrupt(fmt::format("a metadata key has {} bytes, more than {}", key.size(), kMaxNameBytes));
    }
    cursor.enter("the value of key", key);
    TRY(cursor.charge(sizeof(KeyValue) + key.size()));
    Value value = TRY(read_value(cursor, key));
    out.push_back({std::string(key), std::move(value)});
  }
  const NameIndex<KeyValue, &KeyValue::key> index(out);
  if (const KeyValue* twice = index.first_duplicate(out)) {
    return cursor.corrupt(fmt::format("key '{}' stands twice in the metadata", printable(twice->key)),
                          "convert the model again or use another file");
  }
  return out;
}

Result<uint32_t> read_alignment(const Cursor& cursor, std::span<const KeyValue> metadata) {
  const auto at =
      std::find_if(metadata.begin(), metadata.end(), [](const KeyValue& kv) { return kv.key == kAlignmentKey; });
  if (at == metadata.end()) return kDefaultAlignment;
  constexpr std::string_view kRemedy = "convert the model again or use another file";
  if (at->value.kind != Kind::u32) {
    return cursor.corrupt(fmt::format("{} is of kind {}, not u32", kAlignmentKey, kind_name(at->value.kind)), kRemedy);
  }
  const uint64_t alignment = *at->value.as_uint();
  if (!is_power_of_two(alignment) || alignment < kMinAlignment || alignment > kMaxAlignment) {
    return cursor.corrupt(fmt::format("{} is {}, not a power of two from {} to {}", kAlignmentKey, alignment,
                                      kMinAlignment, kMaxAlignment),
                          kRemedy);
  }
  return static_cast<uint32_t>(alignment);
}

}  // namespace sluice::gguf
