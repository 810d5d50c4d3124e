// Templates that mean harm, or are damaged: one clear line, whatever they do.
#include <thread>
#include <utility>
#include <vector>

#include "text/jinja_fixtures.h"

namespace sluice::test {
namespace {

constexpr ChatTemplateLimits kSmall{.output_bytes = 1u << 20, .memory_bytes = 8u << 20, .steps = 200'000, .depth = 600};

std::string repeated(std::string_view part, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += part;
  return out;
}

void expect_error(std::string_view text, std::string_view what) {
  const auto got = rendered(text, kSmall);
  ASSERT_FALSE(got.has_value()) << text.substr(0, 200);
  const std::string& message = got.error().message;
  EXPECT_NE(message.find(what), std::string::npos) << text.substr(0, 200) << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 700u) << message;
}

TEST(JinjaLimits, depth_of_the_text) {
  constexpr size_t kMany = 5'000;
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"(", ")"}, {"[", "]"}, {"{1:", "}"}, {"-", ""}, {"x[", "]"}, {"x(", ")"}, {"x if x else ", ""}, {"x|f(", ")"}};
  for (const auto& [open, close] : kPairs)
    expect_error("{{ " + repeated(open, kMany) + "1" + repeated(close, kMany) + " }}", "deep in each other");
  for (const char* part : {"{% if x %}", "{% for x in y %}", "{% filter upper %}", "{% macro m() %}", "{% set x %}"})
    expect_error(repeated(part, kMany), "deep in each other");
  for (const char* part : {".a", "[0]", "|upper", "()", " if x"})
    expect_error("{{ x" + repeated(part, kMany) + " }}", "too long a chain");
}

TEST(JinjaLimits, long_texts_that_are_not_deep) {
  constexpr size_t kMany = 5'000;
  EXPECT_EQ(*rendered("{{ 0" + repeated(" + 1", kMany) + " }}"), "5000");
  EXPECT_EQ(rendered("{{ 'a'" + repeated(" ~ 'a'", kMany) + " }}")->size(), kMany + 1);
  EXPECT_EQ(*rendered("{{ " + repeated("not ", kMany) + "1 }}"), "True");
  EXPECT_EQ(*rendered("{{ 1" + repeated(" and 1", kMany) + " }}"), "1");
  EXPECT_EQ(*rendered("{% if 0 %}" + repeated("{% elif 0 %}", kMany) + "{% else %}x{% endif %}"), "x");
}

TEST(JinjaLimits, depth_of_calls) {
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep in each other");
  expect_error("{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}", "deep in each other");
  expect_error("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep in each other");
  expect_error("{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "deep in each other");
}

TEST(JinjaLimits, depth_of_values) {
  const std::string_view thousand = "{% for i in range(1000) %}";
  const auto grown = [&](std::string_view body) {
    return "{% set n = namespace(x=1, y=1) %}" + std::string(thousand) + std::string(body) + "{% endfor %}";
  };
  expect_error(grown("{% set n.x = [n.x] %}"), "deep in each other");
  expect_error(grown("{% set n.x = {'a': n.x} %}"), "deep in each other");
  expect_error(grown("{% set n.x = n %}"), "deep in each other");
  expect_error(grown("{% set n.x = namespace(x=n.x) %}"), "deep in each other");
  // Namespaces that know each other, and a list that knows a namespace: given back at the end.
  EXPECT_TRUE(
      rendered("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}{{ a.b }}").has_value());
  EXPECT_TRUE(rendered("{% set a = namespace() %}{% macro m() %}{% endmacro %}{% set a.m = m %}").has_value());
  const std::string deep = repeated("[", 100'000) + repeated("]", 100'000);
  const auto made = ChatTemplate::create("{{ messages }}");
  const auto got = made->render({.messages = deep});
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::invalid_argument);
}

TEST(JinjaLimits, time) {
  expect_error("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps");
  expect_error("{% for i in range(99999) %}{% set x = 'abc' %}{% endfor %}", "steps");
  expect_error("{% set a = 'a' * 300000 %}{{ (a ~ 'b') in (a ~ a) }}", "steps");
  // Values of few bytes that would be large if written out.
  const std::string twice =
      "{% set n = namespace(x=[]) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor %}";
  expect_error(twice + "{{ n.x == [n.x] or n.x }}", "");
  expect_error(twice + "{{ n.x|tojson }}", "steps");
  expect_error(twice + "{% set m = namespace(x=[]) %}{% for i in range(90) %}{% set m.x = [m.x, m.x] %}{% endfor %}" +
                   "{{ n.x == m.x }}",
               "steps");
}

TEST(JinjaLimits, memory_and_output) {
  for (const char* text :
       {"{{ 'x' * 1000000000 }}", "{{ [1] * 1000000000 }}", "{{ 'x' * 9223372036854775807 }}",
        "{{ 'x'.center(1000000000) }}", "{{ 'x'.zfill(1000000000) }}", "{{ 'x'|indent(1000000000) }}",
        "{{ [1]|tojson(indent=1000000000) }}", "{{ [1]|batch(1000000000, 0)|list }}",
        "{% set a = 'x' * 100000 %}{{ a.replace('x', a) }}", "{% set a = 'x' * 100000 %}{{ a|replace('', a) }}",
        "{% set a = 'x' * 100000 %}{{ a.join(a) }}", "{% set a = 'x' * 1000000 %}{{ a|list }}",
        "{% set a = '\\n' * 100000 %}{{ a|indent(1000, blank=true) }}",
        "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"})
    expect_error(text, "MiB");
  expect_error("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", "it ");
  expect_error("{% for i in range(1000) %}{{ 'x' * 10000 }}{% endfor %}", "writes more than 1 MiB");
  expect_error("{{ range(1000000000) }}", "range");
  expect_error("{{ '{:999999999}'.format(1) }}", "too wide");
  expect_error("{{ '%999999999d' % 1 }}", "too wide");
  expect_error("{{ 9223372036854775807 + 1 }}", "too large");
  expect_error("{{ 10 ** 100 }}", "too large");
  EXPECT_EQ(
      *rendered("{{ -9223372036854775807 - 1 }}|{{ 'abc'[9223372036854775807] }}|{{ [1][-9223372036854775807] }}"),
      "-9223372036854775808||");
  expect_error("{{ (-9223372036854775807 - 1) // -1 }}", "too large");
}

TEST(JinjaLimits, damaged_templates) {
  for (const char* text : {"{{",
                           "{%",
                           "{#",
                           "{{ 'a",
                           "{% if %}",
                           "{% if 1 %}",
                           "{% endif %}",
                           "{% foo %}",
                           "{{ 1 1 }}",
                           "{% for %}",
                           "{% for x in %}",
                           "{% set %}",
                           "{% macro %}",
                           "{% raw %}",
                           "{{ a. }}",
                           "{{ | }}",
                           "{{ a| }}",
                           "{{ (1 }}",
                           "{{ 1) }}",
                           "{{ {1} }}",
                           "{{ a[ }}",
                           "{{ a[] }}",
                           "{{ $ }}",
                           "{{ '\\xzz' }}",
                           "{{ 99999999999999999999 }}",
                           "{% break %}",
                           "{% call 1 %}{% endcall %}",
                           "{% else %}",
                           "{% block a %}{% endblock %}",
                           "{% include 'x' %}",
                           "{{ f(a=1, 2) }}"}) {
    const auto made = ChatTemplate::create(text);
    ASSERT_FALSE(made.has_value()) << text;
    EXPECT_EQ(made.error().code, Code::corrupt_file) << text;
    EXPECT_NE(made.error().message.find("line 1: "), std::string::npos) << made.error().message;
  }
  EXPECT_NE(ChatTemplate::create("a\n{{ b }}\n{% c %}").error().message.find("line 3: "), std::string::npos);
  const std::string large(kSmall.template_bytes + 1, 'x');
  EXPECT_EQ(ChatTemplate::create(large).error().code, Code::unsupported);
}

TEST(JinjaLimits, bytes_that_are_not_utf8) {
  EXPECT_EQ(*rendered("a\xff{{ 'b\xe2\x82' }}{{ '\xff\xff'|length }}{{ '\xff' 'x'|upper }}{{ ['\xff'] }}"),
            "a\xff"
            "b\xe2\x82"
            "2\xffX['\\xff']");
  EXPECT_EQ(*rendered("{{ '\xe2\x82'[::-1]|length }}{{ ' \xff '|trim }}{{ '\xff'.title() }}{{ '\xff'|tojson }}"),
            "1\xff\xff\"\xff\"");
  const auto made = ChatTemplate::create("{{ messages[0].content }}");
  const auto got = made->render({.messages = "[{\"content\": \"\xff\"}]"});
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::invalid_argument);
}

TEST(ChatTemplate, refuses_inputs_of_another_form) {
  const auto made = ChatTemplate::create("{{ messages }}{{ tools }}{{ enable_thinking }}");
  for (const ChatInput& input : {ChatInput{.messages = "{}"}, ChatInput{.messages = "[1,"}, ChatInput{.tools = "3"},
                                 ChatInput{.extra = "[]"}, ChatInput{.messages = " "}}) {
    const auto got = made->render(input);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Code::invalid_argument);
  }
  EXPECT_EQ(*made->render({.extra = R"({"messages": [], "enable_thinking": false})"}), "[]False");
}

TEST(ChatTemplate, says_the_line_of_a_failure_and_whose_words_a_refusal_is) {
  EXPECT_EQ(rendered("a\n{% if true %}\n{{ x.y }}{% endif %}").error().message,
            "the chat template fails: line 3: 'x' is undefined");
  EXPECT_EQ(rendered("{{ raise_exception('Don\\'t\\nask') }}").error().message,
            "the chat template refuses the messages: Don't\\nask");
}

// What one template after the other of the published kind leans on.
TEST(ChatTemplate, asks_loop_conditions_no_earlier_than_needed) {
  EXPECT_EQ(*rendered("{% set n = namespace(go=true) %}{% for m in messages if n.go %}{{ loop.index }}"
                      "{% set n.go = false %}{% endfor %}"),
            "1");
  EXPECT_EQ(
      *rendered("{% for m in messages if m.role == 'user' %}{{ loop.last }}{{ loop.nextitem is defined }}{% endfor %}"),
      "TrueFalse");
}

TEST(ChatTemplate, renders_from_several_threads) {
  const auto made = ChatTemplate::create("{% for m in messages %}{{ m.role ~ ', ' }}{% endfor %}");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_EQ(*made->render({.messages = kTwoMessages}), "user, assistant, ");
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace sluice::test
