// sluice kernels: the list, and code that goes to other programs byte for byte.
#include <algorithm>
#include <map>

#include "cli/program.h"

namespace sluice::test {
namespace {

// A kernel's entry in the list.
nlohmann::json kernel(const std::string& name) {
  const nlohmann::json all = json_of(sluice({"kernels", "--json", "--quiet"}));
  for (const auto& entry : all["kernels"])
    if (entry["name"] == name) return entry;
  return {};
}

TEST(Kernels, ListsThoseOfTheBuild) {
  const Said said = sluice({"kernels"});
  EXPECT_EQ(said.code, 0);
  for (const char* name : {"moe_route", "moe_gemv", "moe_gemv_q4_0", "argmax"})
    EXPECT_NE(said.out.find(std::string("\n") + name + " "), std::string::npos) << name;
  const std::vector<std::string> types = kernel("gemv")["types"];
  for (const char* type : {"F32", "Q4_0", "Q6_K", "MXFP4"})
    EXPECT_NE(std::find(types.begin(), types.end(), type), types.end()) << type;
  EXPECT_TRUE(kernel("moe_gemv_q4_0")["published"].get<bool>());
}

TEST(GpuKernels, WritesThePublishedEntryForEveryTarget) {
  const auto entry = kernel("moe_gemv_q4_0");
  if (entry["codes"].empty()) {
    expect_error(sluice({"kernels", "moe_gemv_q4_0", "--target", "wgsl"}), 1, "no GPU kernels");
    GTEST_SKIP() << "this build has no GPU kernels";
  }
  const std::pair<const char*, const char*> marks[] = {{"spirv", "\x03\x02\x23\x07"},
                                                       {"cuda", "__global__ void"},
                                                       {"metal", "[[kernel]] void moe_gemv_q4_0("},
                                                       {"wgsl", "@compute"}};
  ASSERT_EQ(entry["codes"].size(), std::size(marks));
  std::map<std::string, size_t> bytes;
  for (const auto& code : entry["codes"]) bytes[code["target"]] = code["bytes"];
  for (const auto& [target, mark] : marks) {
    const Said said = sluice({"kernels", "moe_gemv_q4_0", "--target", target});
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    EXPECT_NE(said.out.find(mark), std::string::npos) << target;
    EXPECT_EQ(bytes[target], said.out.size());
  }
}

TEST(GpuKernels, OneOfSeveralCodesIsNamed) {
  if (kernel("gemv")["codes"].empty()) GTEST_SKIP() << "this build has no GPU kernels";
  expect_error(sluice({"kernels", "gemv", "--target", "spirv"}), 2, "gemv-Q4_0-subgroup32");
  EXPECT_EQ(sluice({"kernels", "gemv-Q4_0", "--target", "spirv"}).code, 0);
  EXPECT_EQ(sluice({"kernels", "gemv", "--target", "metal"}).code, 0);  // only one is shown
  expect_error(sluice({"kernels", "gemv", "--target", "wgsl"}), 1, "it has: spirv, metal");
}

}  // namespace
}  // namespace sluice::test
