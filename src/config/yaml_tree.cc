#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <optional>
#include <sstream>
#include <utility>

#include "config/message_text.h"

namespace skipjack {
namespace {

// Leaves yaml-cpp's parser from inside its callbacks; caught in ParseYaml.
struct Refusal : std::exception {
  Refusal(int at, std::string what) : line(at), message(std::move(what)) {}
  int line;
  std::string message;
};

// Turns the parser's events into a tree.
class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      throw Refusal(Line(mark), "a second document begins here; a configuration is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Begin(mark, "", anchor);
    YamlNode node;
    node.line = Line(mark);
    Attach(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refusal(Line(mark), "aliases (*name) are not supported");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Begin(mark, tag, anchor);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.line = Line(mark);
    node.text = value;
    node.quoted = tag == "!";
    Attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMapping);
  }
  void OnMapEnd() override { Close(); }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    throw Refusal(Line(mark), "anchors (&name) are not supported");
  }

  YamlNode TakeRoot() { return std::move(root_); }

  // Where in the document the parser is: "server.http".
  std::string Path() const {
    std::string path;
    for (const Frame& frame : open_) {
      if (frame.node.kind == YamlNode::Kind::kSequence) {
        path += "[" + std::to_string(frame.node.items.size()) + "]";
      } else if (frame.key) {
        if (!path.empty()) path += ".";
        path += Cleaned(frame.key->key);
      }
    }
    return path;
  }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlEntry> key;  // of a mapping: the key whose value comes next
  };

  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  bool ExpectsKey() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMapping && !open_.back().key;
  }

  // Plain scalars and untagged collections have the tag "?" or none, quoted scalars "!".
  void Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refusal(Line(mark), "anchors (&name) are not supported");
    if (tag.size() > 1) throw Refusal(Line(mark), "tags (!name) are not supported");
    if (++nodes_ > kMaxYamlNodes) {
      throw Refusal(Line(mark), "more than " + std::to_string(kMaxYamlNodes) + " values");
    }
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    Begin(mark, tag, anchor);
    if (ExpectsKey()) throw Refusal(Line(mark), "a key must be a text");
    if (open_.size() >= kMaxYamlDepth) {
      throw Refusal(Line(mark), "nested more than " + std::to_string(kMaxYamlDepth) + " levels deep");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = Line(mark);
    open_.push_back(std::move(frame));
  }

  void Close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Attach(std::move(node));
  }

  void Attach(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.key) {
      parent.key->value = std::move(node);
      parent.node.entries.push_back(*std::move(parent.key));
      parent.key.reset();
    } else {
      AttachKey(&parent, node);
    }
  }

  void AttachKey(Frame* parent, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar) throw Refusal(node.line, "a key must be a text");
    if (node.text == "<<" && !node.quoted) throw Refusal(node.line, "merge keys (<<) are not supported");
    const YamlEntry* before = parent->node.Find(node.text);
    parent->key = YamlEntry{node.text, node.line, {}};
    if (before != nullptr) {
      throw Refusal(node.line, "the key stands twice, first in line " + std::to_string(before->line));
    }
  }

  std::vector<Frame> open_;
  YamlNode root_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

Status Located(const std::string& origin, const std::string& path, int line, const std::string& message) {
  const std::string where =
      path.empty() ? "line " + std::to_string(line) : path + " (line " + std::to_string(line) + ")";
  return Status::InvalidArgument(origin + ": " + where + ": " + message);
}

}  // namespace

const YamlEntry* YamlNode::Find(std::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Result<YamlNode> ParseYaml(const std::string& text, const std::string& origin) {
  if (text.size() > kMaxYamlBytes) {
    return Status::InvalidArgument(origin + ": " + std::to_string(text.size()) +
                                   " bytes, over the limit of " + std::to_string(kMaxYamlBytes));
  }
  TreeBuilder builder;
  try {
    // yaml-cpp notices a quote that is never closed only when the input does not end with a line break.
    std::istringstream stream(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    return Located(origin, builder.Path(), refusal.line, refusal.message);
  } catch (const YAML::Exception& error) {
    return Located(origin, builder.Path(), error.mark.line + 1, "not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    return Status::InvalidArgument(origin + ": not valid YAML: " + error.what());
  }
  return builder.TakeRoot();
}

}  // namespace skipjack
