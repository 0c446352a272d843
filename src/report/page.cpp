#include <utility>

#include "kolo/base/error.h"
#include "kolo/report/report.h"
#include "report/embedded_files.h"

namespace kolo {

namespace {

std::string escaped_html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

// JSON that can stand in a script element: nothing in it ends the element or begins a comment.
std::string escaped_json(const nlohmann::ordered_json& data) {
  // What is no UTF-8, as names of files can be, is replaced.
  const auto text = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<')
      escaped += "\\u003c";
    else
      escaped += letter;
  }
  return escaped;
}

// Puts in what stands for {{name}}, in one pass: what is put in is not looked at again.
std::string filled_in(std::string_view page,
                      std::span<const std::pair<std::string_view, std::string_view>> parts) {
  std::string whole;
  while (true) {
    const auto begin = page.find("{{");
    whole += page.substr(0, begin);
    if (begin == std::string_view::npos) return whole;
    const auto end = page.find("}}", begin);
    const auto name = page.substr(begin + 2, end - begin - 2);
    for (const auto& [known, text] : parts) {
      if (known == name) whole += text;
    }
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& data, bool live) {
  const auto title = escaped_html(data.at("title").get<std::string>());
  const auto json = escaped_json(data);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"title", title},
      {"live", live ? "true" : "false"},
      {"connections", live ? "'self'" : "'none'"},
      {"style", report_css},
      {"data", json},
      {"chart_library", chart_min_js},
      {"charts", charts_js},
      {"script", report_js}};
  return filled_in(report_html, parts);
}

}  // namespace kolo
