#include "config/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skipjack {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Error(const std::string& text) {
  return ParseYaml(text, "f.yaml").status().message();
}

TEST(YamlTreeTest, KeepsStructureLinesAndQuotes) {
  const auto root = ParseYaml("a: 1\nb:\n  - x\n  - \"y\"\n  - {k: 'v'}\n  -\nc: |\n  block\nd: 1", "f.yaml");
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  ASSERT_EQ(root->entries.size(), 4u);
  EXPECT_EQ(root->Find("a")->value.text, "1");
  EXPECT_FALSE(root->Find("a")->value.quoted);
  const YamlNode& list = root->Find("b")->value;
  EXPECT_EQ(root->Find("b")->line, 2);
  ASSERT_EQ(list.items.size(), 4u);
  EXPECT_EQ(list.items[0].line, 3);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[2].Find("k")->value.text, "v");
  EXPECT_EQ(list.items[3].kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root->Find("c")->value.text, "block\n");
  EXPECT_TRUE(root->Find("c")->value.quoted);
  EXPECT_EQ(root->Find("e"), nullptr);
}

TEST(YamlTreeTest, EmptyFilesAreNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "~"}) {
    const auto root = ParseYaml(text, "f.yaml");
    ASSERT_TRUE(root.ok()) << root.status().ToString();
    EXPECT_EQ(root->kind, YamlNode::Kind::kNull) << text;
  }
}

TEST(YamlTreeTest, DuplicateKeysAreNamedWithBothLines) {
  EXPECT_THAT(Error("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n"),
              AllOf(HasSubstr("f.yaml: b.c (line 5)"), HasSubstr("first in line 3")));
  EXPECT_THAT(Error("l:\n  - {x: 1}\n  - {x: 1, 'x': 2}\n"), HasSubstr("l[1].x (line 3)"));
  EXPECT_TRUE(ParseYaml("a: {x: 1}\nb: {x: 1}\n", "f").ok());
}

TEST(YamlTreeTest, CleverYamlIsRefused) {
  EXPECT_THAT(Error("a: &x 1\n"), AllOf(HasSubstr("line 1"), HasSubstr("anchors")));
  EXPECT_THAT(Error("a: &x {b: 1}\n"), HasSubstr("anchors"));
  EXPECT_THAT(Error("a: &x [1]\n"), HasSubstr("anchors"));
  EXPECT_THAT(Error("a: &x\n"), HasSubstr("anchors"));
  EXPECT_FALSE(ParseYaml("a: *x\n", "f").ok());
  EXPECT_THAT(Error("b:\n  <<: {c: 1}\n"), AllOf(HasSubstr("line 2"), HasSubstr("merge keys")));
  EXPECT_THAT(Error("a: !!str 1\n"), HasSubstr("tags"));
  EXPECT_THAT(Error("a: !secret x\n"), HasSubstr("tags"));
  EXPECT_THAT(Error("a: !x {b: 1}\n"), HasSubstr("tags"));
  EXPECT_THAT(Error("? [a, b]\n: 1\n"), HasSubstr("key must be a text"));
  EXPECT_THAT(Error("? {a: b}\n: 1\n"), HasSubstr("key must be a text"));
  EXPECT_THAT(Error("? \n: 1\n"), HasSubstr("key must be a text"));
  EXPECT_THAT(Error("a: 1\n---\nb: 2\n"), AllOf(HasSubstr("second document")));
}

TEST(YamlTreeTest, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(Error("a: 1\nb: [1, 2\nc: 3\n"),
              AllOf(HasSubstr("f.yaml: "), HasSubstr("line "), HasSubstr("not valid YAML")));
  EXPECT_THAT(Error("a: 1\n\tb: 2\n"), AllOf(HasSubstr("line 2"), HasSubstr("not valid YAML")));
  for (const char* open : {"a: 'x", "a: \"x\n", "a: \"x\nb: 2\n", "a: 'x\n# end\n\n", "a: [\"x]\n"}) {
    EXPECT_THAT(Error(open), HasSubstr("not valid YAML")) << open;
  }
}

TEST(YamlTreeTest, SizeDepthAndCountAreBounded) {
  EXPECT_THAT(Error(std::string(kMaxYamlBytes + 1, ' ')), HasSubstr("over the limit of 1048576"));
  std::string nested;
  for (std::size_t i = 0; i < kMaxYamlDepth; ++i) nested += "[";
  std::string closed = nested + std::string(kMaxYamlDepth, ']');
  EXPECT_TRUE(ParseYaml(closed, "f").ok());
  EXPECT_THAT(Error("[" + closed + "]"), HasSubstr("nested more than 16"));
  EXPECT_THAT(Error(std::string(100000, '[')), HasSubstr("line 1"));
  EXPECT_THAT(Error(std::string(100000, '{')), HasSubstr("line 1"));
  std::string dashes;
  for (int i = 0; i < 10000; ++i) dashes += "- ";
  EXPECT_THAT(Error(dashes), HasSubstr("nested more than 16"));
  std::string many = "a: [";
  for (std::size_t i = 0; i < kMaxYamlNodes + 1; ++i) many += "1,";
  EXPECT_THAT(Error(many + "]"), HasSubstr("more than 20000 values"));
}

TEST(YamlTreeTest, MessagesAreFitForATerminal) {
  const std::string error = Error("\"a\\e[31m\\n\": 1\n\"a\\e[31m\\n\": 2\n");
  EXPECT_THAT(error, HasSubstr("stands twice"));
  for (const char c : error) EXPECT_GE(c, 0x20);
}

}  // namespace
}  // namespace skipjack
