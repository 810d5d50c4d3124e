#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "gguf/expect.h"
#include "support/temp_dir.h"

namespace sluice::gguf {
namespace {

using test::GgufBuilder;
using test::small_file;

TEST(GgufReader, ReadsASmallFile) {
  const auto bytes = small_file().bytes();
  const auto file = File::parse(bytes, "small");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->path(), "small");
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->n_files(), 1u);
  EXPECT_EQ(file->file_bytes(), bytes.size());
  EXPECT_FALSE(file->mapped());
  ASSERT_EQ(file->metadata().size(), 5u);
  EXPECT_EQ(file->metadata()[1].key, "tiny.block_count");
  EXPECT_EQ(*file->get_string("general.architecture"), "tiny");
  EXPECT_EQ(*file->get_uint("tiny.block_count"), 2u);
  EXPECT_EQ(*file->get_bool("tiny.causal"), true);
  EXPECT_EQ(*file->get_strings("tokenizer.tokens"), (std::vector<std::string>{"a", "bc", ""}));
  EXPECT_EQ(*file->get_floats("tokenizer.scores"), (std::vector<double>{1.0, -2.5}));
  const TensorInfo* tensor = file->find_tensor("b.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dims, (std::vector<uint64_t>{4, 2, 3}));
  EXPECT_EQ(tensor->type, &type_info(Type::F32));
  EXPECT_EQ(tensor->n_elements, 24u);
  EXPECT_EQ(tensor->n_bytes, 96u);
  EXPECT_EQ(tensor->file_offset % 32, 0u);
  EXPECT_EQ(file->data(*tensor).data(), bytes.data() + tensor->file_offset);
  EXPECT_EQ(file->find_tensor("c.weight"), nullptr);
  EXPECT_EQ(file->find("none"), nullptr);
}

TEST(GgufReader, LookUpsTellWhatIsWrong) {
  const auto bytes = small_file().bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file);
  const auto missing = file->get_uint("tiny.none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_NE(missing.error().message.find("key 'tiny.none' is missing"), std::string::npos);
  const auto wrong = file->get_uint("general.architecture");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::corrupt_file);
  EXPECT_NE(wrong.error().message.find("key 'general.architecture' holds a value of kind string, not a count"),
            std::string::npos);
  EXPECT_EQ(file->get_ints("tokenizer.tokens").error().code, Code::corrupt_file);
  EXPECT_EQ(file->get_ints("tokenizer.scores").error().code, Code::corrupt_file);
  EXPECT_EQ(file->get_strings("tokenizer.scores").error().code, Code::corrupt_file);
  EXPECT_EQ(file->get_string("tokenizer.tokens").error().code, Code::corrupt_file);
  EXPECT_EQ(file->get_bool("tiny.block_count").error().code, Code::corrupt_file);
  EXPECT_EQ(file->get_float("tiny.causal").error().code, Code::corrupt_file);
  test::expect_good_message(wrong.error().message);
}

TEST(GgufReader, NumbersConvertWithoutLoss) {
  EXPECT_EQ(Value::of(int32_t{7}).as_uint(), 7u);
  EXPECT_EQ(Value::of(int32_t{-7}).as_uint(), std::nullopt);
  EXPECT_EQ(Value::of(UINT64_MAX).as_int(), std::nullopt);
  EXPECT_EQ(Value::of(INT64_MIN).as_int(), INT64_MIN);
  EXPECT_EQ(Value::of(2.0f).as_uint(), 2u);
  EXPECT_EQ(Value::of(2.5f).as_uint(), std::nullopt);
  EXPECT_EQ(Value::of(-2.0).as_int(), -2);
  EXPECT_EQ(Value::of(0x1p64).as_uint(), std::nullopt);
  EXPECT_EQ(Value::of(0x1p63).as_int(), std::nullopt);
  EXPECT_EQ(Value::of(std::numeric_limits<double>::quiet_NaN()).as_int(), std::nullopt);
  EXPECT_EQ(Value::of(int32_t{-7}).as_float(), -7.0);
  EXPECT_EQ(Value::of(true).as_uint(), std::nullopt);
  EXPECT_EQ(Value::of(true).as_bool(), true);
  EXPECT_EQ(Value::of(uint32_t{1}).as_bool(), std::nullopt);
  EXPECT_EQ(Value::of("text").kind, Kind::string);
  EXPECT_EQ(Value::of(std::vector<uint32_t>{1, 2}).array_size(), 2u);
  EXPECT_EQ(Value::of("text").array_size(), 0u);
}

TEST(GgufReader, DataIsReadOnRequestWithoutAMap) {
  const test::TempDir dir;
  small_file().write(dir.file("m.gguf"));
  const auto bytes = small_file().bytes();
  auto file = File::open(dir.file("m.gguf"), {.mmap = false});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(file->mapped());
  const TensorInfo& tensor = file->tensors()[1];
  EXPECT_TRUE(file->data(tensor).empty());
  const auto cancelled = file->load_data([](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::cancelled);
  EXPECT_TRUE(file->data(tensor).empty());
  uint64_t last = 0, all = 0;
  ASSERT_TRUE(file->load_data([&](uint64_t done, uint64_t total) { return last = done, all = total, true; }));
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, 64u + 96);
  EXPECT_TRUE(std::ranges::equal(file->data(tensor), std::span(bytes).subspan(tensor.file_offset, 96)));
  file->release(file->data(tensor));
  EXPECT_TRUE(std::ranges::equal(file->data(tensor), std::span(bytes).subspan(tensor.file_offset, 96)));
  // No map of the file is left.
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) EXPECT_EQ(line.find("m.gguf"), std::string::npos) << line;
}

TEST(GgufReader, MappedDataIsAView) {
  const test::TempDir dir;
  small_file().write(dir.file("m.gguf"));
  auto opened = File::open(dir.file("m.gguf"));
  ASSERT_TRUE(opened);
  File file = std::move(*opened);
  EXPECT_TRUE(file.mapped());
  EXPECT_TRUE(file.load_data());
  EXPECT_EQ(file.data(file.tensors()[1]).size(), 96u);
}

TEST(GgufReader, HeaderWithoutData) {
  const test::TempDir dir;
  const auto bytes = small_file().bytes();
  const size_t data_start = bytes.size() - 64 - 96;
  for (const size_t size : {data_start - 1, data_start + 70}) {
    test::write_bytes(dir.file("m.gguf"), std::span(bytes).first(size));
    EXPECT_FALSE(File::open(dir.file("m.gguf")));
    for (const bool mmap : {true, false}) {
      auto file = File::open(dir.file("m.gguf"), {.mmap = mmap, .metadata_only = true});
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_TRUE(file->data(file->tensors()[1]).empty());
      EXPECT_EQ(static_cast<bool>(file->load_data()), mmap);
    }
  }
}

TEST(GgufReader, TrailingBytesAndEmptyFilesAreFine) {
  auto bytes = small_file().bytes();
  bytes.resize(bytes.size() + 1000, std::byte{0xaa});
  EXPECT_TRUE(File::parse(bytes));
  const auto nothing = GgufBuilder().bytes();
  const auto file = File::parse(nothing);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_TRUE(file->metadata().empty());
}

TEST(GgufReader, TensorsMayLieInAnyOrder) {
  GgufBuilder b;
  b.add_random("first", {32}, Type::F32).add_random("second", {32}, Type::F32);
  b.patch("tensor/first/offset", uint64_t{128}).patch("tensor/second/offset", uint64_t{0});
  const auto bytes = b.bytes();
  EXPECT_TRUE(File::parse(bytes));
}

// M01: a stack of experts beyond 4 GiB, in a file that takes no room on the disk.
TEST(GgufReader, M01_StackBeyond4GiB) {
  const test::TempDir dir;
  const std::string path = dir.file("large.gguf");
  const uint64_t k = 4096, m = 8192, n_expert = 160, row_bytes = k / 32 * 34;
  GgufBuilder b;
  b.add_raw("stack", {k, m, n_expert}, 8, {});
  b.write(path);
  const uint64_t data_start = std::filesystem::file_size(path), total = row_bytes * m * n_expert;
  ASSERT_GT(total, uint64_t{1} << 32);
  std::filesystem::resize_file(path, data_start + total);
  {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(data_start + total - 1));
    out.put('\x5a');
  }
  const auto file = File::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].n_bytes, total);
  EXPECT_EQ(file->data(file->tensors()[0]).back(), std::byte{0x5a});
}

// A vocabulary of the usual size. The bound is wide for slow machines and sanitizers; it catches a quadratic step.
TEST(GgufReader, LargeVocabulariesOpenFast) {
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 151'000; ++i) tokens.push_back("token" + std::to_string(i));
  for (int i = 0; i < 150'000; ++i) merges.push_back("left" + std::to_string(i) + " right" + std::to_string(i));
  GgufBuilder b;
  b.set("tokenizer.ggml.tokens", Value::of(tokens)).set("tokenizer.ggml.merges", Value::of(merges));
  b.set("tokenizer.ggml.token_type", Value::of(std::vector<int32_t>(151'000, 1)));
  const test::TempDir dir;
  b.write(dir.file("vocab.gguf"));
  for (const bool mmap : {true, false}) {
    const auto start = std::chrono::steady_clock::now();
    const auto file = File::open(dir.file("vocab.gguf"), {.mmap = mmap});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_LT(seconds.count(), 20.0);  // a quadratic step would take minutes
    RecordProperty(mmap ? "mapped_us" : "read_us", static_cast<int>(seconds.count() * 1e6));
    EXPECT_EQ(file->find("tokenizer.ggml.merges")->array_size(), 150'000u);
  }
}

// Beyond the first window of the reader that maps nothing.
TEST(GgufReader, LongMetadataWithoutAMap) {
  const test::TempDir dir;
  GgufBuilder b = small_file();
  b.set("long", Value::of(std::string(9'000'000, 'x')));
  b.set("numbers", Value::of(std::vector<float>(3'000'000, 0.5f)));
  b.write(dir.file("m.gguf"));
  auto file = File::open(dir.file("m.gguf"), {.mmap = false});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->get_string("long")->size(), 9'000'000u);
  ASSERT_TRUE(file->load_data());
  const auto mapped = File::open(dir.file("m.gguf"));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::ranges::equal(file->data(file->tensors()[i]), mapped->data(mapped->tensors()[i])));
  }
}

TEST(GgufReader, ManyTensors) {
  GgufBuilder b;
  for (int i = 0; i < 20000; ++i) b.add_raw("tensor." + std::to_string(i), {8}, 0, std::vector<std::byte>(32));
  const auto bytes = b.bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  for (const TensorInfo& tensor : file->tensors()) ASSERT_EQ(file->find_tensor(tensor.name), &tensor);
}

}  // namespace
}  // namespace sluice::gguf
