// Every row: one line `error: WHAT; REMEDY`, the right exit code, nothing on stdout.
#include "cli/program.h"

namespace sluice::test {
namespace {

struct Row {
  Arguments arguments;  // @NAME: a file of files() below
  int code;
  std::string part;  // of the message
  std::string in = {};
};

std::string cut(const std::string& text, size_t n) { return text.substr(0, n); }

// Files that are not what the command wants.
std::vector<std::pair<std::string, std::string>> files() {
  const std::string model = file_text(tiny_model("lfm2moe"));
  std::string architecture = model;
  architecture.replace(architecture.find("lfm2moe", architecture.find("general.architecture")), 7, "lfm9\x1bxx");
  return {
      {"empty.gguf", ""},
      {"three.gguf", "GGU"},
      {"page.gguf", "<!DOCTYPE html><html><body>404</body></html>"},
      {"header.gguf", cut(model, 100)},
      {"half.gguf", cut(model, model.size() / 2)},
      {"last.gguf", cut(model, model.size() - 40)},
      {"architecture.gguf", architecture},
      {"broken.json", "[1, 2"},
      {"object.json", "{\"a\": 1}"},
      {"strings.json", "[\"a\"]"},
      {"negative.json", "[1, -1]"},
      {"fraction.json", "[1, 1.5]"},
      {"large.json", "[1, 99999999]"},
      {"huge.json", "[123456789012345678901234567890]"},
      {"none.json", "[]"},
      {"deep.json", std::string(200000, '[')},
      {"ids.json", "[1, 2, 3]"},
      {"layer.json", R"({"layers": {"99": {"experts": [[0], [0], [0]]}}})"},
      {"rows.json", R"({"layers": {"1": {"experts": [[0]]}}})"},
      {"expert.json", R"({"layers": {"1": {"experts": [[0, 99], [0, 1], [0, 1]]}}})"},
      {"twice.json", R"({"layers": {"1": {"experts": [[1, 1], [0, 1], [0, 1]]}}})"},
      {"weights.json", R"({"layers": {"1": {"experts": [[0], [0], [0]], "weights": [[1], [1], ["a"]]}}})"},
      {"shape.json", R"({"layers": {"1": {"experts": [[0], [0], [0]], "weights": [[1], [1]]}}})"},
      {"text.txt", "a few words\n"},
  };
}

std::vector<Row> rows() {
  const std::string m = tiny_model("lfm2moe");
  return {
      {{"tell"}, 2, "no command 'tell'"},
      {{"benhc"}, 2, "did you mean bench?"},
      {{"--json"}, 2, "where a command should"},
      {{"help", "nothing"}, 2, "no command"},
      {{"serve"}, 2, "not part of this version yet"},
      {{"embed", "x", "--pooling", "first"}, 2, "none, mean, cls and last"},
      {{"embed", "x", "--texts", "t.json"}, 2, "one argument too many"},
      {{"pin", "--reference", m}, 2, "leave --reference out"},
      {{"pin", "--max-nmse", "x", m}, 2, "--max-nmse needs a number"},
      {{"kernels", "gemw"}, 2, "did you mean gemv?"},
      {{"kernels", "--target", "metal"}, 2, "no kernel is named"},
      {{"kernels", "gemv"}, 2, "--target"},
      {{"kernels", "gemv", "--target", "dxil"}, 2, "spirv, cuda, metal, wgsl"},
      {{"run", "--thread", "2", "x"}, 2, "did you mean --threads?"},
      {{"run", "-y", "x"}, 2, "unknown option -y"},
      {{"run", "-t", "two", "x"}, 2, "--threads needs a number"},
      {{"run", "-t", "0", "x"}, 2, "--threads"},
      {{"run", "-t", "-3", "x"}, 2, "--threads"},
      {{"run", "-c", "99999999999999999999", "x"}, 2, "--ctx-size"},
      {{"run", "-n", "1.5", "x"}, 2, "--n-predict"},
      {{"run", "--temp", "nan", "x"}, 2, "--temp"},
      {{"run", "--temp", "hot", "x"}, 2, "--temp"},
      {{"run", "--top-p", "-1", "x"}, 2, "--top-p"},
      {{"run", "--repeat-penalty", "0", "x"}, 2, "--repeat-penalty"},
      {{"run", "-ctk", "q5_0", "x"}, 2, "--cache-type-k"},
      {{"run", "--backend", "metal", "x"}, 2, "no backend"},
      {{"run", "--backend", "cuda", "x"}, 2, "not part of this version yet"},
      {{"run", "--backend", "cpu", "--device", "0", "x"}, 2, "no devices to choose from"},
      {{"run", "--device", "-1", "x"}, 2, "--device"},
      {{"run", "--cpu-isa", "sse9", "x"}, 2, "no instruction set"},
      {{"run", "--lora", "/nowhere/a.gguf:0.5", "x"}, 1, "/nowhere/a.gguf'"},
      {{"run", "--lora", tiny_model("lfm2moe"), "x"}, 1, "is no adapter; give a LoRA adapter"},
      {{"run", "--lora", "", "x"}, 2, "--lora needs a file"},
      {{"run", "--grammar", "root ::= \"a\"", "x"}, 2, "not part of this version yet"},
      {{"run", "-hf", "a", "x"}, 2, "no repository of the hub"},
      {{"run", "hf:../b", "x"}, 2, "no repository of the hub"},
      {{"run", "hf.co/a/b:", "x"}, 2, "no quantisation"},
      {{"run", "hf:a/b", "-m", m, "x"}, 2, "more than one prompt"},
      {{"run", "-hf", "a/b", "-m", m, "x"}, 2, "choose one"},
      {{"pull"}, 2, "0 names"},
      {{"pull", "a/b/c"}, 2, "no repository of the hub"},
      {{"rm", "a/../b"}, 2, "no repository of the hub"},
      {{"run", "--json=1", "x"}, 2, "takes no value"},
      {{"run", "x", "-n"}, 2, "needs a value"},
      {{"run", "one", "two"}, 2, "more than one prompt"},
      {{"run", "one", "-p", "two"}, 2, "more than one prompt"},
      {{"run", "-m", m, "--experts-used", "999", "x"}, 2, ""},
      {{"run", "-m", "absent.gguf", "x"}, 1, "absent.gguf"},
      {{"run", "absent \x1b[31m\n.gguf", "x"}, 1, "\\x1b"},
      {{"run", "-m", "/", "x"}, 1, ""},
      {{"run", "-m", "/dev/null", "x"}, 1, ""},
      {{"run", "-f", "absent.txt"}, 1, "absent.txt"},
      {{"run", "-f", "/"}, 1, ""},
      {{"run", "@empty.gguf", "x"}, 1, ""},
      {{"run", "@three.gguf", "x"}, 1, ""},
      {{"run", "@page.gguf", "x"}, 1, ""},
      {{"run", "@header.gguf", "x"}, 1, ""},
      {{"run", "@half.gguf", "x"}, 1, "tensor"},
      {{"run", "@last.gguf", "x"}, 1, "tensor"},
      {{"run", "@architecture.gguf", "x"}, 1, "\\x1b"},
      {{"run", "-m", source_file("tests/fixtures/vocab/ggml-vocab-gpt-2.gguf"), "x"}, 1, ""},
      {{"run", "-c", "8", "--raw", "one two three four five six seven eight nine ten eleven twelve"},
       1,
       "the context holds 8"},
      {{"run", "-c", "8", "-"}, 1, "the context holds 8", "a story of more than eight tokens, surely longer"},
      {{"chat", "-f", "x"}, 2, "stdin"},
      {{"chat", "what"}, 2, "one argument too many"},
      {{"bench", "-p", "0", "-n", "0"}, 2, "nothing to measure"},
      {{"bench", "-r", "0"}, 2, "--repetitions"},
      {{"bench", "-d", "1,,2"}, 2, "--n-depth"},
      {{"inspect"}, 2, "no file"},
      {{"inspect", "absent.gguf"}, 1, "absent.gguf"},
      {{"inspect", "@half.gguf"}, 1, "tensor"},
      {{"inspect", "@ids.json"}, 1, ""},
      {{"tokenize", "-m", m, "--decode", "1,x"}, 2, "--decode"},
      {{"tokenize", "-m", m, "--decode", "999999"}, 2, "--decode"},
      {{"tokenize", "-m", m, "--decode", "1", "--texts", "@strings.json"}, 2, "do not go together"},
      {{"tokenize", "-m", m, "--texts", "@ids.json"}, 1, "no string"},
      {{"tokenize", "-m", "@page.gguf", "x"}, 1, ""},
      {{"logits", "-m", m}, 2, "--tokens"},
      {{"logits", "-m", m, "--tokens", "@ids.json"}, 2, "nothing is asked for"},
      {{"logits", "-m", m, "--tokens", "@broken.json", "--greedy", "1"}, 1, "not valid JSON"},
      {{"logits", "-m", m, "--tokens", "@object.json", "--greedy", "1"}, 1, "no array"},
      {{"logits", "-m", m, "--tokens", "@strings.json", "--greedy", "1"}, 1, "not a whole number"},
      {{"logits", "-m", m, "--tokens", "@negative.json", "--greedy", "1"}, 1, "is -1"},
      {{"logits", "-m", m, "--tokens", "@fraction.json", "--greedy", "1"}, 1, "not a whole number"},
      {{"logits", "-m", m, "--tokens", "@large.json", "--greedy", "1"}, 1, "99999999"},
      {{"logits", "-m", m, "--tokens", "@huge.json", "--greedy", "1"}, 1, "not a whole number"},
      {{"logits", "-m", m, "--tokens", "@deep.json", "--greedy", "1"}, 1, "JSON"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "-c", "2", "--greedy", "1"}, 1, "the context holds 2"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--out", "/absent/l.npy"}, 1, "/absent/l.npy"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--routing", "/absent/r.json"}, 1, "/absent/r.json"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@layer.json"},
       1,
       "'99' is no routed layer"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@rows.json"}, 1, "1 tokens"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@expert.json"},
       1,
       "an expert is 99"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@twice.json"}, 1, "twice"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@weights.json"}, 1, "weights"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--routing-in", "@shape.json"}, 1, "weights"},
      {{"logits", "-m", m, "--tokens", "@none.json", "--greedy", "1"}, 1, "the array is empty"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "99", "-c", "16"}, 1, "3 tokens and 98 after them"},
      {{"logits", "-m", m, "--tokens", "@ids.json", "--greedy", "1", "--pre-tokenizer", "no-such"}, 1, "no-such"},
      {{"bench", m, "--pre-tokenizer", "no-such"}, 1, "--pre-tokenizer NAME"},
      {{"bench", m, "-c", "16", "-p", "64", "-n", "0"}, 2, "the 64 positions"},
      {{"perplexity", "-f", "@text.txt", "-c", "1"}, 2, "4 tokens"},
      {{"routes", m, "x", "--raw"}, 2, "unknown option"},
      {{"routes", m, "x", "-sys", "Be brief."}, 2, "unknown option"},
      {{"run", "-t", "513", "x"}, 2, "1 to 512"},
      {{"run", "-ub", "16385", "x"}, 2, "1 to 16384"},
      {{"run", "-c", "16777217", "x"}, 2, "0 to 16777216"},
      {{"quantize", m, "out.gguf", "Q8_0", "-t", "513"}, 2, "1 to 512"},
      {{"routes", "-m", tiny_model("lfm2"), "x"}, 1, "no experts"},
      {{"routes", "x", "--svg", "/absent/r.svg"}, 1, "/absent/r.svg"},
      {{"quantize", m}, 2, "three arguments"},
      {{"quantize", m, m, "Q8_0"}, 2, "input and output"},
      {{"quantize", m, "out.gguf", "Q3_X"}, 2, "no type"},
      {{"quantize", m, "/absent/out.gguf", "Q8_0"}, 1, "/absent/out.gguf"},
      {{"quantize", "absent.gguf", "out.gguf", "Q8_0"}, 1, "absent.gguf"},
      {{"perplexity"}, 2, "-f FILE"},
      {{"perplexity", "-f", "@text.txt", "--score", "some"}, 2, "--score"},
      {{"perplexity", "-f", "@text.txt"}, 1, "too few"},
      {{"devices", "all"}, 2, "one argument too many"},
  };
}

TEST(WrongUse, gives_one_error_line_and_the_exit_code) {
  const TempDir folder;
  for (const auto& [name, text] : files()) write_file(folder.file(name), text);
  ASSERT_GE(rows().size(), 30u);
  for (Row row : rows()) {
    std::string line = "sluice";
    for (std::string& a : row.arguments) {
      if (a.starts_with("@")) a = folder.file(a.substr(1));
      line += " " + a;
    }
    SCOPED_TRACE(line);
    expect_error(sluice(row.arguments, {.in = row.in}), row.code, row.part);
  }
}

TEST(WrongUse, a_read_only_folder_takes_no_output) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TempDir folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  expect_error(sluice({"quantize", tiny_model("lfm2moe"), folder.file("out.gguf"), "Q8_0"}), 1, "out.gguf");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
}

TEST(WrongUse, a_full_disk_is_said_and_leaves_nothing) {
  expect_error(sluice({"inspect", tiny_model("lfm2moe")}, {.out_path = "/dev/full"}), 1, "cannot write to stdout");
  expect_error(sluice({"run", "-n", "5", "Once"}, {.out_path = "/dev/full"}), 1, "cannot write to stdout");
}

}  // namespace
}  // namespace sluice::test
