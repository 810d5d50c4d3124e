#include "sluice/npy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/file_io.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPreamble = 10;  // magic, version 1.0, u16 length of the description
constexpr size_t kDataAlignment = 64;

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEndRecord = 0x06054b50;
constexpr size_t kLocalHeaderBytes = 30, kCentralHeaderBytes = 46, kEndRecordBytes = 22;

size_t element_bytes(NpyType type) { return type == NpyType::f32 ? 4 : 8; }

std::string npy_header(NpyType type, std::span<const uint64_t> shape) {
  std::string dims;
  for (const uint64_t n : shape) dims += fmt::format("{}, ", n);
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 type == NpyType::f32 ? "<f4" : "<i8", dims);
  const size_t total = (kPreamble + text.size() + kDataAlignment) / kDataAlignment * kDataAlignment;
  text.resize(total - kPreamble - 1, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  return std::string(kMagic) + '\x01' + '\0' + static_cast<char>(length & 0xff) + static_cast<char>(length >> 8) + text;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The checksum of zip files: reflected CRC-32.
uint32_t crc32(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0xEDB88320u : 0);
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) crc = table[(crc ^ static_cast<uint8_t>(b)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

void put_u16(std::string& out, uint32_t v) { out += {static_cast<char>(v & 0xff), static_cast<char>((v >> 8) & 0xff)}; }
void put_u32(std::string& out, uint64_t v) {
  put_u16(out, static_cast<uint32_t>(v & 0xffff));
  put_u16(out, static_cast<uint32_t>((v >> 16) & 0xffff));
}

Error bad_npy(std::string_view what) {
  return {Code::corrupt_file, fmt::format("this is no array file: {}; write it again", what)};
}

// The text after "'KEY': " in a description.
std::string_view described(std::string_view description, std::string_view key) {
  const size_t at = description.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  description.remove_prefix(at + key.size() + 3);
  return description.substr(std::min(description.find_first_not_of(' '), description.size()));
}

}  // namespace

struct NpyWriter::Impl {
  AtomicFile file;
  NpyType type;
  uint64_t missing_bytes;
  Result<void> write(NpyType given, std::span<const std::byte> bytes) {
    if (given != type || bytes.size() > missing_bytes)
      return Error{Code::invalid_argument,
                   "more or other elements are written than the array's shape says; report this"};
    missing_bytes -= bytes.size();
    return file.write(bytes);
  }
};

Result<NpyWriter> NpyWriter::create(const std::string& path, NpyType type, std::span<const uint64_t> shape) {
  uint64_t n_bytes = element_bytes(type);
  for (const uint64_t n : shape) {
    const auto product = checked_mul(n_bytes, n);
    if (!product) return Error{Code::invalid_argument, "the array is too large for any file; choose another shape"};
    n_bytes = *product;
  }
  AtomicFile file = TRY(AtomicFile::create(path));
  const std::string header = npy_header(type, shape);
  TRY(file.write(std::as_bytes(std::span(header))));
  return NpyWriter(std::unique_ptr<Impl>(new Impl{std::move(file), type, n_bytes}));
}

NpyWriter::NpyWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NpyWriter::NpyWriter(NpyWriter&&) noexcept = default;
NpyWriter& NpyWriter::operator=(NpyWriter&&) noexcept = default;
NpyWriter::~NpyWriter() = default;

Result<void> NpyWriter::write(std::span<const float> values) {
  return impl_->write(NpyType::f32, std::as_bytes(values));
}
Result<void> NpyWriter::write(std::span<const int64_t> values) {
  return impl_->write(NpyType::i64, std::as_bytes(values));
}

Result<void> NpyWriter::finish() {
  if (impl_->missing_bytes != 0)
    return Error{Code::invalid_argument, "fewer elements are written than the array's shape says; report this"};
  return impl_->file.commit();
}

void NpzWriter::add(std::string_view name, std::span<const uint64_t> shape, std::span<const float> values) {
  add(name, NpyType::f32, shape, std::as_bytes(values));
}
void NpzWriter::add(std::string_view name, std::span<const uint64_t> shape, std::span<const int64_t> values) {
  add(name, NpyType::i64, shape, std::as_bytes(values));
}

void NpzWriter::add(std::string_view name, NpyType type, std::span<const uint64_t> shape,
                    std::span<const std::byte> data) {
  const std::string file_name = std::string(name) + ".npy";
  std::string content = npy_header(type, shape);
  content += as_text(data);
  // What the local and the central header have in common: version, flags, stored, 1980-01-01, checksum, sizes, name.
  std::string common;
  for (const uint32_t v : {20u, 0u, 0u, 0u, 0x21u}) put_u16(common, v);
  put_u32(common, crc32(std::as_bytes(std::span(content))));
  put_u32(common, content.size());
  put_u32(common, content.size());
  put_u16(common, static_cast<uint32_t>(file_name.size()));
  put_u16(common, 0);

  put_u32(directory_, kCentralHeader);
  put_u16(directory_, 20);
  directory_ += common;
  for (int i = 0; i < 3; ++i) put_u16(directory_, 0);  // comment, disk, internal attributes
  put_u32(directory_, 0);
  put_u32(directory_, out_.size());
  directory_ += file_name;

  put_u32(out_, kLocalHeader);
  out_ += common + file_name + content;
  ++n_entries_;
}

Result<void> NpzWriter::write(const std::string& path) {
  if (out_.size() + directory_.size() >= std::numeric_limits<uint32_t>::max() || n_entries_ > 0xffff)
    return Error{Code::unsupported, "the arrays take more than the 4 GB that an .npz file holds; use fewer tokens"};
  AtomicFile file = TRY(AtomicFile::create(path));
  std::string end = directory_;
  put_u32(end, kEndRecord);
  put_u32(end, 0);
  put_u16(end, n_entries_);
  put_u16(end, n_entries_);
  put_u32(end, directory_.size());
  put_u32(end, out_.size());
  put_u16(end, 0);
  TRY(file.write(std::as_bytes(std::span(out_))));
  TRY(file.write(std::as_bytes(std::span(end))));
  return file.commit();
}

Result<NpyArray> parse_npy(std::span<const std::byte> bytes) {
  std::string_view text = as_text(bytes);
  if (text.size() < kPreamble || !text.starts_with(kMagic)) return bad_npy("it does not begin like one");
  const size_t length = static_cast<uint8_t>(text[8]) | size_t{static_cast<uint8_t>(text[9])} << 8;
  if (text[6] != 1)
    return Error{Code::unsupported, "only version 1 of the array format is read; save it with a shorter description"};
  if (length > text.size() - kPreamble) return bad_npy("its description is cut");
  const std::string_view description = text.substr(kPreamble, length);
  text.remove_prefix(kPreamble + length);

  NpyArray array;
  const std::string_view type = described(description, "descr");
  if (type.starts_with("'<f4'"))
    array.type = NpyType::f32;
  else if (type.starts_with("'<i8'"))
    array.type = NpyType::i64;
  else
    return Error{Code::unsupported, "only arrays of float32 and int64 are read; convert it"};
  if (!described(description, "fortran_order").starts_with("False"))
    return Error{Code::unsupported, "only arrays in C order are read; convert it"};
  std::string_view shape = described(description, "shape");
  shape = shape.substr(0, shape.find(')'));
  uint64_t n = 1;
  for (;;) {
    shape = shape.substr(std::min(shape.find_first_of("0123456789"), shape.size()));
    if (shape.empty()) break;
    uint64_t dim = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dim);
    const auto product = checked_mul(n, dim);
    if (error != std::errc() || !product) return bad_npy("its shape is no shape");
    n = *product;
    array.shape.push_back(dim);
    shape.remove_prefix(static_cast<size_t>(end - shape.data()));
  }
  if (checked_mul(n, element_bytes(array.type)) != text.size()) return bad_npy("its size does not fit its shape");
  if (array.type == NpyType::f32)
    array.f32.resize(n);
  else
    array.i64.resize(n);
  if (n > 0)
    std::memcpy(array.type == NpyType::f32 ? static_cast<void*>(array.f32.data()) : array.i64.data(), text.data(),
                text.size());
  return array;
}

Result<std::map<std::string, NpyArray>> parse_npz(std::span<const std::byte> bytes) {
  const auto u16 = [&](size_t at) {
    return static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8;
  };
  const auto u32 = [&](size_t at) { return u16(at) | u16(at + 2) << 16; };
  if (bytes.size() < kEndRecordBytes) return bad_npy("it is too short for an .npz");
  const size_t end = bytes.size() - kEndRecordBytes;
  if (u32(end) != kEndRecord) return bad_npy("it does not end like an .npz");
  std::map<std::string, NpyArray> arrays;
  size_t at = u32(end + 16);
  for (uint32_t i = 0; i < u16(end + 10); ++i) {
    if (at > end || end - at < kCentralHeaderBytes || u32(at) != kCentralHeader)
      return bad_npy("its directory is damaged");
    const size_t n_name = u16(at + 28), n_skip = size_t{u16(at + 30)} + u16(at + 32), n_data = u32(at + 24),
                 local = u32(at + 42);
    if (u16(at + 10) != 0)
      return Error{Code::unsupported, "compressed .npz files are not read; save it without compression"};
    if (end - at - kCentralHeaderBytes < n_name + n_skip || local > end || end - local < kLocalHeaderBytes)
      return bad_npy("its directory is damaged");
    std::string name(as_text(bytes.subspan(at + kCentralHeaderBytes, n_name)));
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    const size_t skip = kLocalHeaderBytes + u16(local + 26) + u16(local + 28);
    if (end - local < skip || end - local - skip < n_data) return bad_npy("an array of it is cut");
    arrays[name] = TRY(parse_npy(bytes.subspan(local + skip, n_data)));
    at += kCentralHeaderBytes + n_name + n_skip;
  }
  return arrays;
}

}  // namespace sluice
