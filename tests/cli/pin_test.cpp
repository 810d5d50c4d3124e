// sluice pin: what it compares, and that it tells a backend that computes something else.
#include "cli/program.h"
#include "support/gpu.h"

namespace sluice::test {
namespace {

nlohmann::json pin(const std::string& model, Arguments more) {
  more.insert(more.begin(), {"pin", model, "--json", "--quiet"});
  auto json = json_of(sluice(more));
  EXPECT_EQ(json["backends"].size(), 1u);
  return json["backends"][0];
}

TEST(Pin, TheCpuAgreesWithTheReference) {
  for (const char* name : {"lfm2moe-q4_0", "qwen3moe-all-q8_0", "lfm2"}) {
    const auto cpu = pin(tiny_model(name), {"--backend", "cpu", "--tokens", tiny_tokens(name)});
    EXPECT_EQ(cpu["faults"].size(), 0u) << cpu;
    EXPECT_LE(cpu["nmse_replayed"].get<double>(), 1e-2);
    EXPECT_EQ(cpu["unexplained"], 0);
    EXPECT_EQ(cpu["host_reads_per_token"], 1);
    EXPECT_EQ(cpu["layers"].empty(), std::string(name) == "lfm2");
  }
}

TEST(Pin, PlainKernelsGiveTheReferenceItself) {
  const auto cpu = pin(tiny_model("lfm2moe"), {"--backend", "cpu", "--cpu-isa", "scalar", "--no-repack"});
  EXPECT_LE(cpu["nmse_replayed"].get<double>(), 1e-12);
  EXPECT_EQ(cpu["nmse"], cpu["nmse_replayed"]);
  EXPECT_EQ(cpu["flips"], 0);
  EXPECT_EQ(cpu["greedy_equal"], cpu["greedy_tokens"]);
}

TEST(Pin, TheStoryModelIsTheDefault) {
  const Said said = sluice({"pin", "--backend", "cpu"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("logits   NMSE "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("0 of them unexplained"), std::string::npos) << said.out;
}

TEST(Pin, ADifferenceAboveTheBoundIsAFault) {
  const Said said = sluice({"pin", tiny_model("lfm2moe-q4_0"), "--backend", "cpu", "--max-nmse", "1e-9"});
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.out.find("FAULT    logits differ"), std::string::npos) << said.out;
}

#ifdef SLUICE_HAVE_VULKAN
// A GPU computes in F32, so hardly a choice hangs on the difference.
TEST(Pin, VulkanAgreesWithTheReference) {
  SLUICE_NEED_VULKAN();
  const TempDir folder;
  write_file(folder.file("ids.json"), "[1, 17, 99, 5, 250, 31, 8]");  // a CPU that plays a GPU is slow
  for (const std::string& model : {tiny_model("lfm2moe-q4_0"), tiny_model("qwen3moe-all-q8_0"), story_model()}) {
    const auto gpu = pin(model, {"--backend", "vulkan", "--tokens", folder.file("ids.json")});
    EXPECT_LE(gpu["nmse_replayed"].get<double>(), 1e-8) << model;
    EXPECT_EQ(gpu["unexplained"], 0);
    EXPECT_LE(gpu["flips"].get<int>(), gpu["near_ties"].get<int>() * 4);
    EXPECT_EQ(gpu["host_reads_per_token"], 1);
    EXPECT_EQ(gpu["submits_per_token"], 1);
  }
}
#endif

}  // namespace
}  // namespace sluice::test
