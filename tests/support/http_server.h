#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kolo/base/file.h"

namespace kolo::testing {

// Answer of the server for a path.
struct HttpPage {
  std::string content;
  bool ranges = true;  // whether it understands "Range: bytes=N-"
  int status = 200;    // anything else is sent without the content
  int cuts = 0;        // answers that break off after cut_bytes of their content
  std::size_t cut_bytes = 0;
  int pause_ms = 0;  // before an answer, for others to come at the same time
};

struct HttpRequest {
  std::string path;
  std::int64_t first = 0;  // of the range asked for
};

// HTTP/1.1 server on its own port of the loopback interface, one request at a time; a path without
// an answer is 404.
class HttpServer {
 public:
  HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  void serve(const std::string& path, HttpPage page);
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::vector<HttpRequest> requests() const;

 private:
  void run();
  void answer(int connection);
  [[nodiscard]] HttpPage page_for(const HttpRequest& request);

  FileDescriptor listener_, stop_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, HttpPage> pages_;
  std::vector<HttpRequest> requests_;
  std::thread thread_;
};

}  // namespace kolo::testing
