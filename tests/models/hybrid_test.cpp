// Models with recurrent layers, from files that vary what others have fixed.
#include <gtest/gtest.h>

#include <map>

#include "sluice/gguf.h"
#include "sluice/quantize.h"
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

  explicit Contents(const std::string& path) {
    auto file = gguf::File::open(path);
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

std::string fixture(const std::string& name) {
  return (source_dir() / "tests" / "fixtures" / "oracle" / (name + ".gguf")).string();
}

Result<std::unique_ptr<Engine>> open(const std::string& path, bool repack = true) {
  EngineOptions options;
  options.n_ctx = 64;
  options.n_threads = 2;
  options.repack = repack;
  return Engine::load(path, options);
}

Result<std::vector<float>> logits_of(const std::string& path, bool repack = true) {
  auto engine = TRY(open(path, repack));
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
  for (const Type type : {Type::F32, Type::Q8_0}) {
    const std::string name(type_info(type).name), before = dir.file(name), after = dir.file(name + "-joined");
    ASSERT_TRUE(quantize_file(fixture("qwen3next"), before, {.type = type}));
    Contents contents(before);
    join_projections(contents);
    contents.write(after);
    for (const bool repack : {true, false}) {
      const auto expected = logits_of(before, repack), got = logits_of(after, repack);
      ASSERT_TRUE(expected && got) << (expected ? got : expected).error().message;
      EXPECT_EQ(*got, *expected) << name;
    }
  }
}

TEST(Hybrids, SizesThatDoNotFitAreRefused) {
  const std::map<std::string, uint32_t> wrong = {{"qwen3next.ssm.state_size", 24},
                                                 {"qwen3next.ssm.group_count", 4},
                                                 {"qwen3next.ssm.conv_kernel", 1},
                                                 {"qwen3next.ssm.inner_size", 0}};
  for (const auto& [key, value] : wrong) {
    Contents contents(fixture("qwen3next"));
    contents.metadata[key] = gguf::Value::of(value);
    EXPECT_TRUE(names(refusal(contents), ";")) << key;
  }
  Contents contents(fixture("nemotron_h_moe-latent"));
  contents.metadata["nemotron_h_moe.ssm.time_step_rank"] = gguf::Value::of(uint32_t{7});
  EXPECT_TRUE(names(refusal(contents), "7 heads"));
}

// Layers may use numbers and widths of experts of their own: what is cut off a layer here were zeros.
TEST(Hybrids, ExpertsMayDifferByLayer) {
  constexpr size_t kExperts = 10, kLatent = 24, kWide = 40, kNarrow = 16;
  const TempDir dir;
  const std::string wide = dir.file("wide.gguf"), narrow = dir.file("narrow.gguf");
  Contents contents(fixture("nemotron_h_moe-latent"));
  Tensor up = contents.take("blk.3.ffn_up_exps.weight"), down = contents.take("blk.3.ffn_down_exps.weight");
  Bytes few_up, few_down;
  for (size_t expert = 0; expert < kExperts; ++expert) {
    constexpr size_t kRow = kLatent * sizeof(float);
    std::byte* rows = up.bytes.data() + expert * kWide * kRow;
    std::fill(rows + kNarrow * kRow, rows + kWide * kRow, std::byte{0});
    few_up.insert(few_up.end(), rows, rows + kNarrow * kRow);
  }
  for (size_t row = 0; row < kExperts * kLatent; ++row) {
    const std::byte* from = down.bytes.data() + row * kWide * sizeof(float);
    few_down.insert(few_down.end(), from, from + kNarrow * sizeof(float));
  }
  Contents changed = contents;
  contents.tensors.push_back(up);
  contents.tensors.push_back(down);
  contents.metadata["nemotron_h_moe.expert_used_count"] = gguf::Value::of(std::vector<uint32_t>{0, 4, 0, 2});
  contents.write(wide);
  changed.tensors.push_back({up.name, {kLatent, kNarrow, kExperts}, up.type, few_up});
  changed.tensors.push_back({down.name, {kNarrow, kLatent, kExperts}, down.type, few_down});
  changed.metadata["nemotron_h_moe.expert_used_count"] = gguf::Value::of(std::vector<uint32_t>{0, 4, 0, 2});
  changed.metadata["nemotron_h_moe.expert_feed_forward_length"] =
      gguf::Value::of(std::vector<uint32_t>{0, kWide, 0, kNarrow});
  changed.write(narrow);
  const auto expected = logits_of(wide), got = logits_of(narrow);
  ASSERT_TRUE(expected && got) << (expected ? got : expected).error().message;
  EXPECT_LE(nmse(*got, *expected), 1e-10);
  EXPECT_GT(nmse(*got, *logits_of(fixture("nemotron_h_moe-latent"))), 1e-6);

  auto engine = open(narrow);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto tokens = ids(4, 30);
  StepOptions options{.routing = true};
  const auto run = [&] {
    auto sequence = (*engine)->new_sequence();
    return (*engine)->step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all}}, options);
  };
  const auto free = run();
  ASSERT_TRUE(free);
  const Routing routing = free->routing;
  EXPECT_EQ(routing.n_used, 4u);
  EXPECT_EQ(routing.layers.at(1).experts.size(), 30u * 4);
  EXPECT_EQ(routing.layers.at(3).experts.size(), 30u * 2);
  options.forced = &routing;
  const auto forced = run();
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(forced->logits, free->logits);
}

TEST(Hybrids, MissingTensorsAreNamed) {
  for (const char* name :
       {"blk.0.ssm_conv1d.bias", "blk.0.ssm_d", "blk.1.ffn_latent_up.weight", "blk.1.ffn_up_shexp.weight"}) {
    Contents contents(fixture("nemotron_h_moe-latent"));
    contents.take(name);
    EXPECT_TRUE(names(refusal(contents), name)) << name;
  }
  for (const char* name :
       {"blk.0.ssm_a", "blk.1.ssm_ba.weight", "blk.2.attn_gate.weight", "blk.3.attn_q_norm.weight"}) {
    Contents contents(fixture("qwen3next"));
    contents.take(name);
    EXPECT_TRUE(names(refusal(contents), name)) << name;
  }
}

}  // namespace
}  // namespace sluice::test
