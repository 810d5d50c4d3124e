// What a terminal and a pipe see: text, streams, exit codes.
#include <fmt/format.h>

#include "cli/program.h"
#include "sluice/gguf.h"

namespace sluice::test {
namespace {

TEST(Help, shows_every_command_and_no_missing_one) {
  for (const Arguments& arguments : {Arguments{}, {"--help"}, {"-h"}, {"help"}}) {
    const Said said = sluice(arguments);
    EXPECT_EQ(said.code, 0);
    EXPECT_LE(lines_of(said.out).size(), 24u) << "more than a screen";
    for (const char* name : {"run", "chat", "bench", "inspect", "tokenize", "logits", "routes", "devices", "quantize",
                             "perplexity", "embed", "pull", "pin", "render", "kernels"})
      EXPECT_NE(said.out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
    EXPECT_EQ(said.out.find("serve"), std::string::npos);
  }
}

TEST(Help, of_each_command_goes_to_stdout) {
  for (const char* name : {"run", "chat", "bench", "inspect", "tokenize", "logits", "routes", "devices", "quantize",
                           "perplexity", "embed", "pull", "list", "rm", "pin", "render", "kernels"}) {
    const Said said = sluice({name, "--help"});
    EXPECT_EQ(said.code, 0);
    EXPECT_TRUE(said.out.starts_with(std::string("usage: sluice ") + name)) << said.out;
    EXPECT_EQ(said.err, "");
    EXPECT_EQ(sluice({"help", name}).out, said.out);
    for (const std::string& line : lines_of(said.out)) EXPECT_LE(line.size(), 125u) << line;
  }
}

TEST(Help, version_is_that_of_the_build_files) {
  const std::string version = sluice({"--version"}).out;
  ASSERT_TRUE(version.starts_with("sluice ")) << version;
  EXPECT_EQ(sluice({"run", "--version"}).out, version);
  const std::string number = version.substr(7, version.size() - 8);
  EXPECT_NE(file_text(source_file("CMakeLists.txt")).find("VERSION " + number + " "), std::string::npos) << number;
}

TEST(Run, tells_the_reference_tales_to_the_letter) {
  const auto reference = json_file(source_file("tests/fixtures/story/reference.json"));
  for (const auto& prompt : reference.at("prompts")) {
    const std::string text = prompt["prompt"];
    const Said said = sluice({"run", text, "--reference", "--temp", "0", "--repeat-penalty", "1", "-n", "48"});
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out, text + prompt["greedy_text"].get<std::string>() + "\n");
    EXPECT_NE(said.err.find("tokens/s"), std::string::npos) << said.err;
    EXPECT_NE(said.err.find("seed "), std::string::npos) << said.err;
  }
}

TEST(Run, reads_the_prompt_from_everywhere) {
  const TempDir folder;
  write_file(folder.file("p.txt"), "Once upon a time\n");
  const std::string tale = Story().tale(0, 4);
  const Arguments common{"--temp", "0", "--repeat-penalty", "1", "-n", "4", "--quiet"};
  const auto with = [&](Arguments arguments) {
    arguments.insert(arguments.end(), common.begin(), common.end());
    return arguments;
  };
  const Said argument = sluice(with({"run", "Once upon a time"}));
  EXPECT_EQ(argument.out, "Once upon a time" + tale + "\n");
  EXPECT_EQ(argument.err, "");
  EXPECT_EQ(sluice(with({"run", "-p", "Once upon a time"})).out, argument.out);
  EXPECT_EQ(sluice(with({"run", "--prompt=Once upon a time"})).out, argument.out);
  EXPECT_EQ(sluice(with({"run", story_model(), "Once upon a time"})).out, argument.out);
  EXPECT_EQ(sluice(with({"run", "-f", folder.file("p.txt")})).out, argument.out);
  EXPECT_EQ(sluice(with({"run"}), {.in = "Once upon a time\n"}).out, argument.out);
  EXPECT_EQ(sluice(with({"run"}), {.in = "Once upon a time\r\n"}).out, argument.out);
  EXPECT_EQ(sluice(with({"run", "-"}), {.in = "Once upon a time\n"}).out, argument.out);
  EXPECT_EQ(sluice(with({"run", "--no-display-prompt", "Once upon a time"})).out, tale + "\n");
  // An empty prompt begins with BOS alone.
  EXPECT_EQ(sluice(with({"run", ""})).code, 0);
}

TEST(Run, gives_the_same_for_the_same_seed_and_says_the_seed) {
  const Arguments arguments{"run", "The fox", "-n", "12", "-s", "7"};
  const Said first = sluice(arguments);
  EXPECT_EQ(first.out, sluice(arguments).out);
  EXPECT_NE(first.err.find("seed 7"), std::string::npos) << first.err;
}

TEST(Run, stops_where_the_context_ends_and_says_so) {
  const Said said = sluice({"run", "Once upon a time", "-c", "12", "--temp", "0"});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.err.find("note: the context of 12 positions is full"), std::string::npos) << said.err;
}

TEST(Run, takes_a_line_pasted_from_llama_cpp) {
  const Said said = sluice(
      {"run", "-m", story_model(), "-ngl", "99", "-fa", "on", "--jinja", "-p", "Once", "-n", "1", "--temp", "0"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.err.find("note: -ngl, -fa, --jinja have no effect here"), std::string::npos) << said.err;
}

TEST(Run, completes_plain_text_where_asked_to) {
  const Said said = sluice({"run", tiny_model("lfm2moe"), "Hello", "-n", "2", "--raw"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_TRUE(said.out.starts_with("Hello")) << said.out;
  EXPECT_EQ(said.err.find("template"), std::string::npos) << said.err;
}

TEST(Run, ends_quietly_when_the_reader_of_stdout_goes) {
  const Said said = sluice({"run", "Once upon a time", "-n", "2000", "--temp", "0"}, {.close_out_early = true});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err.find("error"), std::string::npos) << said.err;
}

TEST(Run, stops_on_ctrl_c_with_130) {
  const Said said = sluice({"run", "Once upon a time", "--temp", "0", "-n", "2000"}, {.interrupt = true});
  EXPECT_EQ(said.code, 130) << said.err;
  EXPECT_TRUE(said.out.starts_with("Once upon a time"));
  EXPECT_TRUE(said.out.ends_with("\n"));
  EXPECT_NE(said.err.find("prefill"), std::string::npos) << said.err;
}

TEST(Run, opens_files_with_any_name) {
  const TempDir folder;
  const std::string path = folder.file("мо дель-🦊.gguf");
  std::filesystem::copy_file(tiny_model("lfm2moe"), path);
  EXPECT_EQ(sluice({"run", path, "x", "-n", "1"}).code, 0);
  const Said inspected = sluice({"inspect", path});
  EXPECT_NE(inspected.out.find("мо дель-🦊.gguf"), std::string::npos) << inspected.out.substr(0, 200);
}

TEST(Chat, answers_lines_from_a_pipe_and_takes_commands) {
  const Said said = sluice(
      {"chat", "--temp", "0", "--repeat-penalty", "1", "-n", "4"},
      {.in = "Once upon a time\n\n/undo\n/clear\n/what\n/help\n/system Be brief.\nOnce upon a time\n/exit\nnever\n"});
  EXPECT_EQ(said.code, 0) << said.err;
  const auto lines = lines_of(said.out);
  ASSERT_EQ(lines.size(), 3u) << said.out;
  EXPECT_EQ(lines[0], Story().tale(0, 4));
  EXPECT_EQ(lines[1], Story().tale(4, 4));  // an empty line goes on
  EXPECT_EQ(lines[2], lines[0]);
  EXPECT_NE(said.err.find("no command /what"), std::string::npos);
}

TEST(Chat, takes_lines_of_other_systems_and_tells_what_has_no_effect) {
  const Arguments arguments{"chat", "--temp", "0", "--repeat-penalty", "1", "-n", "4", "-sys", "Be brief."};
  const Said said =
      sluice(arguments, {.in = "Once upon a time\r\n/system\r\n/system Be long.\r\nOnce upon a time\r\n/exit\r\n"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out, Story().tale(0, 4) + "\n" + Story().tale(0, 4) + "\n");
  const std::string note = "note: a system prompt has no effect on plain completion";
  const size_t first = said.err.find(note);
  ASSERT_NE(first, std::string::npos) << said.err;
  EXPECT_EQ(said.err.find(note, first + 1), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("/system needs a text"), std::string::npos) << said.err;
  EXPECT_EQ(said.err.find("no command"), std::string::npos) << said.err;
  EXPECT_EQ(sluice({"chat", "--help"}).out.find("--file"), std::string::npos);
}

TEST(Bench, knows_nothing_where_the_table_has_a_dash) {
  const auto tests = json_of(sluice({"bench", "-p", "8", "-n", "4", "-r", "1", "--json"}))["tests"];
  ASSERT_EQ(tests.size(), 2u);
  EXPECT_TRUE(tests[0]["bytes_per_token"].is_null());
  EXPECT_TRUE(tests[0]["memory_share"].is_null());
  EXPECT_GT(tests[1]["bytes_per_token"], 0);
}

TEST(Run, warns_once_of_slow_tensors) {
  const Said said = sluice({"run", tiny_model("lfm2moe-q4_0"), "x", "-n", "1", "--raw", "--cpu-isa", "scalar"});
  const size_t first = said.err.find("fast path");
  ASSERT_NE(first, std::string::npos) << said.err;
  EXPECT_EQ(said.err.find("fast path", first + 1), std::string::npos) << said.err;
}

TEST(Run, counts_what_was_computed_before_ctrl_c) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 8000; ++i) text += "Once upon a time ";
  write_file(folder.file("p.txt"), text);
  int err[2];
  ASSERT_EQ(pipe(err), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(err[1], 2);
    close(1);
    open("/dev/null", O_WRONLY);
    become_program({"run", "-f", folder.file("p.txt"), "-c", "40000", "-n", "1"});
  }
  close(err[1]);
  std::string said;
  char buffer[1024];
  bool sent = false;
  for (ssize_t n = 0; (n = read(err[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, size_t(n));
    if (!sent && said.find("prompt of") != std::string::npos) kill(pid, SIGINT), sent = true;
  }
  close(err[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << said;
  const size_t at = said.find("prefill ");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_LT(std::stoul(said.substr(at + 8)), 32000u) << said;
}

TEST(Tokenize, names_the_option_where_the_pre_tokenizer_is_missing) {
  const TempDir folder;
  const std::string path = folder.file("m.gguf");
  std::string bytes = file_text(source_file("tests/fixtures/vocab/ggml-vocab-gpt-2.gguf"));
  bytes.replace(bytes.find("tokenizer.ggml.pre"), 18, "tokenizer.ggml.prx");
  write_file(path, bytes);
  expect_error(sluice({"tokenize", "-m", path, "x"}), 1, "--pre-tokenizer NAME");
  EXPECT_EQ(sluice({"tokenize", "-m", path, "--pre-tokenizer", "default", "x"}).code, 0);
}

// Whatever part of the model gives them.
TEST(Nan, has_one_message_that_is_right_for_every_cause) {
  const TempDir folder;
  const std::string path = folder.file("nan.gguf"), text = folder.file("t.txt");
  write_file(text, "Once upon a time there was a fox, and the fox was red.");
  for (const std::string name : {"token_embd_norm.weight", "blk.2.ffn_gate_inp.weight", "blk.0.attn_norm.weight"}) {
    SCOPED_TRACE(name);
    std::string bytes = file_text(tiny_model("lfm2moe"));
    {
      const auto file = gguf::File::open(tiny_model("lfm2moe"));
      const gguf::TensorInfo* tensor = file->find_tensor(name);
      if (tensor == nullptr) {
        ADD_FAILURE() << "no such tensor";
        continue;
      }
      std::fill_n(bytes.begin() + ptrdiff_t(tensor->file_offset), tensor->n_bytes, '\xff');
    }
    write_file(path, bytes);
    const std::string message = "the model gave no usable numbers (NaN)";
    expect_error(sluice({"run", path, "x", "-n", "2", "--raw", "--no-display-prompt"}), 1, message);
    expect_error(sluice({"logits", "-m", path, "--tokens", tiny_tokens("lfm2moe"), "--greedy", "2"}), 1, message);
    expect_error(sluice({"perplexity", "-m", path, "-f", text, "-c", "8"}), 1, message);
  }
}

TEST(Run, takes_tiny_numbers_as_nothing) {
  const Arguments arguments{"run", "Once upon a time", "-n", "4", "--repeat-penalty", "1", "--quiet", "--temp"};
  for (const char* temperature : {"1e-30", "1e-300", "1e-999"}) {
    Arguments all = arguments;
    all.emplace_back(temperature);
    EXPECT_EQ(sluice(all).out, "Once upon a time" + Story().tale(0, 4) + "\n") << temperature;
  }
}

TEST(Inspect, knows_any_file) {
  const Said vocabulary = sluice({"inspect", source_file("tests/fixtures/vocab/ggml-vocab-gpt-2.gguf")});
  EXPECT_EQ(vocabulary.code, 0);
  EXPECT_NE(vocabulary.out.find("Not a model"), std::string::npos) << vocabulary.out;
  const Said model = sluice({"inspect", tiny_model("lfm2moe-q4_0")});
  for (const char* part : {"Metadata:", "Tensors", "Types:", "Memory of a run", "Supported: lfm2moe"})
    EXPECT_NE(model.out.find(part), std::string::npos) << part;
}

TEST(Tokenize, a_sentencepiece_vocabulary_alone) {
  const std::string file = source_file("tests/fixtures/vocab/spm-small.gguf");
  const Said ids = sluice({"tokenize", "-m", file, "--json", "the river"});
  EXPECT_NE(ids.out.find("[1, 263, 559, 339, 326]"), std::string::npos) << ids.out;
  EXPECT_EQ(sluice({"tokenize", "-m", file, "--decode", "1,263,559,339,326"}).out, " the river\n");
  expect_error(sluice({"tokenize", "-m", file, "--pre-tokenizer", "qwen2", "x"}), 2, "no pre-tokenizer");
}

TEST(Tokenize, shows_escaped_pieces) {
  const Said said = sluice({"tokenize", "-"}, {.in = "a\n"});
  EXPECT_NE(said.out.find("'\\n'"), std::string::npos) << said.out;
  const std::vector<int> ids = Story().ids;
  const std::string list = fmt::format("{},{}", ids[0], ids[1]);
  EXPECT_EQ(sluice({"tokenize", "--decode", list}).out, "Once\n");
  EXPECT_EQ(sluice({"tokenize", "--decode", list, "--special"}).out, "<|endoftext|>Once\n");
}

}  // namespace
}  // namespace sluice::test
