// Writes the seed files of the GGUF fuzzer: small valid files and some with one crafted field.
#include <cstdio>
#include <filesystem>
#include <string>

#include "support/gguf_builder.h"

namespace {

using sluice::Type;
using sluice::gguf::Array;
using sluice::gguf::Kind;
using sluice::gguf::Value;
using sluice::test::GgufBuilder;

Value numbers(Kind element, Array array) {
  Value value;
  value.kind = Kind::array;
  value.element = element;
  value.data = std::move(array);
  return value;
}

GgufBuilder every_kind() {
  GgufBuilder b;
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(Kind::f64); ++kind) {
    const auto k = static_cast<Kind>(kind);
    if (k == Kind::string || k == Kind::array) continue;
    const bool is_float = k == Kind::f32 || k == Kind::f64;
    const bool is_signed = k == Kind::i8 || k == Kind::i16 || k == Kind::i32 || k == Kind::i64;
    Value one;
    one.kind = k;
    if (is_float)
      one.data = 1.5;
    else if (is_signed)
      one.data = int64_t{-1};
    else
      one.data = uint64_t{1};
    const std::string name(kind_name(k));
    b.set(name, one);
    if (is_float)
      b.set(name + "s", numbers(k, std::vector<double>{0.0, 1.0}));
    else if (is_signed)
      b.set(name + "s", numbers(k, std::vector<int64_t>{-1, 1}));
    else
      b.set(name + "s", numbers(k, std::vector<uint64_t>{0, 1}));
  }
  b.set("string", Value::of("text")).set("strings", Value::of(std::vector<std::string>{"a", "", "bc"}));
  b.set("nested", numbers(Kind::array, std::vector<Value>{Value::of(std::vector<uint32_t>{1}),
                                                          Value::of(std::vector<std::string>{"x"})}));
  return b;
}

GgufBuilder model() {
  GgufBuilder b;
  b.set("general.architecture", Value::of("tiny")).set("general.alignment", Value::of(uint32_t{8}));
  b.set("tiny.block_count", Value::of(uint32_t{1}));
  b.set("tokenizer.ggml.tokens", Value::of(std::vector<std::string>{"<s>", "a", "b", "ab"}));
  b.add_random("q4_0", {32, 2}, Type::Q4_0).add_random("q8_0", {32}, Type::Q8_0).add_random("q6_k", {256}, Type::Q6_K);
  b.add_random("f32", {2, 1, 1, 1}, Type::F32).add_random("f16", {3}, Type::F16).add_random("bf16", {1, 5}, Type::BF16);
  b.add_raw("iq2_xxs", {256}, 16, std::vector<std::byte>(66)).add_raw("vendor", {7}, 99, std::vector<std::byte>(16));
  return b;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const GgufBuilder& b) { b.write((folder / name).string()); };
  write("empty_model", GgufBuilder());
  write("every_kind", every_kind());
  write("model", model());
  write("model_v2", model().patch("version", uint32_t{2}));
  write("version_1", model().patch("version", uint32_t{1}));
  write("big_endian", model().big_endian());
  write("huge_array", every_kind().patch("key/strings/count", uint64_t{1} << 48));
  write("huge_tensor", model().patch("tensor/f32/dim0", uint64_t{1} << 62));
  write("overlap", model().patch("tensor/q8_0/offset", uint64_t{0}));
  write("far_offset", model().patch("tensor/q8_0/offset", UINT64_MAX - 7));
  write("five_dims", model().patch("tensor/f32/n_dims", uint32_t{5}));
  write("same_key_twice", model().set_again("tiny.block_count", Value::of(uint32_t{2})));
  write("part_of_set", model()
                           .set("split.count", Value::of(uint32_t{2}))
                           .set("split.no", Value::of(uint32_t{0}))
                           .set("split.tensors.count", Value::of(int32_t{9})));
  sluice::test::write_text((folder / "web_page").string(), "<!DOCTYPE html><html></html>");
}
