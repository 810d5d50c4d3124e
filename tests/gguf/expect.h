// Checks that hold for every refusal of a file.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <string>

#include "gguf/allocations.h"
#include "sluice/gguf.h"
#include "support/gguf_builder.h"

namespace sluice::test {

// The message is one line "WHAT; REMEDY" of moderate length that no terminal can stumble over.
inline void expect_good_message(const std::string& message) {
  EXPECT_NE(message.find("; "), std::string::npos) << message;
  EXPECT_LT(message.size(), 2500u) << message;
  for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20u) << message;
}

// `open` returns a Result<File>. It must fail with all of `parts` in its message, in under 50 MB, and without hanging.
template <std::invocable Open>
std::string expect_refused(Open&& open, std::initializer_list<std::string_view> parts) {
  const uint64_t before = allocated_bytes();
  const auto start = std::chrono::steady_clock::now();
  Result<gguf::File> file = open();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(allocated_bytes() - before, 50'000'000u);
  EXPECT_LT(seconds.count(), 20.0);
  if (file) {
    ADD_FAILURE() << "it was opened";
    return {};
  }
  const std::string& message = file.error().message;
  expect_good_message(message);
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
  }
  return message;
}

inline std::string expect_refused(const GgufBuilder& builder, std::initializer_list<std::string_view> parts) {
  const auto bytes = builder.bytes();
  return expect_refused([&] { return gguf::File::parse(bytes); }, parts);
}

inline void expect_loads(const GgufBuilder& builder) {
  const auto bytes = builder.bytes();
  const auto file = gguf::File::parse(bytes);
  EXPECT_TRUE(file) << file.error().message;
}

// A small valid file with one of everything.
inline GgufBuilder small_file() {
  using gguf::Value;
  GgufBuilder b;
  b.set("general.architecture", Value::of("tiny"));
  b.set("tiny.block_count", Value::of(uint32_t{2}));
  b.set("tiny.causal", Value::of(true));
  b.set("tokenizer.tokens", Value::of(std::vector<std::string>{"a", "bc", ""}));
  b.set("tokenizer.scores", Value::of(std::vector<float>{1.0f, -2.5f}));
  b.add_random("a.weight", {32, 2}, Type::Q4_0);
  b.add_random("b.weight", {4, 2, 3}, Type::F32);  // 96 bytes: no padding at the end
  return b;
}

}  // namespace sluice::test
