#include "settings/yaml/yaml.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "settings/section.h"

namespace kolo {

namespace {

// A few lines of aliases can stand for billions of values, and an alias can contain itself; a
// configuration stays far below both.
constexpr int most_values = 20000;
constexpr int deepest_level = 32;

// Notes that a value was merged over one mapping more.
void move_away(ConfigValue& value) {
  ++value.distance;
  for (ConfigValue& item : value.items) move_away(item);
  for (ConfigEntry& entry : value.entries) move_away(entry.value);
}

// Adds entries that a mapping lacks from another one, also within mappings that both have.
void inherit(ConfigValue& mapping, ConfigValue from) {
  for (ConfigEntry& entry : from.entries) {
    ConfigValue* const own = mapping.find(entry.key);
    if (own == nullptr)
      mapping.entries.push_back(std::move(entry));
    else if (own->kind == ConfigValue::Kind::mapping &&
             entry.value.kind == ConfigValue::Kind::mapping)
      inherit(*own, std::move(entry.value));
  }
}

class TreeBuilder {
 public:
  TreeBuilder(std::string source, bool has_lines)
      : source_(std::move(source)), has_lines_(has_lines) {}

  [[nodiscard]] std::string origin(const YAML::Mark& mark) const {
    return has_lines_ ? fmt::format("{}:{}", source_, mark.line + 1) : source_;
  }

  ConfigValue build(const YAML::Node& node, std::string origin_of_node) {
    if (++n_values_ > most_values || ++level_ > deepest_level) {
      throw InputError(fmt::format(
          "{}: more than {} values or {} levels of nesting; does an alias (*) contain itself?",
          origin_of_node, most_values, deepest_level));
    }
    ConfigValue value;
    value.origin = std::move(origin_of_node);
    check_tag(node, value.origin);
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        value.kind = ConfigValue::Kind::scalar;
        value.text = node.Scalar();
        value.is_quoted = is_text(node);
        break;
      case YAML::NodeType::Sequence:
        value.kind = ConfigValue::Kind::list;
        for (const auto& item : node) value.items.push_back(build(item, origin(item.Mark())));
        break;
      case YAML::NodeType::Map:
        value.kind = ConfigValue::Kind::mapping;
        add_entries(node, value);
        break;
      default:
        break;
    }
    --level_;
    return value;
  }

 private:
  static constexpr const char* text_tag = "tag:yaml.org,2002:str";

  // yaml-cpp gives quoted scalars the tag "!" and plain ones "?".
  static bool is_text(const YAML::Node& node) {
    return node.Tag() == "!" || node.Tag() == text_tag;
  }

  static void check_tag(const YAML::Node& node, const std::string& origin) {
    const std::string& tag = node.Tag();
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    throw InputError(
        fmt::format("{}: the tag {} has no meaning here; leave it out", origin, quote(tag)));
  }

  // A mapping's own keys win over merged ones.
  void add_entries(const YAML::Node& node, ConfigValue& mapping) {
    std::optional<YAML::Node> merged;
    std::string merge_origin;
    for (const auto& pair : node) {
      const std::string key_origin = origin(pair.first.Mark());
      if (!pair.first.IsScalar() || pair.first.Scalar().empty()) {
        throw InputError(fmt::format("{}: a key must be a word, not {}", key_origin,
                                     describe(build(pair.first, key_origin))));
      }
      const std::string& key = pair.first.Scalar();
      if (key == "<<" && !is_text(pair.first)) {
        if (merged) {
          refuse_twice(key, key_origin, merge_origin,
                       "; to merge several mappings write <<: [*a, *b]");
        }
        merged.emplace(pair.second);
        merge_origin = key_origin;
        continue;
      }
      if (const auto* first = mapping.find(key)) refuse_twice(key, key_origin, first->origin, "");
      mapping.entries.push_back({key, build(pair.second, key_origin)});
    }
    if (merged) merge(*merged, merge_origin, mapping);
  }

  // Merges one mapping or several, of which earlier ones win.
  void merge(const YAML::Node& merged, const std::string& origin_of_merge, ConfigValue& mapping) {
    ConfigValue source = build(merged, origin_of_merge);
    std::vector<ConfigValue> sources;
    if (source.kind == ConfigValue::Kind::list) {
      sources = std::move(source.items);
    } else {
      sources.push_back(std::move(source));
    }
    for (ConfigValue& one : sources) {
      if (one.kind != ConfigValue::Kind::mapping) {
        throw InputError(fmt::format(
            "{}: << merges a mapping or a list of mappings (<<: *base or <<: [*a, *b]), not {}",
            origin_of_merge, describe(one)));
      }
      move_away(one);
      inherit(mapping, std::move(one));
    }
  }

  [[noreturn]] static void refuse_twice(const std::string& key, const std::string& origin,
                                        const std::string& first_origin, const char* advice) {
    throw InputError(fmt::format("{}: key {} is given twice in one mapping (first at {}){}", origin,
                                 quote(key), first_origin, advice));
  }

  std::string source_;
  bool has_lines_;
  int n_values_ = 0;
  int level_ = 0;
};

// Notes where documents start, and skips their contents.
class DocumentStarts : public YAML::EventHandler {
 public:
  std::vector<YAML::Mark> marks;

  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Beginnings of the first document and of the second, if there is one. A text that begins with a
// comma has empty documents without end for yaml-cpp (YAML::LoadAll never returns), which begin at
// one position.
std::vector<YAML::Mark> first_document_starts(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  while (starts.marks.size() < 2 && parser.HandleNextDocument(starts)) {
  }
  if (starts.marks.size() > 1 && starts.marks[0].pos == starts.marks[1].pos) {
    throw YAML::ParserException(starts.marks[0], "unexpected character");
  }
  return starts.marks;
}

// Advice on tabs, the most frequent mistake, which yaml-cpp's reasons do not show.
const char* advice_on_tabs(const std::string& text, int line) {
  std::size_t begin = 0;
  for (; line > 0; --line) {
    const auto end = text.find('\n', begin);
    if (end == std::string::npos) return "";
    begin = end + 1;
  }
  const auto indent = text.find_first_not_of(' ', begin);
  return indent != std::string::npos && text[indent] == '\t'
             ? "; the line is indented with a tab, but YAML takes spaces only"
             : "";
}

}  // namespace

ConfigValue read_yaml_document(const std::string& text, const std::string& source) {
  try {
    const auto starts = first_document_starts(text);
    TreeBuilder builder(source, true);
    if (starts.size() > 1) {
      throw InputError(
          fmt::format("{}: expected one YAML document, got a second one (after ---); "
                      "several configurations in a file are mappings, each under its name",
                      builder.origin(starts[1])));
    }
    const YAML::Node document = YAML::Load(text);
    if (document.IsNull()) {
      throw InputError(fmt::format("{}: the file holds no configuration", source));
    }
    ConfigValue root = builder.build(document, builder.origin(document.Mark()));
    if (root.kind != ConfigValue::Kind::mapping) {
      throw InputError(fmt::format("{}: expected a mapping of keys to values, got {}", root.origin,
                                   describe(root)));
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}:{}: not valid YAML: {}{}", source, error.mark.line + 1,
                                 error.mark.column + 1, error.msg,
                                 advice_on_tabs(text, error.mark.line)));
  }
}

ConfigValue read_yaml_file(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_text_file(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("cannot read the configuration: {}", error.what()));
  }
  return read_yaml_document(text, file.string());
}

ConfigValue read_yaml_text(const std::string& text, const std::string& origin) {
  try {
    (void)first_document_starts(text);
    return TreeBuilder(origin, false).build(YAML::Load(text), origin);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}: {} is not valid YAML: {}", origin, quote(text), error.msg));
  }
}

namespace {

// Words in plain letters that no YAML reader takes for something else (1.1 has yes, no, on, off, y,
// n and sexagesimal numbers).
bool is_plain_word(const std::string& text) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static constexpr std::string_view reserved[] = {"y",   "n",    "yes",   "no",  "on",
                                                  "off", "true", "false", "null"};
  return !text.empty() && letters.find(text[0]) != std::string::npos &&
         text.find_first_not_of(letters + "0123456789_-/.") == std::string::npos &&
         std::ranges::find(reserved, lower_case(text)) == std::end(reserved);
}

void write(YAML::Emitter& emitter, const ConfigValue& value, bool is_in_list) {
  switch (value.kind) {
    case ConfigValue::Kind::nothing:
      emitter << YAML::LowerNull << YAML::Null;
      // In a list, which is one line, a comment would be the end of it.
      if (!is_in_list && !value.comment.empty()) emitter << YAML::Comment(value.comment);
      break;
    case ConfigValue::Kind::scalar:
      if (value.is_quoted && !is_plain_word(value.text)) emitter << YAML::DoubleQuoted;
      emitter << value.text;
      break;
    case ConfigValue::Kind::list:
      emitter << YAML::Flow << YAML::BeginSeq;
      for (const auto& item : value.items) write(emitter, item, true);
      emitter << YAML::EndSeq;
      break;
    case ConfigValue::Kind::mapping:
      emitter << YAML::BeginMap;
      for (const auto& entry : value.entries) {
        emitter << YAML::Key << entry.key << YAML::Value;
        write(emitter, entry.value, is_in_list);
      }
      emitter << YAML::EndMap;
      break;
  }
}

}  // namespace

std::string write_yaml(const ConfigValue& mapping) {
  YAML::Emitter emitter;
  write(emitter, mapping, false);
  return std::string(emitter.c_str()) + "\n";
}

void apply_override(ConfigValue& root, const std::string& text, std::string_view origin) {
  const auto equals = text.find('=');
  const std::string_view keys = std::string_view(text).substr(0, equals);
  const bool has_empty_key = keys.empty() || keys.front() == '.' || keys.back() == '.' ||
                             keys.find("..") != std::string_view::npos;
  if (equals == std::string::npos || has_empty_key) {
    throw InputError(fmt::format(
        "{}: expected key=value, for example training.batch_size=32, got {}", origin, quote(text)));
  }
  if (text.find_first_not_of(' ', equals + 1) == std::string::npos) {
    throw InputError(fmt::format(
        "{}: expected a value after {}=, got nothing; write {}=null for the default, or "
        "leave it out to keep what the file says",
        origin, keys, keys));
  }
  set_value(root, keys, read_yaml_text(text.substr(equals + 1), std::string(origin)));
}

void set_text(ConfigValue& root, const std::string& key, const std::string& text) {
  auto value = scalar_value(text, command_line);
  value.is_quoted = true;
  set_value(root, key, std::move(value));
}

}  // namespace kolo
