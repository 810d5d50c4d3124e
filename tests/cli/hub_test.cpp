// pull, list, rm and models of the hub in other commands, against a hub on this machine.
#include "sluice/hub.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/program.h"
#include "support/hub_server.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

class HubCli : public testing::Test {
 protected:
  void SetUp() override {
    if (!hub::can_download()) GTEST_SKIP() << "this build cannot download";
    for (const char* name : {"HF_TOKEN", "HF_HOME", "HF_HUB_OFFLINE", "SSL_CERT_FILE"}) unsetenv(name);
    setenv("HF_HUB_CACHE", dir_.file("cache").c_str(), 1);
  }
  void use(const HubServer& server) { setenv("HF_ENDPOINT", server.url().c_str(), 1); }
  std::string snapshot(const std::string& file) const {
    return dir_.file("cache/models--own--repo/snapshots/" + kRevision + "/" + file);
  }
  // The sizes of the files that are not complete.
  uint64_t partial_bytes() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir_.file("cache/models--own--repo/blobs"), error))
      if (entry.path().extension() == ".incomplete") return fs::file_size(entry.path(), error);
    return 0;
  }
  TempDir dir_;
};

TEST_F(HubCli, PullListAndRemove) {
  const HubServer server(hub_with({{"m-Q4_K_M.gguf", some_text(2000)}, {"m-Q8_0.gguf", "eight"}}));
  use(server);
  const Said pulled = sluice({"pull", "own/repo"});
  EXPECT_EQ(pulled.code, 0) << pulled.err;
  EXPECT_EQ(pulled.out, snapshot("m-Q4_K_M.gguf") + "\n");
  EXPECT_EQ(pulled.err, "own/repo:Q4_K_M: 2.0 kB\n");
  EXPECT_EQ(json_of(sluice({"pull", "hf:own/repo:q8_0", "--json"}))["name"], "own/repo:Q8_0");

  const Said listed = sluice({"list"});
  const auto lines = lines_of(listed.out);
  ASSERT_EQ(lines.size(), 2u) << listed.out;
  EXPECT_TRUE(lines[0].starts_with("own/repo:Q4_K_M ") && lines[0].ends_with(snapshot("m-Q4_K_M.gguf"))) << lines[0];
  const auto models = json_of(sluice({"list", "--json"}))["models"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1]["bytes"], 5);

  expect_error(sluice({"rm", "own/repo"}), 1, "Q4_K_M, Q8_0");
  EXPECT_EQ(json_of(sluice({"rm", "own/repo:Q4_K_M", "--json"}))["bytes"], 2000);
  EXPECT_EQ(sluice({"rm", "hf:own/repo", "--quiet"}).code, 0);
  EXPECT_EQ(sluice({"list"}).out, "");
  expect_error(sluice({"rm", "own/repo"}), 1, "sluice list");
}

TEST_F(HubCli, EveryCommandTakesAModelOfTheHub) {
  // Any bytes do: what is read of them is the model's own affair.
  HubServer server(hub_with({{"m-Q4_K_M.gguf", "no model"}}));
  use(server);
  expect_error(sluice({"run", "-hf", "own/repo", "x"}), 1, "no GGUF file");
  EXPECT_EQ(file_text(snapshot("m-Q4_K_M.gguf")), "no model");
  expect_error(sluice({"run", "hf:own/absent", "x"}), 1, "check the name");

  // From here on the cache answers. Its blob becomes a model that runs.
  server.stop();
  const std::string blob = fs::canonical(snapshot("m-Q4_K_M.gguf")).string();
  fs::copy_file(story_model(), blob, fs::copy_options::overwrite_existing);
  const Arguments run{"run", "Once upon a time", "-n", "4", "--temp", "0", "-t", "2"};
  const Said plain = sluice(run);
  for (const Arguments& model :
       {Arguments{"-hf", "own/repo"}, Arguments{"-m", "hf:own/repo:Q4_K_M"}, Arguments{"--hf-repo=own/repo"}}) {
    Arguments with = run;
    with.insert(with.end(), model.begin(), model.end());
    const Said said = sluice(with);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out, plain.out);
  }
  EXPECT_EQ(sluice({"tokenize", "hf.co/own/repo", "a"}).code, 0);
  EXPECT_EQ(json_of(sluice({"inspect", "hf:own/repo", "--json"}))["file"], snapshot("m-Q4_K_M.gguf"));
  EXPECT_EQ(sluice({"inspect", "-hf", "own/repo"}).code, 0);
  expect_error(sluice({"run", "-hf", "own/other", "x"}), 1, "cannot reach");
}

TEST_F(HubCli, CtrlCKeepsWhatCame) {
  auto scenario = hub_with({{"m-Q4_K_M.gguf", some_text(5000)}});
  scenario["script"] = nlohmann::json::parse(R"([{"hang": 1000}])");
  const HubServer server(scenario);
  use(server);
  const pid_t pid = fork();
  if (pid == 0) become_program({"pull", "own/repo", "--quiet"});
  pid_t ended = 0;
  while (partial_bytes() < 1000 && (ended = waitpid(pid, nullptr, WNOHANG)) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(ended, 0);
  kill(pid, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
  EXPECT_EQ(partial_bytes(), 1000u);
  EXPECT_EQ(sluice({"pull", "own/repo"}).code, 0);
  EXPECT_EQ(server.ranges().back(), "bytes=1000-");
}

}  // namespace
}  // namespace sluice::test
