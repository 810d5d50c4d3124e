// Models with recurrent layers, from files that vary what others have fixed.
#include <gtest/gtest.h>

#include <map>

#include "sluice/gguf.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sluice::test {
namespace {

using Bytes = std::vector<std::byte>;

struct Tensor {
  std::string name;
  std::vector<uint64_t> dims;
  Type type;
  Bytes bytes;
};

// A whole file in memory, to be changed and written.
struct Contents {
  std::map<std::string, gguf::Value> metadata;
  std::vector<Tensor> tensors;

  explicit Contents(const std::string& fixture) {
    const auto path = source_dir() / "tests" / "fixtures" / "oracle" / (fixture + ".gguf");
    auto file = gguf::File::open(path.string());
    EXPECT_TRUE(file) << file.error().message;
    for (const gguf::KeyValue& pair : file->metadata()) metadata[pair.key] = pair.value;
    for (const gguf::TensorInfo& t : file->tensors()) {
      const auto bytes = file->data(t);
      tensors.push_back({t.name, t.dims, t.type->type, Bytes(bytes.begin(), bytes.end())});
    }
  }

  Tensor take(const std::string& name) {
    const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    EXPECT_NE(it, tensors.end()) << name;
    Tensor taken = std::move(*it);
    tensors.erase(it);
    return taken;
  }

  void write(const std::string& path) const {
    auto writer = gguf::Writer::create(path);
    ASSERT_TRUE(writer);
    for (const auto& [key, value] : metadata) writer->set(key, value);
    for (const Tensor& t : tensors) ASSERT_TRUE(writer->declare(t.name, t.dims, t.type));
    ASSERT_TRUE(writer->write_header());
    for (const Tensor& t : tensors) ASSERT_TRUE(writer->data(t.bytes));
    ASSERT_TRUE(writer->finish());
  }
};

Result<std::vector<float>> logits_of(const std::string& path, bool repack = true) {
  EngineOptions options;
  options.n_ctx = 64;
  options.n_threads = 2;
  options.repack = repack;
  auto engine = TRY(Engine::load(path, options));
  auto sequence = TRY(engine->new_sequence());
  const auto tokens = ids(4, 30);
  return std::move(TRY(engine->step({{.sequence = &sequence, .tokens = tokens, .logits = Logits::all}})).logits);
}

std::string refusal(const Contents& contents) {
  const TempDir dir;
  contents.write(dir.file("model.gguf"));
  const auto logits = logits_of(dir.file("model.gguf"));
  return logits ? "" : logits.error().message;
}

bool names(const std::string& message, const std::string& what) { return message.find(what) != std::string::npos; }

// q, k, v and z in one matrix, by key head, as older files of qwen3next have them; and no list of recurrent layers.
void join_projections(Contents& contents) {
  constexpr size_t kSize = 16, kKeyHeads = 2, kValues = 3 * kSize;  // of the fixture
  for (const char* layer : {"blk.0.", "blk.1.", "blk.2."}) {
    const Tensor qkv = contents.take(std::string(layer) + "attn_qkv.weight");
    const Tensor z = contents.take(std::string(layer) + "attn_gate.weight");
    const size_t row_bytes = qkv.bytes.size() / qkv.dims[1];
    Tensor joined{std::string(layer) + "ssm_in.weight", {qkv.dims[0], qkv.dims[1] + z.dims[1]}, qkv.type, {}};
    const auto append = [&](const Tensor& from, size_t first, size_t n) {
      const auto at = from.bytes.begin() + static_cast<ptrdiff_t>(first * row_bytes);
      joined.bytes.insert(joined.bytes.end(), at, at + static_cast<ptrdiff_t>(n * row_bytes));
    };
    for (size_t head = 0; head < kKeyHeads; ++head) {
      append(qkv, head * kSize, kSize);
      append(qkv, (kKeyHeads + head) * kSize, kSize);
      append(qkv, 2 * kKeyHeads * kSize + head * kValues, kValues);
      append(z, head * kValues, kValues);
    }
    contents.tensors.push_back(std::move(joined));
  }
  contents.metadata.erase("qwen3next.full_attention_interval");
  contents.metadata.erase("qwen3next.attention.recurrent_layers");
}

TEST(Hybrids, OlderFilesOfQwen3NextGiveTheSame) {
  const TempDir dir;
  const std::string before = dir.file("before.gguf"), after = dir.file("after.gguf");
  Contents contents("qwen3next");
  contents.write(before);
  join_projections(contents);
  contents.write(after);
  for (const bool repack : {true, false}) {
    const auto expected = logits_of(before, repack), got = logits_of(after, repack);
    ASSERT_TRUE(expected && got) << (expected ? got : expected).error().message;
    EXPECT_EQ(*got, *expected);
  }
}

TEST(Hybrids, SizesThatDoNotFitAreRefused) {
  const std::map<std::string, uint32_t> wrong = {{"qwen3next.ssm.state_size", 24},
                                                 {"qwen3next.ssm.group_count", 4},
                                                 {"qwen3next.ssm.conv_kernel", 1},
                                                 {"qwen3next.ssm.inner_size", 0}};
  for (const auto& [key, value] : wrong) {
    Contents contents("qwen3next");
    contents.metadata[key] = gguf::Value::of(value);
    EXPECT_TRUE(names(refusal(contents), ";")) << key;
  }
  Contents contents("nemotron_h_moe-latent");
  contents.metadata["nemotron_h_moe.ssm.time_step_rank"] = gguf::Value::of(uint32_t{7});
  EXPECT_TRUE(names(refusal(contents), "7 heads"));
}

TEST(Hybrids, MissingTensorsAreNamed) {
  for (const char* name :
       {"blk.0.ssm_conv1d.bias", "blk.0.ssm_d", "blk.1.ffn_latent_up.weight", "blk.1.ffn_up_shexp.weight"}) {
    Contents contents("nemotron_h_moe-latent");
    contents.take(name);
    EXPECT_TRUE(names(refusal(contents), name)) << name;
  }
  for (const char* name :
       {"blk.0.ssm_a", "blk.1.ssm_ba.weight", "blk.2.attn_gate.weight", "blk.3.attn_q_norm.weight"}) {
    Contents contents("qwen3next");
    contents.take(name);
    EXPECT_TRUE(names(refusal(contents), name)) << name;
  }
}

}  // namespace
}  // namespace sluice::test
