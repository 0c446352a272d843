#include "support/http_server.h"

#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace kolo::testing {

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string("test server: ") + what);
}

// Reads the head of a request, up to the empty line; empty when the client is gone.
std::string read_head(int connection) {
  constexpr std::size_t most = 1 << 16;
  std::string head;
  std::array<char, 4096> block{};
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < most) {
    const auto count = ::recv(connection, block.data(), block.size(), 0);
    if (count <= 0) return {};
    head.append(block.data(), static_cast<std::size_t>(count));
  }
  return head;
}

HttpRequest parse(const std::string& head) {
  HttpRequest request;
  const auto begin = head.find(' ') + 1;
  request.path = head.substr(begin, head.find(' ', begin) - begin);
  constexpr std::string_view range = "Range: bytes=";
  const auto found = head.find(range);
  if (found != std::string::npos) request.first = std::stoll(head.substr(found + range.size()));
  return request;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the client has left
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string head_of(int status, std::size_t length, const std::string& range) {
  return "HTTP/1.1 " + std::to_string(status) +
         " status\r\nContent-Length: " + std::to_string(length) + "\r\nConnection: close\r\n" +
         range + "\r\n";
}

}  // namespace

HttpServer::HttpServer()
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  require(listener_.is_open() && stop_.is_open(), "no socket");
  require(::bind(listener_.get(), any, size) == 0, "cannot bind");
  require(::listen(listener_.get(), 64) == 0, "cannot listen");
  require(::getsockname(listener_.get(), any, &size) == 0, "no port");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

HttpServer::~HttpServer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void HttpServer::serve(const std::string& path, HttpPage page) {
  const std::lock_guard lock(mutex_);
  pages_[path] = std::move(page);
}

std::string HttpServer::url() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

std::vector<HttpRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::run() {
  while (true) {
    std::array<pollfd, 2> events = {pollfd{listener_.get(), POLLIN, 0},
                                    pollfd{stop_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events[1].revents != 0) return;
    const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.is_open()) continue;
    // A client that stops reading or asking must not stop the server.
    const timeval limit{20, 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    answer(connection.get());
  }
}

HttpPage HttpServer::page_for(const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
  const auto found = pages_.find(request.path);
  if (found == pages_.end()) return {.status = 404};
  HttpPage page = found->second;
  if (found->second.cuts > 0) --found->second.cuts;
  return page;
}

void HttpServer::answer(int connection) {
  const auto head = read_head(connection);
  if (head.empty()) return;
  auto request = parse(head);
  const auto page = page_for(request);
  std::this_thread::sleep_for(std::chrono::milliseconds(page.pause_ms));
  if (page.status != 200) return send_all(connection, head_of(page.status, 0, ""));
  const auto size = page.content.size();
  const auto first = page.ranges ? static_cast<std::size_t>(request.first) : 0;
  if (first >= size && first > 0) return send_all(connection, head_of(416, 0, ""));
  auto content = std::string_view(page.content).substr(first);
  const auto range = "Content-Range: bytes " + std::to_string(first) + "-" +
                     std::to_string(size - 1) + "/" + std::to_string(size) + "\r\n";
  send_all(connection, head_of(first > 0 ? 206 : 200, content.size(), first > 0 ? range : ""));
  if (page.cuts > 0) content = content.substr(0, page.cut_bytes);
  send_all(connection, content);
}

}  // namespace kolo::testing
