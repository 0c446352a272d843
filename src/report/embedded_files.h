#pragma once

#include <string_view>

namespace kolo {

// The parts of a page, from page/ and Debian's Chart.js (its licence stands at its beginning).
extern const std::string_view report_html;
extern const std::string_view report_css;
extern const std::string_view report_js;
extern const std::string_view charts_js;
extern const std::string_view chart_min_js;

}  // namespace kolo
