// Statements, white space and errors, with what the reference engine makes of them.
#include "text/jinja_fixtures.h"

namespace sluice::test {
namespace {

constexpr TemplateCase kStatements[] = {
    {"{% if []|select %}gen{% endif %}|{% if none|map('x') %}gen{% endif %}", "gen|gen"},
    {"{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ "
     "loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }};{% endfor %}",
     "1032TrueFalse32a;2121FalseFalse313b;3210FalseTrue32a;"},
    {"{% for i in [1,2,3,4] if i is odd %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ loop.last }} {% else %}none{% "
     "endfor %}|{% for i in [] %}x{% else %}empty{% endfor %}|{% for k,v in {'a':1,'b':2}.items() %}{{k}}={{v}},{% "
     "endfor %}|{% for c in 'añb' %}{{c}}.{% endfor %}|{% for a,(b,c) in [(1,(2,3))] %}{{a}}{{b}}{{c}}{% endfor %}",
     "1/2:1False 2/2:3True |empty|a=1,b=2,|a.ñ.b.|123"},
    {"{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% "
     "endfor %}",
     "0134"},
    {"{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "12131"},
    {"{% set ns = namespace(n=0, l=[]) %}{% for i in [1,2,3] %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% "
     "endfor %}{{ ns.n }}{{ ns.l }}{{ ns.zz is defined }}{{ ns['n'] }}",
     "6[1, 2, 3]False6"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t %}block {{ a }}{% endset %}[{{ t }}]{% set u | upper | trim %} abc "
     "{% endset %}[{{ u }}]",
     "12[block 1][ABC]"},
    {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1,3) }}|{{ m(1,c=5) }}|{{ m() }}|{{ "
     "m.name }}{{ m.arguments }}",
     "121|131|125|2|m('a', 'b', 'c')"},
    {"{% macro v(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1,2,3,z=4) }}", "1(2, 3){'z': 4}"},
    {"{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{% endcall %}|{% macro w2() %}{{ caller(1,2) }}{% "
     "endmacro %}{% call(a,b) w2() %}{{ a }}+{{ b }}{% endcall %}",
     "<in>|1+2"},
    {"{% macro fac(n) %}{{ n if n < 2 else n * fac(n-1)|int }}{% endmacro %}{{ fac(5) }}", "120"},
    {"{% macro late() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ late() }}", "L"},
    {"{% set q = 'outer' %}{% macro sc() %}{{ q }}{% set q = 'in' %}{{ q }}{% endmacro %}{{ sc() }}{{ q }}",
     "outerinouter"},
    {"{% for i in [[1,[2,3]],4] recursive %}{{ loop.depth }}{% if i is iterable %}[{{ loop(i) }}]{% else %}{{ i }}{% "
     "endif %}{% endfor %}",
     "1[212[3233]]14"},
    {"{% filter upper %}abc {{ 1 }}{% endfilter %}|{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|{% with %}{% "
     "set z = 3 %}{{ z }}{% endwith %}{{ z }}",
     "ABC 1|12|3"},
    {"{% raw %}{{ not }} {% x %}{% endraw %}|{%- raw -%}  a {%- endraw -%} b", "{{ not }} {% x %}|ab"},
    {"a {#- c -#} b {# d #} e", "ab  e"},
    {"{% if false %}{{ 1|foo }}{% endif %}ok", "ok"},
    {"{% for m in messages %}{{ loop.index0 ~ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
     "0user, 1assistant"},
    {"{%- set x = [1, 2, 3,] -%} {{- x -}} {%+ if true +%} y {%+ endif %} z", "[1, 2, 3] y  z"},
    {"{% generation %}g{{ 1 }}{% endgeneration %}!", "g1!"},
    {"{{ loop is defined }}{% for i in [1] %}{{ loop is defined }}{% endfor %}", "FalseTrue"},
};

constexpr TemplateCase kBlanks[] = {
    {"{% if true %}\n a\n  {% endif %}\n b\n", " a\n b"},
    {"  {% if true %}x{% endif %}  \n", "x  "},
    {"a\n  {%- if true -%}\n  b {% endif -%} \n c\n", "ab c"},
    {"  {{ 1 }}\n\n{{ 2 }}\n", "  1\n\n2"},
    {"{# c #}\nx\n  {# d #}\ny\n", "x\ny"},
    {"  {#- c #}\n  x", "  x"},
    {"a {%- raw %} \n{{ x }}\n {% endraw %}\n b", "a \n{{ x }}\n b"},
    {"\r\na\r\n{% if true %}\r\nb{% endif %}\rc\r\n", "\na\nbc"},
    {"\n\n{% set a = 1 %}\n\n", "\n\n"},
    {"  {%+ if true %} a {% endif %}\nb", "   a b"},
    {"{% if true +%}\nb{% endif %}", "\nb"},
    {"x{% if true %}\n\n\ny{% endif %}\n\nz\n\n", "x\n\ny\nz\n"},
    {"\t {% for i in [1,2] %}\n\t{{ i }}\n {% endfor %}\nq", "\t1\n\t2\nq"},
    {"{{- \"a\" -}}   \n  b  {{- \"c\" }} \n", "abc "},
    {"{{ \"a\" }}\n{%- if true %}\n  b\n{%- endif %}\n", "a  b"},
    {"a\n {% raw %}\n b {% endraw %}\nc", "a\n\n b c"},
    {"x {% if true %} {# z #}\n {% endif %}\ny", "x  y"},
    {"{%if true%}a{%endif%}{{1}}{{ {\"a\":{\"b\":1}} }}", "a1{'a': {'b': 1}}"},
};

constexpr const char* kErrors[] = {
    "{{ \"a\\",
    "{{ 'a' ~ 1 + 2 }}",
    "{{ 1 + 2 ~ 'x' }}",
    "{{ x.y }}",
    "{{ x() }}",
    "{{ x + 1 }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ [1] + (2,) }}",
    "{{ 1 < 'a' }}",
    "{{ none < 1 }}",
    "{{ 1/0 }}",
    "{{ 1 // 0 }}",
    "{{ 'abc'.split('') }}",
    "{{ [1,2].append(3) }}",
    "{{ {'a':1}.update({}) }}",
    "{{ {'a':1}.pop('a') }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ raise_exception('no') }}",
    "{{ 1 in 5 }}",
    "{{ [1,2]|foo }}",
    "{{ 1 is foo }}",
    "{% for i in 5 %}{% endfor %}",
    "{% for i in none %}{% endfor %}",
    "{{ 5|length }}",
    "{{ none|length }}",
    "{{ x|tojson }}",
    "{{ namespace()|tojson }}",
    "{{ ['a',1]|sort }}",
    "{{ {[1]:2} }}",
    "{{ range(10**9) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1,2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% set x.y = 1 %}",
    "{% set d = {} %}{% set d.y = 1 %}",
    "{{ 'abc' is startingwith 'a' }}",
    "{{ [1,2,3]|map('foo')|list }}",
    "{% set a, b = [1] %}",
    "{{ foo.bar.baz }}",
    "{{ none + 'a' }}",
    "{{ 'x' % 5 }}",
    "{{ '%d' % 'a' }}",
    "{{ '{}{}'.format(1) }}",
    "{{ {'a':1}.a.b.c }}",
    "{{ ([1]|map('string'))|length }}",
};

TEST(Jinja, statements_do_what_the_reference_does) { expect_all(kStatements); }

TEST(Jinja, blanks_go_where_the_reference_drops_them) { expect_all(kBlanks); }

TEST(Jinja, fails_where_the_reference_does) {
  for (const char* text : kErrors) {
    const auto got = rendered(text);
    EXPECT_FALSE(got.has_value()) << text << " gives " << *got;
  }
}

}  // namespace
}  // namespace sluice::test
