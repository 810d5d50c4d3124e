// Output files: never an input, each another one, and nothing left behind.
#include <sys/resource.h>

#include "cli/program.h"
#include "sluice/quantize.h"
#include "support/gguf_builder.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

size_t n_files(const TempDir& folder) { return size_t(std::distance(fs::directory_iterator(folder.path()), {})); }

// A split set of two files; gives their paths.
std::vector<std::string> write_split(const TempDir& folder) {
  std::vector<std::string> paths;
  for (uint32_t no = 0; no < 2; ++no) {
    paths.push_back(folder.file("m-0000" + std::to_string(no + 1) + "-of-00002.gguf"));
    GgufBuilder b;
    b.set("general.architecture", gguf::Value::of("any")).set("split.no", gguf::Value::of(no));
    b.set("split.count", gguf::Value::of(uint32_t{2})).set("split.tensors.count", gguf::Value::of(uint32_t{2}));
    b.add_random("blk." + std::to_string(no) + ".ffn_up.weight", {256, 2}, Type::F16).write(paths.back());
  }
  return paths;
}

TEST(Outputs, never_overwrite_an_input) {
  const TempDir folder;
  const std::string model = folder.file("a.gguf"), ids = folder.file("ids.json"), choices = folder.file("r.json"),
                    text = folder.file("t.txt"), link = folder.file("link");
  fs::copy_file(tiny_model("lfm2moe"), model);
  write_file(ids, "[1, 2, 3]");
  write_file(choices, R"({"layers": {}})");
  write_file(text, "Once upon a time\n");
  fs::create_symlink(model, link);
  const std::vector<std::string> files{model, ids, choices, text};
  std::vector<std::string> before;
  for (const std::string& file : files) before.push_back(file_text(file));
  const Arguments rows[] = {
      {"logits", "-m", model, "--tokens", ids, "--out", model},
      {"logits", "-m", model, "--tokens", ids, "--routing", link},
      {"logits", "-m", model, "--tokens", ids, "--gate", ids},
      {"logits", "-m", model, "--tokens", ids, "--routing-in", choices, "--out", choices},
      {"routes", "-m", model, "hi", "--svg", model},
      {"routes", model, "-f", text, "--npz", text},
      {"routes", model, "-f", text, "--svg", folder.file("./a.gguf")},
      {"quantize", model, link, "Q8_0"},
  };
  for (const Arguments& row : rows) {
    SCOPED_TRACE(row[0] + " " + row.back());
    expect_error(sluice(row), 2, "input");
    for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(file_text(files[i]), before[i]) << files[i];
    EXPECT_EQ(n_files(folder), 5u);
  }
}

TEST(Outputs, never_overwrite_a_part_of_a_split_input) {
  const TempDir folder;
  const auto parts = write_split(folder);
  for (const std::string& part : parts) {
    expect_error(sluice({"quantize", parts[0], part, "Q8_0"}), 2, "input");
    expect_error(sluice({"routes", parts[0], "x", "--svg", part}), 2, "input");
    const auto report = quantize_file(parts[0], part, {.type = Type::Q8_0});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::invalid_argument);
  }
  EXPECT_EQ(n_files(folder), 2u);
  EXPECT_EQ(sluice({"quantize", parts[0], folder.file("out.gguf"), "Q8_0"}).code, 0);
}

TEST(Outputs, have_names_of_their_own) {
  const TempDir folder;
  const std::string m = tiny_model("lfm2moe"), ids = tiny_tokens("lfm2moe"), x = folder.file("x"),
                    same = folder.file("./x");
  expect_error(sluice({"routes", m, "hi", "--svg", x, "--npz", same}), 2, "same file");
  expect_error(sluice({"logits", "-m", m, "--tokens", ids, "--out", x, "--gate", x}), 2, "same file");
  expect_error(sluice({"logits", "-m", m, "--tokens", ids, "--gate", x, "--routing", same}), 2, "same file");
  EXPECT_EQ(n_files(folder), 0u);
}

TEST(Outputs, of_a_stopped_command_are_gone) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const TempDir folder;
    const std::string in = folder.file("in.gguf");
    GgufBuilder b;
    b.set("general.architecture", gguf::Value::of("any"));
    b.add_raw("blk.0.ffn_up.weight", {1024, 32768}, 0, std::vector<std::byte>(size_t{1024} * 32768 * 4));
    b.write(in);
    const pid_t pid = fork();
    if (pid == 0) {
      close(2);
      become_program({"quantize", in, folder.file("out.gguf"), "Q6_K", "-t", "1"});
    }
    while (n_files(folder) < 2 && waitpid(pid, nullptr, WNOHANG) == 0) usleep(1000);
    kill(pid, number);
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 128 + number);
    EXPECT_EQ(n_files(folder), 1u) << "something is left after signal " << number;
  }
}

TEST(Outputs, over_the_size_limit_are_an_error_and_gone) {
  const TempDir folder;
  const std::string out = folder.file("out.gguf"), err = folder.file("err");
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{4096, 4096};
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0666), 2);
    setrlimit(RLIMIT_FSIZE, &limit);
    become_program({"quantize", tiny_model("lfm2moe"), out, "Q8_0"});
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(file_text(err).starts_with("error: cannot write ")) << file_text(err);
  EXPECT_EQ(n_files(folder), 1u);
}

TEST(Quantize, says_why_embeddings_have_another_type) {
  const TempDir folder;
  const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
  GgufBuilder b;
  b.set("general.architecture", gguf::Value::of("any")).add_random("token_embd.weight", {96, 8}, Type::F16);
  b.add_random("blk.0.ffn_up.weight", {96, 4}, Type::F16).add_random("blk.0.ffn_down.weight", {40, 4}, Type::F16);
  b.write(in);
  const Said said = sluice({"quantize", in, out, "Q4_0"});
  EXPECT_NE(said.err.find("some matrices keep a better type than Q4_0: token_embd.weight: Q8_0"), std::string::npos)
      << said.err;
  EXPECT_NE(said.err.find("1 tensors have rows that Q4_0 cannot hold, another type was taken: blk.0.ffn_down.weight"),
            std::string::npos)
      << said.err;
}

TEST(Split, a_wrong_part_is_a_bad_file_in_every_command) {
  const TempDir folder;
  const auto parts = write_split(folder);
  const std::string ids = folder.file("ids.json"), text = folder.file("t.txt");
  write_file(ids, "[1, 2, 3]");
  write_file(text, "words");
  const auto all = [&](const std::string& model) {
    const Arguments rows[] = {{"run", model, "x"},
                              {"chat", model},
                              {"bench", model},
                              {"inspect", model},
                              {"logits", "-m", model, "--tokens", ids, "--greedy", "1"},
                              {"routes", model, "x"},
                              {"quantize", model, folder.file("out.gguf"), "Q8_0"},
                              {"perplexity", "-m", model, "-f", text}};
    for (const Arguments& row : rows) {
      SCOPED_TRACE(row[0] + " " + model);
      expect_error(sluice(row), 1);
    }
  };
  all(parts[1]);
  fs::remove(parts[1]);
  ASSERT_EQ(mkfifo(parts[1].c_str(), 0600), 0);
  all(parts[0]);
}

}  // namespace
}  // namespace sluice::test
