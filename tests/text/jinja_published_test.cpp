// Published templates and their renderings by the engine they were written for; skipped where they are not beside the
// checkout.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sluice/chat_template.h"
#include "text/text_fixtures.h"

namespace sluice::text {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kTemplates = test::source_dir() / ".." / "shared" / "templates";

Json json_file(const fs::path& path) { return Json::parse(read_all(path)); }

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  if (!fs::exists(kTemplates)) return names;
  for (const auto& entry : fs::directory_iterator(kTemplates))
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Case {
  std::string messages, tools, extra;
  bool prompt = true;

  explicit Case(const Json& json) : messages(json.at("messages").dump()), prompt(json.value("gen", true)) {
    if (json.contains("tools")) tools = json["tools"].dump();
    Json more = json.value("extra", Json::object());
    more["unk_token"] = "<unk>";
    more["pad_token"] = "<pad>";
    extra = more.dump();
  }
};

void expect_case(const ChatTemplate& made, const std::string& name, const Json& input, const Json& wanted) {
  const Case c(input);
  const auto got = made.render({.messages = c.messages,
                                .tools = c.tools,
                                .extra = c.extra,
                                .add_generation_prompt = c.prompt,
                                .now = {2026, 3, 14, 15, 9, 26}});
  if (wanted.contains("error"))
    EXPECT_FALSE(got.has_value()) << name << ": no error, but " << wanted["error"];
  else if (!got)
    ADD_FAILURE() << name << ": " << got.error().message;
  else
    EXPECT_EQ(*got, wanted["text"].get<std::string>()) << name;
}

TEST(PublishedTemplates, render_as_the_reference_does) {
  const auto names = template_names();
  if (names.empty()) GTEST_SKIP() << "no templates in " << kTemplates;
  const Json cases = json_file(kTemplates / "cases.json");
  for (const std::string& name : names) {
    const auto made = ChatTemplate::create(read_all(kTemplates / (name + ".jinja")), "<s>", "</s>");
    ASSERT_TRUE(made.has_value()) << name << ": " << made.error().message;
    const Json wanted = json_file(kTemplates / (name + ".json"));
    for (const auto& [which, rendering] : wanted.items())
      expect_case(*made, name + " " + which, cases.at(which), rendering);
  }
}

}  // namespace
}  // namespace sluice::text
