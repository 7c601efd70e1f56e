// Templates that come with a model file and mean harm: whatever they do, a rendering ends with little work
// and little memory. Work is counted in steps and allocations, memory by an allocator that knows nothing of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/join_segments.h"
#include "tests/unit/text/memory_meter.h"
#include "text/chat_template.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace skipjack {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using testing::JoinSegments;

constexpr TemplateLimits kSmall{.steps = 20'000, .output_bytes = 256u << 10, .memory_bytes = 2u << 20};

std::string Repeated(const std::string& what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

// Two lists of 2^40 items each, in 40 levels that share their halves.
std::string WithSharedLists(const std::string& rest) {
  return "{% set ns = namespace(a=['x'], b=['x']) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}"
         "{% set ns.b = [ns.b, ns.b] %}{% endfor %}" +
         rest;
}

Result<std::vector<Segment>> Render(const std::string& source, const TemplateLimits& limits,
                                    const ordered_json& variables = ordered_json::object()) {
  const auto parsed = ChatTemplate::Parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  return (*parsed)->Render(variables, {});
}

void ExpectExhausted(const std::string& source, const TemplateLimits& limits) {
  const auto parsed = ChatTemplate::Parse(source, limits);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << "\n" << source;
  StartMeasuringMemory();
  const auto segments = (*parsed)->Render(ordered_json::object(), {});
  const MeasuredMemory used = StopMeasuringMemory();
  ASSERT_FALSE(segments.ok()) << source.substr(0, 200);
  EXPECT_EQ(segments.status().code(), StatusCode::kResourceExhausted) << source.substr(0, 200) << "\n"
                                                                      << segments.status().ToString();
  EXPECT_LE(used.peak, 3 * limits.memory_bytes) << source.substr(0, 200);
  EXPECT_LE(used.allocations, 10 * static_cast<std::size_t>(limits.steps)) << source.substr(0, 200);
}

TEST(TemplateLimits, TextsThatGrow) {
  for (const char* expression : {
           "('a' * 200000) | replace('a', 'b' * 200000)",
           "('a' * 200000).replace('a', 'b' * 200000)",
           "('a' * 200000) | replace('', 'b' * 200000)",
           "(['a'] * 1000) | join('b' * 100000)",
           "('b' * 100000).join(['a'] * 1000)",
           "('\\n' * 5000) | indent('m' * 100000, true, true)",
           "(['x' * 1000] * 1000) | sum(start='')",
           "([['x'] * 100] * 200) | sum(start=[])",
           "'x' * 9223372036854775807",
           "'' * 9223372036854775807 ~ 'x' * 262145",
           "[0] * 9223372036854775807",
           "[[0] * 30000, [0] * 30000]",
           "[1] | batch(9223372036854775807, 0)",
           "range(99999) | batch(1, 0) | list",
           "('a,' * 100000).split(',')",
           "('a,' * 100000).rsplit(',')",
           "('a ' * 100000).split()",
           "('a\\n' * 100000).splitlines()",
           "('a' * 200000) | list",
           "('a' * 200000) | wordcount ~ ('a ' * 100000) | wordcount",
           "('a' * 200000)[::-1][::-1][::-1][::-1][::-1][::-1][::-1][::-1][::-1][::-1]",
           "(('a' ~ 1) * 100000)",  // a segment for each byte
           "([{'k': 'a' * 1000}] * 2000) | map(attribute='k') | join",
           "(['a' * 1000] * 2000) | map('upper') | list",
           "(['ab'] * 20000) | map('list') | list",
           "([1] * 9000) | unique | list ~ (range(9000) | unique | list)",
           "{'a': 'x' * 100000} | tojson ~ ({'a': 'x' * 100000} | tojson) ~ ({'a': 'x' * 100000} | tojson)",
           "('\"' * 200000) | tojson",
           "(['\\n'] * 20000) | tojson(indent=32)",
           "('\\x01' * 200000) ~ [('\\x01' * 200000)]",
       }) {
    const std::string source = std::string("{{ ") + expression + " }}";
    ExpectExhausted(source, kSmall);
  }
}

TEST(TemplateLimits, ListsThatShareTheirParts) {
  for (const char* rest : {
           "{{ ns.a }}",
           "{{ ns.a | string }}",
           "{{ ns.a ~ '' }}",
           "{{ [ns.a] | join }}",
           "{{ '%s' | format(ns.a) }}",
           "{{ '%r' | format(ns.a) }}",
           "{{ ns.a | tojson }}",
           "{{ ns.a | tojson(indent=2) }}",
           "{{ {'k': ns.a} | tojson(sort_keys=true) }}",
           "{{ ns.a == ns.b }}",
           "{{ ns.a != ns.b }}",
           "{{ ns.a < ns.b }}",
           "{{ ns.a in [ns.b] }}",
           "{{ ns.a is eq(ns.b) }}",
           "{{ ns.a is ge(ns.b) }}",
           "{{ ns.a is in([ns.b]) }}",
           "{{ [ns.a].index(ns.b) }}",
           "{{ [ns.a].count(ns.b) }}",
           "{{ {'k': ns.a} == {'k': ns.b} }}",
           "{{ {ns.a: 1, ns.b: 2} }}",
           "{{ {ns.a: 1}.get(ns.b) }}",
           "{{ {ns.a: 1}[ns.b] }}",
           "{{ ns.b in {ns.a: 1} }}",
           "{{ [ns.a, ns.b] | sort }}",
           "{{ [ns.a, ns.b] | unique | list }}",
           "{{ [ns.a, ns.b] | max }}",
           "{{ [ns.a, ns.b] | min }}",
           "{{ {1: ns.a, 2: ns.b} | dictsort(by='value') }}",
           "{{ [{'k': ns.a}, {'k': ns.b}] | groupby('k') }}",
           "{{ [{'k': ns.a}] | selectattr('k', 'eq', ns.b) | list }}",
           "{{ raise_exception(ns.a) }}",
           "{{ ns.a | replace('x', 'y') }}",
           "{{ ns.a | upper }}",
           "{{ ns.a | indent }}",
           "{{ ns.a | wordcount }}",
           "{% set x %}{{ ns.a }}{% endset %}",
           "{% filter upper %}{{ ns.a }}{% endfilter %}",
       }) {
    ExpectExhausted(WithSharedLists(rest), kSmall);
  }
}

TEST(TemplateLimits, WorkThatIsMoreThanTheTextIsLong) {
  for (const char* source : {
           "{{ ('a' * 100000).strip('b' * 100000 ~ 'a') }}",
           "{{ ('a' * 100000) | trim('b' * 100000 ~ 'a') }}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% if t == 'a' * 1 %}{% endif %}{% set x = t "
           "| length %}"
           "{% endfor %}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% set x = t[-1] %}{% endfor %}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% set x = t.startswith(t) %}{% endfor %}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% set x = 'b' in t %}{% endfor %}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% set x = t.count('b') %}{% endfor %}",
           "{% set t = 'a' * 200000 %}{% for i in range(9000) %}{% set x = t.isalpha() %}{% endfor %}",
           "{% set t = '1' * 200000 %}{% for i in range(9000) %}{% set x = t | float %}{% endfor %}",
           "{% set t = 'a' * 200000 %}{% set d = {t: 1} %}{% for i in range(9000) %}{% set x = d[t] %}{% "
           "endfor %}",
           "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
           "{% for i in range(99999) %}{% set x = range(9999) %}{% endfor %}",
           "{% set l = range(9999) %}{% for i in l %}{% set x = l[:] %}{% endfor %}",
           "{% set l = range(9999) %}{% for i in l %}{% set x = l | first %}{% endfor %}",
           "{% set l = range(9999) %}{% for i in l %}{% set x = i in l %}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [i] %}{% endfor %}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f() %}{{ caller() }}{% endmacro %}{% for i in range(9999) %}{% call f() %}{% endcall "
           "%}{% endfor %}",
           "{% for i in range(9999) %}{% set n = namespace(x=i) %}{% endfor %}"
           "{% for i in range(9999) %}{% set n = namespace(x=i) %}{% endfor %}",
       }) {
    ExpectExhausted(source, kSmall);
  }
}

// With the limits that models are served with.
TEST(TemplateLimits, DefaultsHoldToo) {
  for (const std::string& source :
       {std::string("{{ ('a' * 4000000) | replace('a', 'b' * 4000000) }}"), WithSharedLists("{{ ns.a }}"),
        WithSharedLists("{{ ns.a | tojson }}"), WithSharedLists("{{ ns.a == ns.b }}"),
        std::string("{{ ('a,' * 4000000).split(',') }}"),
        std::string("{{ ('b' * 4000000).join(['a'] * 9) }}")}) {
    ExpectExhausted(source, {});
  }
}

TEST(TemplateLimits, SearchingIsLinear) {
  const auto render = [](const std::string& expression) {
    const auto segments = Render(
        "{% set t = 'a' * 4000000 %}{% set n = 'a' * 2000000 ~ 'b' %}{% set m = 'b' ~ "
        "'a' * 2000000 %}{{ " +
            expression + " }}",
        {});
    return segments.ok() ? JoinSegments(*segments) : segments.status().ToString();
  };
  EXPECT_EQ(render("t.find(n)"), "-1");
  EXPECT_EQ(render("t.find(m)"), "-1");
  EXPECT_EQ(render("n in t"), "False");
  EXPECT_EQ(render("t.count(n) + t.count(m)"), "0");
  EXPECT_EQ(render("t.split(n) | length"), "1");
  EXPECT_EQ(render("t.rsplit(n) | length"), "1");
  EXPECT_EQ(render("t.rsplit(m) | length"), "1");
  EXPECT_EQ(render("t.replace(n, 'c') | length"), "4000000");
}

TEST(TemplateLimits, SplittingFromTheRightTakesTheLastSeparators) {
  for (const auto& [expression, expected] : std::vector<std::pair<std::string, std::string>>{
           {"'aaaa'.rsplit('aa', 1)", "['aa', '']"},
           {"'aaa'.rsplit('aa')", "['a', '']"},
           {"'aaa'.split('aa')", "['', 'a']"},
           {"'a--b---c'.rsplit('--', 1)", "['a--b-', 'c']"},
           {"'a--b---c'.rsplit('--')", "['a', 'b-', 'c']"},
           {"''.rsplit('x')", "['']"},
           {"'x'.rsplit('x')", "['', '']"},
           {"'x'.rsplit('xx')", "['x']"},
           {"'a,b,c'.rsplit(',', 0)", "['a,b,c']"},
       }) {
    const auto segments = Render("{{ " + expression + " }}", {});
    ASSERT_TRUE(segments.ok());
    EXPECT_EQ(JoinSegments(*segments), expected) << expression;
  }
}

struct Used {
  std::uint64_t steps = 0;
  std::uint64_t memory = 0;
};

Used Measure(const std::string& source) {
  const jinja::Block block = jinja::ParseTemplate(source, 100);
  jinja::Interpreter interpreter({}, {});
  interpreter.Render(block);
  return {interpreter.meter().steps_used(), interpreter.meter().memory_used()};
}

// Where a rendering does end, it has been charged at least for what it looked at and for what it made.
TEST(TemplateLimits, ChargesForWhatIsDone) {
  const auto shared = [](const std::string& rest) {
    return "{% set ns = namespace(a=['x'], b=['x']) %}{% for i in range(10) %}{% set ns.a = [ns.a, ns.a] %}"
           "{% set ns.b = [ns.b, ns.b] %}{% endfor %}" +
           rest;
  };
  const std::uint64_t nothing = Measure(shared("")).steps;
  for (const char* rest : {"{{ ns.a }}", "{{ ns.a | tojson }}", "{{ ns.a == ns.b }}", "{{ ns.a < ns.b }}",
                           "{{ [ns.a, ns.b] | sort | length }}", "{{ [ns.a, ns.b] | unique | length }}"}) {
    EXPECT_GE(Measure(shared(rest)).steps - nothing, 1u << 11) << rest;
  }
  const auto more = [](const std::string& expression, const std::string& base) {
    return Measure("{{ " + expression + " }}").steps - Measure("{{ " + base + " }}").steps;
  };
  EXPECT_GE(more("range(300) | unique | list | length", "range(300) | length"), 300u * 299 / 2);
  EXPECT_GE(more("range(256) | list | sort | length", "range(256) | length"), 512u);
  EXPECT_GE(more("('a' * 64000) | length", "'a' * 64000"), 900u);
  EXPECT_GE(Measure("{{ 'x' * 100000 }}").memory, 200000u);  // made, and written
  EXPECT_GE(Measure("{% set l = [1] * 1000 %}{% set m = l + l %}").memory, 3000u * sizeof(jinja::Value));
  EXPECT_GE(Measure("{% set t = 'ab' * 1000 %}{% set l = t | list %}").memory, 2000u * sizeof(jinja::Text));
}

// Honest templates are far from all limits, also with a long chat.
TEST(TemplateLimits, ALongChatFits) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "user" : "assistant"}, {"content", std::string(1000, 'x')}});
  const auto segments = Render(
      "{%- macro head(role) -%}<|im_start|>{{ role }}\n{%- endmacro -%}"
      "{% for message in messages %}{% set content = message.content | trim %}"
      "{{ head(message['role']) ~ content }}{% if not loop.last and loop.nextitem.role == 'user' %}{{ "
      "'<|im_end|>\n' }}"
      "{% endif %}{% endfor %}",
      {}, {{"messages", messages}});
  ASSERT_TRUE(segments.ok()) << segments.status().ToString();
  EXPECT_GT(JoinSegments(*segments).size(), 2'000'000u);
}

TEST(TemplateLimits, ManyVariablesAreLookedUpQuickly) {
  ordered_json variables = ordered_json::object();
  std::string json = "{";
  for (int i = 0; i < 5000; ++i) json += (i ? ",\"v" : "\"v") + std::to_string(i) + "\":" + std::to_string(i);
  variables = ordered_json::parse(json + "}");
  const auto segments = Render("{{ v0 + v4999 }}", {}, variables);
  ASSERT_TRUE(segments.ok()) << segments.status().ToString();
  EXPECT_EQ(JoinSegments(*segments), "4999");
  const auto huge = Render("x", {}, {{"l", std::vector<int>(2'000'000, 1)}});
  EXPECT_EQ(huge.status().code(), StatusCode::kResourceExhausted);
}

// Nothing may recurse as deep as a template likes: not the interpreter, and not the freeing of values.
TEST(TemplateLimits, DepthIsBounded) {
  const auto status = [](const std::string& source) { return Render(source, {}).status(); };
  EXPECT_THAT(
      status("{% set ns = namespace(a=1) %}{% for i in range(300) %}{% set ns.a = [ns.a] %}{% endfor %}")
          .message(),
      HasSubstr("200 levels"));
  EXPECT_THAT(
      status("{% set ns = namespace(a=1) %}{% for i in range(300) %}{% set ns.a = {'k': ns.a} %}{% endfor %}")
          .message(),
      HasSubstr("200 levels"));
  EXPECT_THAT(
      status(
          "{% set ns = namespace(a=[]) %}{% for i in range(300) %}{% set ns.a = [ns.a.index] %}{% endfor %}")
          .message(),
      HasSubstr("200 levels"));
  EXPECT_THAT(
      status("{% set ns = namespace(l=1) %}{% for i in range(300) %}{% for x in [ns.l, ns.l] %}{% set ns.l = "
             "loop %}{% endfor %}{% endfor %}")
          .message(),
      HasSubstr("nested"));
  EXPECT_EQ(status("{{ 'x' | map('map', " + Repeated("'map', ", 5000) + "'upper') | list }}").code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(status("{% macro f() %}{{ " + Repeated("[", 20) + "f()" + Repeated("]", 20) +
                   " }}{% endmacro %}{{ f() }}")
                .code(),
            StatusCode::kResourceExhausted);
}

// Namespaces may be chained and hold themselves, call blocks may hold earlier ones: all of it is freed
// without recursion (and without a leak, which a sanitizer sees).
TEST(TemplateLimits, RingsAndChainsAreFreed) {
  EXPECT_TRUE(
      Render("{% set a = namespace() %}{% set a.self = a %}{% set b = namespace(a=[a]) %}{% set a.b = b %}",
             {})
          .ok());
  EXPECT_TRUE(
      Render("{% set ns = namespace(n=0) %}{% for i in range(50000) %}{% set ns.n = namespace(next=ns.n) %}"
             "{% endfor %}",
             {})
          .ok());
  EXPECT_TRUE(
      Render("{% set ns = namespace(c=0) %}{% macro keep() %}{% set ns.c = caller %}{% endmacro %}"
             "{% for i in range(20000) %}{% set before = ns.c %}{% call keep() %}{{ before }}{% endcall %}"
             "{% endfor %}",
             {})
          .ok());
}

TEST(TemplateLimits, ManyArgumentsAreSearchedAtACharge) {
  std::string parameters;
  std::string arguments;
  for (int i = 0; i < 3000; ++i) {
    const std::string name = (i ? ", a" : "a") + std::to_string(i);
    parameters += name;
    arguments = name.substr(i ? 2 : 0) + "=1" + (i ? ", " : "") + arguments;
  }
  ExpectExhausted("{% macro f(" + parameters + ") %}{% endmacro %}{{ f(" + arguments + ") }}", {});
}

TEST(TemplateLimits, AnErrorInsideACallBlockUnwinds) {
  const auto segments = Render(
      "{% macro f() %}{% for a in [1] %}{% for b in [1] %}{% for c in [1] %}{{ caller() }}{% endfor %}{% "
      "endfor %}"
      "{% endfor %}{% endmacro %}{% call f() %}{{ raise_exception('stop') }}{% endcall %}",
      {});
  EXPECT_EQ(segments.status().message(), "stop");
}

TEST(TemplateLimits, MessagesAreShort) {
  EXPECT_LT(Render("{{ raise_exception('é' * 1000000) }}", {}).status().message().size(), 4200u);
  EXPECT_LT(Render("{{ {}['x' * 1000000].y }}", {}).status().message().size(), 200u);
  EXPECT_LT(Render("{{ [1] | map('x' * 100000) | list }}", {}).status().message().size(), 200u);
  EXPECT_LT(Render("{{ [1] | select('x' * 100000) | list }}", {}).status().message().size(), 200u);
  EXPECT_THAT(ChatTemplate::Parse("{{ " + std::string(300, 'x') + " }}").status().message(),
              HasSubstr("256 bytes"));
}

TEST(TemplateLimits, TheLoopObjectIsNoNamespace) {
  EXPECT_THAT(Render("{% for x in [1] %}{% set loop.x = loop %}{% endfor %}", {}).status().message(),
              HasSubstr("no namespace"));
}

}  // namespace
}  // namespace skipjack
