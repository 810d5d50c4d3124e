// --json gives one object for every command.
#include "cli/program.h"
#include "support/gpu.h"

namespace sluice::test {
namespace {

using nlohmann::json;

TEST(Json, of_run) {
  const json out =
      json_of(sluice({"run", "Once upon a time", "--temp", "0", "--repeat-penalty", "1", "-n", "4", "--json"}));
  EXPECT_EQ(out["text"], Story().tale(0, 4));
  EXPECT_EQ(out["tokens"], json(Story().greedy(4)));
  EXPECT_EQ(out["n_prompt"], 5);
  EXPECT_EQ(out["n_generated"], 4);
  EXPECT_EQ(out["stop"], "length");
  EXPECT_TRUE(out["seed"].is_number());
  EXPECT_GT(out["seconds"]["decode"], 0);
}

TEST(Json, of_chat) {
  const json out = json_of(
      sluice({"chat", "--temp", "0", "--repeat-penalty", "1", "-n", "4", "--json"}, {.in = "Once upon a time\n"}));
  ASSERT_EQ(out["turns"].size(), 1u);
  EXPECT_EQ(out["turns"][0]["user"], "Once upon a time");
  EXPECT_EQ(out["turns"][0]["answer"], Story().tale(0, 4));
}

TEST(Json, of_bench) {
  const json out = json_of(sluice({"bench", "-m", tiny_model("lfm2moe-q4_0"), "-p", "8", "-n", "4", "-d", "0,16",
                                   "-npl", "1,3", "-r", "2", "--json"}));
  std::vector<std::string> names;
  for (const json& test : out["tests"]) {
    names.push_back(test["test"]);
    EXPECT_EQ(test["samples_ts"].size(), 2u);
    EXPECT_GT(test["avg_ts"], 0);
    EXPECT_GT(test["submits_per_token"], 0);
  }
  const std::vector<std::string> expected{"pp8",       "tg4",       "tg4 x 1",       "tg4 x 3",
                                          "pp8 @ d16", "tg4 @ d16", "tg4 x 1 @ d16", "tg4 x 3 @ d16"};
  EXPECT_EQ(names, expected);
  EXPECT_GT(out["tests"][1]["bytes_per_token"], 0);
}

// Times are whatever they are; what holds between the figures is not a matter of speed.
TEST(Json, of_bench_tells_each_stage_against_the_limits) {
  const json out = json_of(sluice({"bench", "-m", tiny_model("lfm2moe-q4_0"), "-p", "96", "-n", "4", "-ub", "64",
                                   "-npl", "3", "-r", "2", "--json"}));
  EXPECT_GT(out["limits"]["read_bytes_per_second"], 0);
  if (out["isa"] != "scalar") {
    EXPECT_GT(out["limits"]["int8_operations_per_second"], 0);
  }
  EXPECT_GT(out["limits"]["f32_operations_per_second"], 0);
  ASSERT_EQ(out["tests"].size(), 3u);
  for (const json& test : out["tests"]) {
    SCOPED_TRACE(test["test"].get<std::string>());
    const json& stages = test["stages"];
    double total = 0, seconds = 0, bytes = 0;
    for (const json& s : test["samples_seconds"]) total += s.get<double>();
    for (const char* name : {"gate", "experts", "attention", "convolution", "head", "rest"}) {
      SCOPED_TRACE(name);
      const json& stage = stages[name];
      seconds += stage["seconds"].get<double>();
      bytes += stage["bytes"].get<double>();
      EXPECT_GT(stage["seconds"], 0);
      EXPECT_GT(stage["bytes"], 0);
      EXPECT_GT(stage["int8_operations"].get<double>() + stage["f32_operations"].get<double>(), 0);
      EXPECT_GT(stage["limit_share"], 0);
    }
    EXPECT_NEAR(seconds + stages["host"]["seconds"].get<double>(), total, 1e-6 * total);
    EXPECT_NEAR(stages["total"]["seconds"], total, 1e-6 * total);
    EXPECT_NEAR(stages["total"]["bytes"], bytes, 1e-6 * bytes);
    EXPECT_EQ(stages["host"]["bytes"], 0);
    EXPECT_GT(stages["gate"]["f32_operations"], 0);
  }
  // Tokens that are decoded together share weights.
  EXPECT_LT(out["tests"][2]["bytes_per_token"], out["tests"][1]["bytes_per_token"]);
  EXPECT_GT(out["tests"][2]["memory_share"], 0);
}

TEST(Json, of_bench_has_no_int8_limit_without_such_instructions) {
  const json out = json_of(sluice(
      {"bench", "-m", tiny_model("lfm2moe-q4_0"), "-p", "0", "-n", "2", "-r", "1", "--cpu-isa", "scalar", "--json"}));
  EXPECT_TRUE(out["limits"]["int8_operations_per_second"].is_null());
  EXPECT_EQ(out["tests"][0]["stages"]["experts"]["int8_operations"], 0);
  EXPECT_GT(out["tests"][0]["stages"]["experts"]["limit_share"], 0);
}

TEST(Json, bench_table_has_the_usual_rows) {
  const Said said = sluice({"bench", "-m", tiny_model("lfm2moe-q4_0"), "-p", "8", "-n", "4", "-r", "1", "-v"});
  EXPECT_EQ(said.code, 0) << said.err;
  const auto lines = lines_of(said.out);
  ASSERT_EQ(lines.size(), 4u + 3 + 2 + 2 * 8) << said.out;
  EXPECT_TRUE(lines[0].starts_with("| model ")) << lines[0];
  EXPECT_NE(lines[2].find("| lfm2moe"), std::string::npos);
  EXPECT_NE(lines[2].find(" pp8 |"), std::string::npos);
  EXPECT_NE(lines[3].find(" tg4 |"), std::string::npos);
  EXPECT_TRUE(lines[5].starts_with("limits, measured: ")) << lines[5];
  EXPECT_NE(lines[7].find("test | stage "), std::string::npos) << lines[7];
  EXPECT_NE(lines[10].find("| experts "), std::string::npos) << lines[10];
  EXPECT_NE(lines[24].find("tg4 | total "), std::string::npos) << lines[24];
}

TEST(Json, of_inspect) {
  const json model = json_of(sluice({"inspect", tiny_model("lfm2moe-q4_0"), "--json"}));
  EXPECT_EQ(model["architecture"], "lfm2moe");
  EXPECT_EQ(model["supported"], true);
  EXPECT_EQ(model["metadata"]["lfm2moe.expert_count"], 8);
  EXPECT_GT(model["metadata"]["tokenizer.ggml.tokens"]["length"], 300);
  size_t n_tensors = 0;
  for (const json& type : model["types"]) n_tensors += type["n_tensors"].get<size_t>();
  EXPECT_EQ(model["tensors"].size(), n_tensors);
  EXPECT_EQ(model["types"]["Q4_0"]["n_tensors"], 6);  // three stacks in each of two layers
  EXPECT_GT(model["memory"]["total_bytes"], model["memory"]["weight_bytes"]);
  const json vocabulary =
      json_of(sluice({"inspect", source_file("tests/fixtures/vocab/ggml-vocab-gpt-2.gguf"), "--json"}));
  EXPECT_EQ(vocabulary["supported"], false);
  EXPECT_TRUE(vocabulary["tensors"].empty());
}

TEST(Json, of_tokenize) {
  const json out = json_of(sluice({"tokenize", "Once upon", "--json"}));
  std::vector<int> ids = Story().ids;
  ids.resize(3);
  EXPECT_EQ(out["ids"], json(ids));
  const std::vector<int> bare(ids.begin() + 1, ids.end());
  EXPECT_EQ(out["pieces"], json({"<|endoftext|>", "Once", " upon"}));
  EXPECT_EQ(json_of(sluice({"tokenize", "Once upon", "--json", "--no-bos"}))["ids"], json(bare));
  EXPECT_EQ(json_of(sluice({"tokenize", "<|im_end|>", "--json", "--no-bos", "--special"}))["ids"].size(), 1u);
  EXPECT_GT(json_of(sluice({"tokenize", "<|im_end|>", "--json", "--no-bos"}))["ids"].size(), 1u);
  EXPECT_EQ(json_of(sluice({"tokenize", "--decode", std::to_string(ids[1]), "--json"}))["text"], "Once");
  EXPECT_FALSE(json_of(sluice({"tokenize", "\xff\xfe", "--json"}))["ids"].empty());
}

TEST(Json, tokenize_takes_arrays_of_texts) {
  const TempDir folder;
  const std::vector<int> ids = Story().ids;
  write_file(folder.file("t.json"), R"(["Once upon", "", "Once"])");
  EXPECT_EQ(json_of(sluice({"tokenize", "--texts", folder.file("t.json"), "--no-bos"})),
            json({{ids[1], ids[2]}, json::array(), {ids[1]}}));
}

TEST(Json, of_routes) {
  const json out = json_of(sluice({"routes", "Once upon a time", "-n", "3", "--temp", "0", "--json"}));
  EXPECT_EQ(out["n_tokens"], 7);  // 5 of the prompt and 2 fed back
  EXPECT_GT(out["layers"].size(), 1u);
  for (const json& layer : out["layers"]) {
    int sum = 0;
    for (const json& n : layer["counts"]) sum += n.get<int>();
    EXPECT_EQ(sum, 7 * out["n_used"].get<int>());
    EXPECT_LE(layer["entropy_bits"], 4.0);
    EXPECT_GE(layer["imbalance"], 1.0);
  }
}

TEST(Json, of_devices) {
  const json out = json_of(sluice({"devices", "--json"}));
  ASSERT_GE(out["devices"].size(), 1u);
  EXPECT_EQ(out["devices"][0]["backend"], "cpu");
  EXPECT_GE(out["devices"][0]["default_threads"], 1);
  EXPECT_GT(out["devices"][0]["memory_bytes"], 0);
}

#ifdef SLUICE_HAVE_VULKAN
TEST(JsonGpu, of_devices_and_a_run) {
  SLUICE_NEED_VULKAN();
  const json out = json_of(sluice({"devices", "--json"}));
  ASSERT_GE(out["devices"].size(), 2u);
  EXPECT_EQ(out["devices"][1]["backend"], "vulkan");
  EXPECT_GT(out["devices"][1]["memory_bytes"], 0);
  EXPECT_TRUE(out["devices"][1]["limits"].contains("features"));
  const Arguments run = {"run",  "--temp", "0",    "-n",  "8",      "-c",    "256",
                         "-ctk", "f32",    "-ctv", "f32", "--json", "A king"};
  Arguments on_gpu = run, on_cpu = run;
  on_gpu.insert(on_gpu.end(), {"--backend", "vulkan", "--device", "0"});
  on_cpu.insert(on_cpu.end(), {"--backend", "cpu", "--reference"});
  EXPECT_EQ(json_of(sluice(on_gpu))["tokens"], json_of(sluice(on_cpu))["tokens"]);
}
#endif

TEST(Json, of_perplexity) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 12; ++i) text += "Once upon a time there was a king who had three sons. ";
  write_file(folder.file("t.txt"), text);
  const json all = json_of(sluice({"perplexity", "-f", folder.file("t.txt"), "-c", "64", "--score", "all", "--json"}));
  EXPECT_GT(all["perplexity"], 1.0);
  EXPECT_NEAR(std::exp(all["nll"].get<double>()), all["perplexity"].get<double>(), 1e-6);
  EXPECT_GT(all["stderr"], 0.0);
  const json half = json_of(sluice({"perplexity", "-f", folder.file("t.txt"), "-c", "64", "--json"}));
  EXPECT_EQ(half["tokens"].get<int>(), half["windows"].get<int>() * 31);
  // Repetition is easy to foretell.
  EXPECT_LT(half["perplexity"], all["perplexity"]);
}

}  // namespace
}  // namespace sluice::test
