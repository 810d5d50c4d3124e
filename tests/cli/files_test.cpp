// Files that commands write: logits, routes, other types.
#include <cmath>

#include "cli/program.h"
#include "sluice/gguf.h"
#include "sluice/npy.h"
#include "sluice/perplexity.h"
#include "support/gguf_builder.h"

namespace sluice::test {
namespace {

using nlohmann::json;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

NpyArray npy(const std::string& path) {
  const std::string text = file_text(path);
  auto array = parse_npy(bytes_of(text));
  EXPECT_TRUE(array) << array.error().message;
  return array ? std::move(*array) : NpyArray{};
}

double nmse(const std::vector<float>& a, const std::vector<float>& reference) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(double(a[i]) - double(reference[i]), 2);
    norm += std::pow(double(reference[i]), 2);
  }
  return difference / norm;
}

TEST(Logits, equal_the_reference_in_any_chunks) {
  const TempDir folder;
  const std::string name = "lfm2moe-q4_0";
  const NpyArray expected = npy(source_file("tests/fixtures/oracle/" + name + ".logits.npy"));
  for (const Arguments& more : {Arguments{}, {"--chunk", "7"}, {"-ub", "3"}, {"-t", "3"}}) {
    Arguments arguments{"logits",          "-m",    tiny_model(name),     "--tokens",
                        tiny_tokens(name), "--out", folder.file("l.npy"), "--reference",
                        "--greedy",        "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json out = json_of(sluice(arguments));
    EXPECT_EQ(out["greedy"], json_file(source_file("tests/fixtures/oracle/" + name + ".greedy.json"))["tokens"]);
    const NpyArray logits = npy(folder.file("l.npy"));
    ASSERT_EQ(logits.shape, expected.shape);
    EXPECT_LE(nmse(logits.f32, expected.f32), 1e-9);
  }
}

TEST(Embed, writes_a_vector_for_each_text) {
  const TempDir folder;
  write_file(folder.file("t.json"), R"(["Once upon a time", "There was"])");
  const json out =
      json_of(sluice({"embed", "--texts", folder.file("t.json"), "--out", folder.file("e.npy"), "--json"}));
  const NpyArray vectors = npy(folder.file("e.npy"));
  ASSERT_EQ(vectors.shape, (std::vector<uint64_t>{2, out["n_embd"]}));
  EXPECT_EQ(vectors.f32.size(), out["embeddings"][0].size() + out["embeddings"][1].size());
  EXPECT_EQ(vectors.f32[0], out["embeddings"][0][0].get<float>());
  const json one = json_of(sluice({"embed", "Once upon a time", "--json"}));
  EXPECT_EQ(one["embeddings"][0], out["embeddings"][0]);
  const json states = json_of(sluice({"embed", "Once upon a time", "--json", "--pooling", "none"}));
  EXPECT_EQ(states["embeddings"].back(), one["embeddings"][0]);
}

TEST(Logits, routing_is_written_and_replayed) {
  const TempDir folder;
  const std::string name = "lfm2moe-q4_0";
  const Arguments base{"logits", "-m", tiny_model(name), "--tokens", tiny_tokens(name), "--chunk", "31"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  ASSERT_EQ(sluice(with({"--reference", "--out", folder.file("a.npy"), "--routing", folder.file("r.json"), "--gate",
                         folder.file("g.npz")}))
                .code,
            0);
  const json routing = json_file(folder.file("r.json")),
             expected = json_file(source_file("tests/fixtures/oracle/" + name + ".routing.json"));
  ASSERT_EQ(routing["layers"].size(), expected["layers"].size());
  for (const auto& [layer, value] : expected["layers"].items()) {
    EXPECT_EQ(routing["layers"][layer]["experts"], value["experts"]);
    EXPECT_EQ(routing["layers"][layer]["weights"].size(), 64u);
    EXPECT_NEAR(routing["layers"][layer]["weights"][5][1].get<double>(), value["weights"][5][1].get<double>(), 1e-5);
  }
  const std::string gates = file_text(folder.file("g.npz"));
  auto arrays = parse_npz(bytes_of(gates));
  ASSERT_TRUE(arrays) << arrays.error().message;
  EXPECT_EQ(arrays->size(), expected["layers"].size());
  for (const auto& [layer, array] : *arrays) EXPECT_EQ(array.shape, (std::vector<uint64_t>{64, 8})) << layer;

  // The same choices give the same logits; others give others.
  ASSERT_EQ(sluice(with({"--reference", "--out", folder.file("b.npy"), "--routing-in", folder.file("r.json")})).code,
            0);
  EXPECT_EQ(npy(folder.file("a.npy")).f32, npy(folder.file("b.npy")).f32);
  json other = routing;
  for (auto& [layer, value] : other["layers"].items())
    for (json& row : value["experts"]) row = {0, 1, 2};
  write_file(folder.file("other.json"), other.dump());
  ASSERT_EQ(sluice(with({"--reference", "--out", folder.file("c.npy"), "--routing-in", folder.file("other.json"),
                         "--routing", folder.file("r2.json")}))
                .code,
            0);
  EXPECT_GT(nmse(npy(folder.file("c.npy")).f32, npy(folder.file("a.npy")).f32), 1e-3);
  EXPECT_EQ(json_file(folder.file("r2.json"))["layers"].begin().value()["experts"][9], json({0, 1, 2}));
}

TEST(Routes, writes_counts_and_a_picture) {
  const TempDir folder;
  const Said said = sluice({"routes", tiny_model("lfm2moe"), "Once upon a time", "--npz", folder.file("r.npz"), "--svg",
                            folder.file("r.svg")});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out.find('\x1b'), std::string::npos) << "colour in a pipe";
  const std::string npz = file_text(folder.file("r.npz"));
  auto arrays = parse_npz(bytes_of(npz));
  ASSERT_TRUE(arrays) << arrays.error().message;
  const NpyArray& counts = (*arrays)["counts"];
  EXPECT_EQ(counts.type, NpyType::i64);
  const json routes = json_of(sluice({"routes", tiny_model("lfm2moe"), "Once upon a time", "--json"}));
  EXPECT_EQ(lines_of(said.out).size(), 1 + routes["layers"].size()) << said.out;
  ASSERT_EQ(counts.shape, (std::vector<uint64_t>{4, 10}));
  int64_t sum = 0;
  for (const int64_t n : counts.i64) sum += n;
  EXPECT_EQ(sum,
            routes["n_tokens"].get<int64_t>() * routes["n_used"].get<int64_t>() * int64_t(routes["layers"].size()));
  for (const auto& [layer, value] : routes["layers"].items())
    for (size_t e = 0; e < 10; ++e)
      EXPECT_EQ(counts.i64[std::stoul(layer) * 10 + e], value["counts"][e].get<int64_t>());
  const std::string svg = file_text(folder.file("r.svg"));
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("expert 9: "), std::string::npos);
}

struct Quantized {
  const char* type;
  uint64_t file_type;
  const char* embedding;  // its rows do not divide by 256
};

TEST(Quantize, converts_between_all_types_and_keeps_the_rest) {
  const TempDir folder;
  const std::string out = folder.file("out.gguf");
  const std::string in = tiny_model("lfm2moe-q4_0");
  for (const Quantized& q : {Quantized{"F16", 1, "F16"},
                             {"BF16", 32, "BF16"},
                             {"F32", 0, "F32"},
                             {"q4_0", 2, "Q8_0"},
                             {"Q8_0", 7, "Q8_0"},
                             {"Q6_K", 18, "Q8_0"},
                             {"Q4_1", 3, "Q8_0"},
                             {"Q5_0", 8, "Q8_0"},
                             {"Q5_1", 9, "Q8_0"},
                             {"Q2_K", 10, "Q8_0"},
                             {"Q3_K", 11, "Q8_0"},
                             {"Q4_K", 14, "Q8_0"},
                             {"Q5_K", 16, "Q8_0"},
                             {"IQ4_NL", 25, "Q8_0"},
                             {"IQ4_XS", 30, "Q8_0"},
                             {"MXFP4", 38, "Q8_0"},
                             {"q4_k_m", 15, "Q8_0"}}) {
    SCOPED_TRACE(q.type);
    const Said said = sluice({"quantize", in, out, q.type});
    ASSERT_EQ(said.code, 0) << said.err;
    const auto before = gguf::File::open(in), after = gguf::File::open(out);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(*after->get_uint("general.file_type"), q.file_type);
    EXPECT_EQ(after->tensors().size(), before->tensors().size());
    EXPECT_EQ(*after->get_strings("tokenizer.ggml.tokens"), *before->get_strings("tokenizer.ggml.tokens"));
    EXPECT_EQ(after->find_tensor("token_embd.weight")->type->name, q.embedding);
    for (const gguf::TensorInfo& t : after->tensors()) {
      const bool small = t.name.find("norm") != t.name.npos || t.name.find("gate_inp") != t.name.npos;
      if (small || t.name.ends_with(".bias")) {
        EXPECT_EQ(t.type->name, "F32") << t.name;
      }
    }
    EXPECT_EQ(sluice({"run", out, "x", "-n", "2"}).code, 0);
  }
}

TEST(Quantize, keeps_more_bits_where_they_matter_most) {
  const TempDir folder;
  const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
  GgufBuilder b;
  b.set("general.architecture", gguf::Value::of(std::string("any")))
      .add_random("token_embd.weight", {256, 8}, Type::F16);
  b.add_random("blk.0.ffn_up_exps.weight", {256, 4, 3}, Type::F16)
      .add_random("blk.0.ffn_gate_inp.weight", {256, 3}, Type::F16);
  b.add_random("blk.0.attn_norm.weight", {256}, Type::F16).write(in);
  for (const std::string type : {"Q4_0", "Q6_K"}) {
    ASSERT_EQ(sluice({"quantize", in, out, type}).code, 0);
    const auto file = gguf::File::open(out);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->find_tensor("token_embd.weight")->type->name, "Q6_K");
    EXPECT_EQ(file->find_tensor("blk.0.ffn_up_exps.weight")->type->name, type);
    EXPECT_EQ(file->find_tensor("blk.0.ffn_gate_inp.weight")->type->name, "F32");
    EXPECT_EQ(file->find_tensor("blk.0.attn_norm.weight")->type->name, "F32");
  }
}

// Sixteen layers, in which the layers 0, 1, 4, 7, 10, 13, 14 and 15 matter more.
void write_layers(const std::string& path, uint32_t n_expert, Type type) {
  GgufBuilder b;
  b.set("general.architecture", gguf::Value::of("any")).set("any.block_count", gguf::Value::of(uint32_t{16}));
  b.set("any.expert_count", gguf::Value::of(n_expert));
  b.add_random("token_embd.weight", {256, 2}, type).add_random("output.weight", {256, 2}, type);
  for (int layer = 0; layer < 16; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up_exps"})
      b.add_random(blk + name + ".weight", {256, 2}, type);
    b.add_random(blk + "ffn_down_exps.weight", {layer == 1 || layer == 2 ? 96u : 256u, 2, 2}, type);
  }
  b.write(path);
}

// The types of a tensor of all layers: "Q6_K 0 1, Q4_K 2 ...", in the order in which they appear.
std::string types_of(const gguf::File& file, const std::string& name) {
  std::vector<std::pair<std::string, std::string>> found;
  for (int layer = 0; layer < 16; ++layer) {
    const std::string type(file.find_tensor("blk." + std::to_string(layer) + "." + name + ".weight")->type->name);
    auto at = std::find_if(found.begin(), found.end(), [&](const auto& pair) { return pair.first == type; });
    if (at == found.end()) at = found.insert(at, {type, ""});
    at->second += " " + std::to_string(layer);
  }
  if (found.size() == 1) return found[0].first;
  std::string text;
  for (const auto& [type, layers] : found) text += (text.empty() ? "" : ", ") + type + layers;
  return text;
}

struct Mixed {
  const char* type;
  uint32_t n_expert;
  uint64_t file_type;
  const char *values, *down, *output, *k;
};

TEST(Quantize, mixtures_give_some_tensors_better_types) {
  const TempDir folder;
  const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
  for (const Mixed& m :
       {Mixed{"Q4_K_M", 4, 15, "Q6_K 0 1 4 7 10 13 14 15, Q4_K 2 3 5 6 8 9 11 12",
              "Q6_K 0 4 7 10 13 14 15, Q8_0 1, Q5_0 2, Q4_K 3 5 6 8 9 11 12", "Q4_K", "Q4_K"},
        {"Q5_K_M", 4, 17, "Q6_K 0 1 4 7 10 13 14 15, Q5_K 2 3 5 6 8 9 11 12",
         "Q6_K 0 4 7 10 13 14 15, Q8_0 1, Q5_1 2, Q5_K 3 5 6 8 9 11 12", "Q5_K", "Q5_K"},
        {"Q4_K_S", 0, 14, "Q5_K 0 1 2 3, Q4_K 4 5 6 7 8 9 10 11 12 13 14 15",
         "Q5_K 0, Q5_1 1, Q5_0 2, Q4_K 3 4 5 6 7 8 9 10 11 12 13 14 15", "Q4_K", "Q4_K"},
        {"Q5_K_S", 0, 16, "Q5_K", "Q5_K 0 3 4 5 6 7 8 9 10 11 12 13 14 15, Q5_1 1 2", "Q5_K", "Q5_K"},
        {"Q3_K_M", 0, 12, "Q5_K 0 1, Q4_K 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
         "Q5_K 0, Q5_0 1 2, Q4_K 3 4 5 6 7 8 9 10 11 12 13 14 15", "Q4_K", "Q3_K"},
        {"Q4_K_M", 8, 15, "Q8_0", "Q6_K 0 4 7 10 13 14 15, Q8_0 1, Q5_0 2, Q4_K 3 5 6 8 9 11 12", "Q5_K", "Q8_0"}}) {
    SCOPED_TRACE(std::string(m.type) + ", experts " + std::to_string(m.n_expert));
    write_layers(in, m.n_expert, m.n_expert == 4 ? Type::BF16 : m.n_expert == 8 ? Type::Q8_0 : Type::F16);
    const Said said = sluice({"quantize", in, out, m.type});
    ASSERT_EQ(said.code, 0) << said.err;
    const auto file = gguf::File::open(out);
    ASSERT_TRUE(file) << file.error().message;
    const std::string base = std::string(m.type).substr(0, 4);
    EXPECT_EQ(*file->get_uint("general.file_type"), m.file_type);
    EXPECT_EQ(file->find_tensor("output.weight")->type->name, "Q6_K");
    EXPECT_EQ(file->find_tensor("token_embd.weight")->type->name, base);
    EXPECT_EQ(types_of(*file, "attn_q"), base);
    EXPECT_EQ(types_of(*file, "ffn_up_exps"), base);
    EXPECT_EQ(types_of(*file, "attn_v"), m.values);
    EXPECT_EQ(types_of(*file, "ffn_down_exps"), m.down);
    EXPECT_EQ(types_of(*file, "attn_output"), m.output);
    EXPECT_EQ(types_of(*file, "attn_k"), m.k);
  }
}

TEST(Quantize, refuses_weights_that_the_type_cannot_hold) {
  const TempDir folder;
  const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
  for (const float bad : {NAN, INFINITY, 1e6f}) {
    std::vector<float> values(512, 1.0f);
    values[300] = bad;
    GgufBuilder().add("blk.0.ffn_up.weight", {256, 2}, Type::F32, values).write(in);
    expect_error(sluice({"quantize", in, out, "F16"}), 1, "blk.0.ffn_up.weight");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "something is left";
  }
  EXPECT_EQ(sluice({"quantize", in, out, "BF16"}).code, 0);
}

TEST(Quantize, the_same_type_copies_the_bytes_and_odd_rows_fall_back) {
  const TempDir folder;
  const std::string out = folder.file("out.gguf");
  ASSERT_EQ(sluice({"quantize", tiny_model("lfm2moe"), out, "f32"}).code, 0);
  const auto before = gguf::File::open(tiny_model("lfm2moe")), after = gguf::File::open(out);
  for (const gguf::TensorInfo& t : before->tensors()) {
    const auto a = before->data(t), b = after->data(*after->find_tensor(t.name));
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << t.name;
  }
  // Rows of 96 and the like hold no block of 256.
  const json report = json_of(sluice({"quantize", tiny_model("lfm2moe-q4_0"), out, "Q6_K", "--json"}));
  EXPECT_FALSE(report["fallbacks"].empty());
  EXPECT_GT(report["n_requantized"], 0);
  EXPECT_TRUE(std::filesystem::exists(out));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a temporary file is left";
}

TEST(Npy, survives_any_cut_and_wrong_headers) {
  const TempDir folder;
  NpzWriter npz;
  const uint64_t shape[] = {2, 3};
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  npz.add("a", shape, std::span<const float>(values));
  ASSERT_TRUE(npz.write(folder.file("a.npz")));
  const std::string whole = file_text(folder.file("a.npz"));
  const auto arrays = parse_npz(bytes_of(whole));
  ASSERT_TRUE(arrays);
  EXPECT_EQ(arrays->at("a").f32, values);
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string cut = whole.substr(0, n);
    EXPECT_FALSE(parse_npz(bytes_of(cut))) << n;
  }
  const size_t begin = whole.find("\x93NUMPY");
  const std::string array = whole.substr(begin, whole.find("PK\x01\x02") - begin);
  ASSERT_TRUE(parse_npy(bytes_of(array)));
  for (size_t n = 0; n < array.size(); ++n) {
    const std::string cut = array.substr(0, n);
    EXPECT_FALSE(parse_npy(bytes_of(cut))) << n;
  }
}

TEST(Npy, takes_exactly_its_shape) {
  const TempDir folder;
  const uint64_t shape[] = {3};
  auto writer = NpyWriter::create(folder.file("a.npy"), NpyType::i64, shape);
  ASSERT_TRUE(writer);
  const std::vector<int64_t> two{1, 2};
  EXPECT_TRUE(writer->write(std::span<const int64_t>(two)));
  EXPECT_FALSE(writer->finish());
  EXPECT_FALSE(writer->write(std::span<const int64_t>(two)));
  EXPECT_TRUE(writer->write(std::span<const int64_t>(two).first(1)));
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(npy(folder.file("a.npy")).i64, (std::vector<int64_t>{1, 2, 1}));
}

// The measured text of the story model: the method of its reference, over the first tokens of it.
TEST(Perplexity, joins_documents_as_the_reference_does) {
  const auto file = gguf::File::open(story_model(), {.metadata_only = true});
  const auto tokenizer = Tokenizer::create(*file);
  ASSERT_TRUE(tokenizer);
  const json reference = json_file(source_file("tests/fixtures/story/reference.json"))["heldout"];
  const auto tokens = perplexity_tokens(**tokenizer, file_text(source_file("tests/fixtures/story/heldout.txt")),
                                        {.separator = "<|endoftext|>"});
  EXPECT_EQ(tokens.size(), reference["tokens"].get<size_t>());
  EXPECT_EQ(tokens[0], 0);
}

}  // namespace
}  // namespace sluice::test
