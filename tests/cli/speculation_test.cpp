// --spec-type ngram: the same text, in fewer steps.
#include "cli/program.h"
#include "support/sanitizer.h"

namespace sluice::test {
namespace {

const std::string kTale =
    "Once upon a time, a little fox found a red ball in the park. The fox was happy and ran home with the red ball.";

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json answer(const Arguments& arguments) {
  const Said said = sluice(with(arguments, {"--json"}));
  EXPECT_EQ(said.code, 0) << said.err;
  return nlohmann::json::parse(said.out, nullptr, false);
}

TEST(Speculation, gives_the_same_text_for_every_way_of_sampling) {
  const std::string prompt = kTale + " " + kTale + " Once upon a time, a little fox", many = kSanitized ? "30" : "150";
  for (const Arguments& sampling : {Arguments{"--temp", "0", "--repeat-penalty", "1"},
                                    {"--temp", "0"},
                                    {"-s", "3"},
                                    {"-s", "4", "--temp", "0.4"}}) {
    for (const Arguments& end : {Arguments{"-n", "7"}, {"-n", many}, {"-c", "100"}}) {
      const Arguments arguments = with(with({"run", prompt}, sampling), end);
      const auto plain = answer(arguments), fast = answer(with(arguments, {"--spec-type", "ngram"}));
      EXPECT_EQ(fast["tokens"], plain["tokens"]);
      EXPECT_EQ(fast["text"], plain["text"]);
      EXPECT_EQ(fast["stop"], plain["stop"]);
      EXPECT_LE(fast["speculation"]["accepted"], fast["speculation"]["drafted"]);
      EXPECT_FALSE(plain.contains("speculation"));
    }
  }
}

TEST(Speculation, copies_in_fewer_steps_and_says_so) {
  const std::string prompt = kTale + " " + kTale + " Once upon a time, a little fox";
  const Said said = sluice(
      {"run", prompt, "--temp", "0", "--repeat-penalty", "1", "-n", "200", "--spec-type", "ngram", "--json", "-v"});
  const auto json = nlohmann::json::parse(said.out, nullptr, false);
  EXPECT_GT(json["speculation"]["accepted"], 60) << json.dump();
  EXPECT_LT(json["speculation"]["steps"], 140) << json.dump();
  EXPECT_NE(said.err.find("speculation: "), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("of them right"), std::string::npos) << said.err;
}

// The draft holds the end token and more: the text ends there all the same. The penalty below zero is a reward that
// makes the model copy.
TEST(Speculation, stops_at_an_end_inside_a_draft) {
  const std::string piece = "The fox slept.<|endoftext|>";
  const Arguments arguments{"run",
                            piece + piece + piece + piece + "The fox",
                            "--temp",
                            "0",
                            "--repeat-penalty",
                            "1",
                            "--presence-penalty",
                            "-30",
                            "-n",
                            "60",
                            "--special"};
  const auto plain = answer(arguments), fast = answer(with(arguments, {"--spec-type", "ngram"}));
  EXPECT_EQ(plain["stop"], "eos");
  EXPECT_EQ(fast["stop"], "eos");
  EXPECT_EQ(fast["text"], " slept.");
  EXPECT_EQ(fast["tokens"], plain["tokens"]);
  EXPECT_GT(fast["speculation"]["drafted"], fast["speculation"]["accepted"]);
}

TEST(Speculation, chats_alike) {
  const How talk{.in = kTale + "\n\n\n/undo\n\n" + kTale + "\n\n/exit\n"};
  const Arguments arguments{"chat", "-n", "40", "-s", "5", "--temp", "0.5"};
  const Said plain = sluice(arguments, talk), fast = sluice(with(arguments, {"--spec-type", "ngram", "-v"}), talk);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(fast.out, plain.out);
  EXPECT_NE(fast.err.find("speculation: "), std::string::npos) << fast.err;
}

TEST(Speculation, stops_on_ctrl_c) {
  const Said said =
      sluice({"run", kTale + " " + kTale, "--temp", "0", "-n", "2000", "--spec-type", "ngram"}, {.interrupt = true});
  EXPECT_EQ(said.code, 130) << said.err;
}

TEST(Speculation, knows_its_types) {
  const Said said = sluice({"run", "x", "--spec-type", "draft"});
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.err.find("--spec-type is none or ngram"), std::string::npos) << said.err;
  EXPECT_EQ(sluice({"run", "Once", "-n", "2", "--spec-type", "none"}).code, 0);
}

}  // namespace
}  // namespace sluice::test
