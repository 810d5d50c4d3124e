// Models asked through chat templates, and templates alone.
#include "cli/program.h"

namespace sluice::test {
namespace {

const std::string kModel = tiny_model("lfm2");
constexpr const char* kEnd = "<|im_end|>\n<|im_start|>assistant\n";

Arguments greedy(Arguments arguments) {
  for (const char* more : {"--temp", "0", "--repeat-penalty", "1", "-n", "4"}) arguments.emplace_back(more);
  return arguments;
}

std::vector<int> token_ids(const std::string& text, bool bos) {
  Arguments arguments{"tokenize", "-m", kModel, text, "--json", "--special"};
  if (!bos) arguments.emplace_back("--no-bos");
  return json_of(sluice(arguments))["ids"];
}

// What the model says after these tokens.
std::string continuation(const std::vector<int>& ids) {
  const TempDir folder;
  write_file(folder.file("ids.json"), nlohmann::json(ids).dump());
  const auto said = json_of(sluice(
      {"logits", "-m", kModel, "--tokens", folder.file("ids.json"), "--out", folder.file("l.npy"), "--greedy", "4"}));
  std::string list;
  for (const int id : said["greedy"]) list += (list.empty() ? "" : ",") + std::to_string(id);
  return json_of(sluice({"tokenize", "-m", kModel, "--decode", list, "--json"}))["text"];
}

std::string message(const std::string& role, const std::string& content) {
  return "<|im_start|>" + role + "\n" + content + "<|im_end|>\n";
}

TEST(Template, a_model_is_asked_through_its_own) {
  const Said said = sluice(greedy({"run", kModel, "Hello", "-sys", "Be brief.", "--json"}));
  const std::string prompt = message("system", "Be brief.") + message("user", "Hello") + "<|im_start|>assistant\n";
  EXPECT_NE(said.err.find("asking through its chat template"), std::string::npos) << said.err;
  const auto ids = token_ids(prompt, true);
  EXPECT_EQ(json_of(said)["n_prompt"], ids.size()) << "one BOS, though the template writes it too";
  EXPECT_EQ(json_of(said)["text"], continuation(ids));
}

TEST(Template, another_may_be_given) {
  const TempDir folder;
  write_file(folder.file("t.jinja"), "{{ messages[0].content ~ x }}");
  const std::string wanted = sluice(greedy({"run", kModel, "a tale1", "--raw", "--no-display-prompt"})).out;
  EXPECT_EQ(sluice(greedy({"run", kModel, "a tale", "--chat-template-file", folder.file("t.jinja"),
                           "--chat-template-kwargs", R"({"x": 1})"}))
                .out,
            wanted);
  EXPECT_EQ(sluice(greedy({"run", kModel, "a tale", "--chat-template", "{{ messages[0].content }}1"})).out, wanted);
  const Said refused = sluice({"run", kModel, "x", "--chat-template", "{{ raise_exception('only\nrhymes') }}"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("error: the chat template refuses the messages: only\\nrhymes\n"), std::string::npos)
      << refused.err;
  const Said damaged = sluice({"run", kModel, "x", "--chat-template", "{{ 1"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find("line 1"), std::string::npos) << damaged.err;
  EXPECT_EQ(sluice({"run", kModel, "x", "--chat-template-kwargs", "[1]"}).code, 2);
}

TEST(Template, one_that_cannot_be_read_gives_way_to_chatml) {
  const TempDir folder;
  std::string bytes = file_text(kModel);
  bytes.replace(bytes.find("{% for message"), 14, "{% xor message");
  write_file(folder.file("m.gguf"), bytes);
  const Said said = sluice(greedy({"run", folder.file("m.gguf"), "Hello"}));
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.err.find("cannot be read: line 1: there is no statement 'xor'"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("asking in the ChatML form"), std::string::npos) << said.err;
  EXPECT_EQ(said.out, sluice(greedy({"run", kModel, "Hello"})).out);
}

TEST(Template, control_tokens_in_a_prompt_stay_text) {
  const auto n_prompt = [](Arguments more) {
    Arguments arguments{"run", kModel, "Say <|im_end|> now", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(sluice(greedy(arguments)))["n_prompt"].get<size_t>();
  };
  const size_t n_apart =
      token_ids("<|im_start|>user\n", true).size() + token_ids(kEnd, false).size() +
      json_of(sluice({"tokenize", "-m", kModel, "Say <|im_end|> now", "--json", "--no-bos"}))["ids"].size();
  EXPECT_EQ(n_prompt({}), n_apart);
  EXPECT_LT(n_prompt({"--special"}), n_apart);
  // A message that is nothing but what the template writes itself, in its own place alone.
  const auto alone = json_of(sluice(greedy({"run", kModel, "<|im_end|>", "--json", "-sys", "x"})));
  const auto marked = json_of(sluice(greedy({"run", kModel, "<|im_end|>", "--json", "-sys", "x", "--special"})));
  const size_t n_text = json_of(sluice({"tokenize", "-m", kModel, "<|im_end|>", "--json", "--no-bos"}))["ids"].size();
  EXPECT_EQ(alone["n_prompt"].get<size_t>(), marked["n_prompt"].get<size_t>() + n_text - 1);
}

TEST(Template, a_chat_goes_on_from_the_very_tokens_it_said) {
  const Said said = sluice(greedy({"chat", kModel, "--json"}), {.in = "Hello\nMore\n/undo\nMore\n"});
  const auto turns = json_of(said)["turns"];
  ASSERT_EQ(turns.size(), 2u) << said.err;
  auto ids = token_ids(message("user", "Hello") + "<|im_start|>assistant\n", true);
  EXPECT_EQ(turns[0]["answer"], continuation(ids));
  const auto answer = json_of(sluice(greedy({"run", kModel, "Hello", "--json"})))["tokens"];
  ids.insert(ids.end(), answer.begin(), answer.end());
  for (const int id : token_ids("<|im_end|>\n" + message("user", "More") + "<|im_start|>assistant\n", false))
    ids.push_back(id);
  const std::string second = continuation(ids);
  const auto once = json_of(sluice(greedy({"chat", kModel, "--json"}), {.in = "Hello\nMore\n"}))["turns"];
  ASSERT_EQ(once.size(), 2u);
  EXPECT_EQ(once[1]["answer"], second);
}

TEST(Template, a_chat_starts_anew_where_the_template_rewrites_the_past) {
  const Said said = sluice(greedy({"chat", kModel, "--chat-template", "{{ messages|map(attribute='role')|join }}"}),
                           {.in = "Hello\nMore\n"});
  const auto raw = [](const char* text) {
    return sluice(greedy({"run", kModel, text, "--raw", "--no-display-prompt"})).out;
  };
  EXPECT_EQ(said.out, raw("user") + raw("userassistantuser")) << said.err;
}

TEST(Template, render_writes_the_bytes_of_the_prompt) {
  const TempDir folder;
  const std::string t = folder.file("t.jinja"), m = folder.file("m.json");
  write_file(t,
             "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ x }}{{ tools }}\n"
             "{% if add_generation_prompt %}{{ strftime_now('%d %b %Y %H:%M') }}{% endif %}\n");
  write_file(m, R"([{"role": "user", "content": "ü\u0007"}])");
  setenv("SLUICE_NOW", "2026-03-14T15:09:26", 1);
  const Said said = sluice({"render", "--template", t, "--messages", m});
  EXPECT_EQ(said.out, "<s>ü\a\n14 Mar 2026 15:09") << said.err;
  EXPECT_EQ(said.err, "");
  write_file(m, R"({"messages": [], "tools": [1], "x": 2.0, "bos_token": "B"})");
  EXPECT_EQ(sluice({"render", "--template", t, "--messages", m, "--no-generation-prompt"}).out, "B2.0[1]\n");
  setenv("SLUICE_NOW", "soon", 1);
  EXPECT_EQ(sluice({"render", "--template", t, "--messages", m}).code, 2);
  unsetenv("SLUICE_NOW");
  write_file(m, R"([{"role": "user", "content": "Hello"}])");
  EXPECT_EQ(json_of(sluice({"render", "-m", kModel, "--messages", "-", "--json"}, {.in = file_text(m)}))["text"],
            "<|startoftext|>" + message("user", "Hello") + "<|im_start|>assistant\n");
  write_file(m, "[1, ");
  EXPECT_EQ(sluice({"render", "--template", t, "--messages", m}).code, 1);
  EXPECT_EQ(sluice({"render", "--template", t}).code, 2);
  EXPECT_EQ(sluice({"render", "--messages", m}).code, 2);
}

}  // namespace
}  // namespace sluice::test
