// Builds GGUF files field by field, valid ones and, by patching any field afterwards, broken ones. It shares no code
// with the library's writer.
//
//   GgufBuilder b;
//   b.set("general.name", Value::of("tiny")).add("w", {32, 2}, Type::Q4_0, values);
//   b.write(path);                                          // a valid file
//   File::parse(b.patch("tensor/w/n_dims", uint32_t{9}).bytes());  // a broken one
//
// Fields: magic, version, n_tensors, n_metadata,
//   key/KEY/{length,bytes,kind,value}, of arrays key/KEY/{element,count} (their elements are the value),
//   of strings key/KEY/value/length and key/KEY/value, of the strings of an array key/KEY/value/I/length and .../I,
//   tensor/NAME/{length,bytes,n_dims,dim0..dim3,type,offset,data}.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/gguf.h"

namespace sluice::test {

struct Field {
  std::string name;
  size_t offset = 0;
  size_t size = 0;
};

class GgufBuilder {
 public:
  // Replaces an earlier value of the key.
  GgufBuilder& set(const std::string& key, gguf::Value value);
  // Appends, even where the key stands already (its fields get the name key/KEY#2/...).
  GgufBuilder& set_again(const std::string& key, gguf::Value value);

  // Values in row order, dims[0] fastest; they are quantised to `type`.
  GgufBuilder& add(const std::string& name, std::vector<uint64_t> dims, Type type, std::span<const float> values);
  // Values that depend on the name and the position alone, roughly normal with deviation `scale`.
  GgufBuilder& add_random(const std::string& name, std::vector<uint64_t> dims, Type type, float scale = 1.0f);
  GgufBuilder& add_raw(const std::string& name, std::vector<uint64_t> dims, uint32_t type_id,
                       std::vector<std::byte> data);

  template <class T>
  GgufBuilder& patch(const std::string& field, T value) {
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    patches_[field] = std::move(bytes);
    return *this;
  }
  GgufBuilder& patch_bytes(const std::string& field, std::string_view bytes);
  GgufBuilder& big_endian() { return big_endian_ = true, *this; }

  // Throws where a patch names no field, or has another size than it.
  std::vector<std::byte> bytes() const;
  std::vector<Field> fields() const;  // in the order of their offsets, without gaps but for the padding
  void write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type_id;
    std::vector<std::byte> data;
  };
  std::vector<std::byte> layout(std::vector<Field>& fields) const;
  std::vector<std::pair<std::string, gguf::Value>> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::vector<std::byte>> patches_;
  bool big_endian_ = false;
};

// Deterministic, roughly normal numbers.
std::vector<float> random_values(size_t n, uint64_t seed, float scale = 1.0f);
std::vector<std::byte> random_bytes(size_t n, uint64_t seed);

// Whole rows as blocks of the type; of types that have no quantiser random blocks, of a seed in the values.
std::vector<std::byte> quantised(Type type, std::span<const float> values);

void write_bytes(const std::string& path, std::span<const std::byte> bytes);
void write_text(const std::string& path, std::string_view text);
std::vector<std::byte> read_bytes(const std::string& path);

}  // namespace sluice::test
