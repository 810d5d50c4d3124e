// What --fit, --no-fit and -ncmoe say.
#include "cli/program.h"
#include "support/gpu.h"

namespace sluice::test {
namespace {

TEST(Fit, TheCpuHoldsEverythingInHostMemory) {
  const Arguments prompt = {"run", "--backend", "cpu", "-n", "1", "--temp", "0", "-p", "Once"};
  for (const Arguments& more : {Arguments{"--fit", "off"}, Arguments{"--fit", "on"}, Arguments{"--no-fit"}}) {
    Arguments arguments = prompt;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Said said = sluice(arguments);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err.find("memory:"), std::string::npos) << said.err;
  }
  Arguments arguments = prompt;
  arguments.insert(arguments.end(), {"--n-cpu-moe", "3"});
  const Said said = sluice(arguments);
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.err.find("note: -ncmoe has no effect"), std::string::npos) << said.err;
  expect_error(sluice({"run", "--fit", "maybe", "x"}), 2, "--fit is on or off");
  expect_error(sluice({"run", "-ncmoe", "-1", "x"}), 2, "--n-cpu-moe");
}

#ifdef SLUICE_HAVE_VULKAN
class GpuFitProgram : public testing::Test {
 protected:
  void SetUp() override { SLUICE_NEED_VULKAN(); }

  static Said run(const Arguments& more) {
    Arguments arguments = {"run", "--backend", "vulkan",          "-c", "256", "-ub", "32", "-n", "1", "--temp",
                           "0",   "-p",        "Once upon a time"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sluice(arguments);
  }
  static std::vector<std::string> memory_lines(const Said& said) {
    std::vector<std::string> lines = lines_of(said.err);
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("memory: "); });
    return lines;
  }
  static void expect_parts(const std::vector<std::string>& lines, const std::vector<std::string>& parts) {
    ASSERT_EQ(lines.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) EXPECT_NE(lines[i].find(parts[i]), std::string::npos) << lines[i];
  }
};

TEST_F(GpuFitProgram, FiveLinesSayWhatWentWhereAndWhy) {
  const Said resident = run({});
  EXPECT_EQ(resident.code, 0) << resident.err;
  EXPECT_TRUE(memory_lines(resident).empty()) << resident.err;  // nothing to tell

  const Said told = run({"-v"});
  expect_parts(memory_lines(told), {"of weights on the device", "no experts in host memory: the device holds all",
                                    "of KV cache, 256 positions", "of scratch", "of the device free before"});

  const Said forced = run({"-ncmoe", "2"});
  EXPECT_EQ(forced.out, resident.out);
  expect_parts(memory_lines(forced), {"of weights on the device", "of layers 1-2: -ncmoe 2",
                                      "of KV cache, 256 positions", "of scratch", "of the device free before"});

  const Said fitted = run({"--device-limits", "memory=20000000"});
  EXPECT_EQ(fitted.out, resident.out);
  expect_parts(memory_lines(fitted), {"of weights on the device", ": with all of them the device would need",
                                      "of KV cache, 256 positions", "of scratch", "20.0 MB of the device free before"});
  EXPECT_TRUE(memory_lines(run({"-ncmoe", "2", "--quiet"})).empty());
}

TEST_F(GpuFitProgram, TooLittleMemoryIsOneLine) {
  for (const Arguments& off : {Arguments{"--no-fit"}, Arguments{"--fit", "off"}}) {
    Arguments arguments = {"--device-limits", "memory=20000000"};
    arguments.insert(arguments.end(), off.begin(), off.end());
    expect_error(run(arguments), 1, "are free; leave out --fit off");
  }
  expect_error(run({"--device-limits", "memory=20000000", "-ncmoe", "0"}), 1, "give a larger -ncmoe");
  expect_error(run({"--device-limits", "memory=1000000"}), 1, "give a smaller --ctx-size");
}
#endif

}  // namespace
}  // namespace sluice::test
