#pragma once

#include <cmath>
#include <concepts>
#include <filesystem>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/enum_names.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/history.h"

// Records in JSON. A record's keys and members are listed once, by a generic lambda that
// JsonWriter and JsonReader go through:
//   constexpr auto point_fields = [](auto& field, auto& point) { field("ranks", point.ranks); };
namespace kolo {

template <typename Json = nlohmann::ordered_json, typename Record, typename Fields>
Json json_of(const Record& record, const Fields& fields);
template <typename Record, typename Json, typename Fields>
Record object_from(const Json& json, const Fields& fields);

template <typename Json>
class JsonWriter {
 public:
  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (NamedEnum<T>) {
      json[key] = name_of(value);
    } else {
      json[key] = value;
    }
  }
  // At least `least`, which the reader checks.
  template <typename T>
  void at_least(const char* key, const T& value, T /*least*/) {
    (*this)(key, value);
  }
  // Texts and lists that are left out where they are empty, numbers where they were not measured.
  template <typename T>
  void if_any(const char* key, const T& value) {
    if (!value.empty()) (*this)(key, value);
  }
  void if_measured(const char* key, double value) {
    if (std::isfinite(value)) json[key] = value;
  }
  // A number that may not have been measured, which is null.
  void measured(const char* key, double value) {
    json[key] = std::isfinite(value) ? Json(value) : Json(nullptr);
  }
  template <typename Record, typename Fields>
  void record(const char* key, const Record& record, const Fields& fields) {
    json[key] = json_of<Json>(record, fields);
  }
  template <typename Record, typename Fields>
  void list(const char* key, const std::vector<Record>& records, const Fields& fields) {
    auto& list = json[key] = Json::array();
    for (const auto& record : records) list.push_back(json_of<Json>(record, fields));
  }
  template <typename Record, typename Fields>
  void list_if_any(const char* key, const std::vector<Record>& records, const Fields& fields) {
    if (!records.empty()) list(key, records, fields);
  }

  Json json = Json::object();
};

template <typename Json>
double number_or_unmeasured(const Json& json, const char* name) {
  const auto value = json.find(name);
  if (value == json.end() || value->is_null()) return not_measured;
  return json_value<double>(json, name);
}

// JsonError for a key that is missing or holds something else.
template <typename Json>
class JsonReader {
 public:
  explicit JsonReader(const Json& json) : json_(json) {}

  template <typename T>
  void operator()(const char* key, T& value) const {
    if constexpr (NamedEnum<T>) {
      const auto name = json_value<std::string>(json_, key);
      const auto known = find_named<T>(name);
      if (!known) refuse_json(key, "one of " + join(known_names<T>()), quote(name));
      value = *known;
    } else if constexpr (std::ranges::range<T> && !std::same_as<T, std::string>) {
      const auto& list = json_list(json_, key);
      try {
        value = list.template get<T>();
      } catch (const nlohmann::json::exception&) {
        refuse_json(key, "a list of values of another kind", list.dump());
      }
    } else {
      value = json_value<T>(json_, key);
    }
  }
  template <typename T>
  void at_least(const char* key, T& value, T least) const {
    (*this)(key, value);
    if (!(value >= least))
      refuse_json(key, fmt::format("{} or more", least), fmt::format("{}", value));
  }
  template <typename T>
  void if_any(const char* key, T& value) const {
    if (json_.contains(key)) (*this)(key, value);
  }
  void if_measured(const char* key, double& value) const { measured(key, value); }
  void measured(const char* key, double& value) const { value = number_or_unmeasured(json_, key); }
  template <typename Record, typename Fields>
  void record(const char* key, Record& record, const Fields& fields) const {
    record = object_from<Record>(json_member(json_, key), fields);
  }
  template <typename Record, typename Fields>
  void list(const char* key, std::vector<Record>& records, const Fields& fields) const {
    for (const auto& each : json_list(json_, key))
      records.push_back(object_from<Record>(each, fields));
  }
  template <typename Record, typename Fields>
  void list_if_any(const char* key, std::vector<Record>& records, const Fields& fields) const {
    if (json_.contains(key)) list(key, records, fields);
  }

 private:
  const Json& json_;
};

template <typename Json, typename Record, typename Fields>
Json json_of(const Record& record, const Fields& fields) {
  JsonWriter<Json> writer;
  fields(writer, record);
  return std::move(writer.json);
}

template <typename Record, typename Json, typename Fields>
Record object_from(const Json& json, const Fields& fields) {
  Record record;
  JsonReader reader(json);
  fields(reader, record);
  return record;
}

// Error: "study: malformed: the key ...".
template <typename Record, typename Json, typename Fields>
Record document_from(std::string_view subject, const Json& json, const Fields& fields) {
  try {
    return object_from<Record>(json, fields);
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: malformed: {}", subject, in_plain_words(error)));
  } catch (const JsonError& error) {
    throw Error(fmt::format("{}: malformed: {}", subject, error.what()));
  }
}

// Document::read(): InputError that names the file and what to do with it. Those that can't be read
// name the line where there is one.
template <typename Document>
Document read_document(const std::filesystem::path& path, const char* advice) {
  const auto json = read_json_file(path, advice);
  try {
    return Document::from_json(json);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}; {}", path.string(), error.what(), advice));
  }
}

}  // namespace kolo
