#pragma once

#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

namespace kolo {

// Serves one report over HTTP to this machine alone: the page at /, its data at /data.json. Other
// names for this machine than its own (a page elsewhere that has its name point here) get nothing.
// Up to 512 connections are served at a time; one that says nothing for 5 s is closed.
class ReportServer {
 public:
  // `data` is asked for every answer, by one thread at a time; what it throws is answered with
  // status 500. Port 0: any that is free. InputError: the port is taken.
  ReportServer(int port, std::function<nlohmann::ordered_json()> data);
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;
  // Answers what was asked already, then ends.
  ~ReportServer();

  [[nodiscard]] int port() const;
  // False once it can't serve any more.
  [[nodiscard]] bool is_running() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace kolo
