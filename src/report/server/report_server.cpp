#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>

#include "kolo/base/error.h"
#include "kolo/report/report.h"

namespace kolo {

namespace {

// A thread for each connection, as long as there are few enough; the library's own choice has eight
// for all, which eight clients that say nothing keep busy. A connection that comes when all threads
// have one waits for the first that is done.
class ServingThreads final : public httplib::TaskQueue {
 public:
  explicit ServingThreads(std::size_t most) : most_(most) {}
  ServingThreads(const ServingThreads&) = delete;
  ServingThreads& operator=(const ServingThreads&) = delete;
  ~ServingThreads() override { end(); }

  // Some versions of the library want to know whether it was accepted.
  using Accepted = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));
  Accepted enqueue(std::function<void()> serve) override {
    {
      const std::scoped_lock lock(mutex_);
      waiting_.push_back(std::move(serve));
      if (idle_ < waiting_.size() && threads_.size() < most_) {
        try {
          threads_.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
          if (threads_.empty()) throw;  // otherwise those that there are do it
        }
      }
    }
    has_changed_.notify_one();
    return static_cast<Accepted>(true);
  }

  // Serves first what has come.
  void shutdown() override { end(); }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      has_changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      const auto serve = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      serve();
      lock.lock();
    }
  }

  void end() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    has_changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable has_changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

constexpr const char* address = "127.0.0.1";
constexpr std::size_t most_connections = 512;
constexpr std::time_t patience = 5;  // seconds without a word

// "localhost:8008" or "127.0.0.1:8008", whatever the port: it may be forwarded.
bool names_this_machine(const std::string& host) {
  const auto name = host.substr(0, host.rfind(':'));
  return name == "localhost" || name == address || name == "[::1]";
}

}  // namespace

class ReportServer::Implementation {
 public:
  Implementation(int port, std::function<nlohmann::ordered_json()> data) : data_(std::move(data)) {
    // Unlike the library's own choice, which lets two servers have the same port. Where this fails,
    // binding may too, and says so.
    server_.set_socket_options([this](auto socket) {
      const int yes = 1;
      listening_ = socket;
      (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.set_keep_alive_max_count(1);  // no connection is open when the server is to end
    // A browser opens some ahead of their use, and what has hung itself up on the other side of a
    // tunnel never says anything: those may be many, and keep none of the others waiting.
    server_.new_task_queue = [] {
      return std::make_unique<ServingThreads>(most_connections).release();
    };
    server_.set_keep_alive_timeout(patience);
    server_.set_read_timeout(patience);
    server_.set_write_timeout(patience);
    add_answers();
    port_ = port == 0 ? server_.bind_to_any_port(address) : bind_to(port);
    if (port_ < 0) throw Error(fmt::format("report: cannot serve on {}", address));
    // The library lets five wait to be accepted; others try again after a second. Where it can't be
    // changed it stays so.
    (void)::listen(listening_, most_connections);
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // To stop a server that has not begun has no effect.
    while (!server_.is_running() && !ended_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  ~Implementation() {
    server_.stop();
    thread_.join();
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] bool is_running() const { return !ended_; }

 private:
  int bind_to(int port) {
    if (server_.bind_to_port(address, port)) return port;
    throw InputError(
        fmt::format("report: port {} of {} is taken; name another with --port, or --port 0 for any "
                    "that is free",
                    port, address));
  }

  nlohmann::ordered_json data() {
    const std::scoped_lock lock(mutex_);
    return data_();
  }

  void add_answers() {
    using httplib::Request, httplib::Response;
    server_.set_pre_routing_handler([](const Request& request, Response& response) {
      response.set_header("Cache-Control", "no-store");
      response.set_header("X-Content-Type-Options", "nosniff");
      if (names_this_machine(request.get_header_value("Host")))
        return httplib::Server::HandlerResponse::Unhandled;
      response.status = 403;
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.Get("/", [this](const Request&, Response& response) {
      response.set_content(report_page(data(), true), "text/html; charset=utf-8");
    });
    server_.Get("/data.json", [this](const Request&, Response& response) {
      using Json = nlohmann::ordered_json;
      response.set_content(data().dump(-1, ' ', false, Json::error_handler_t::replace),
                           "application/json");
    });
  }

  std::function<nlohmann::ordered_json()> data_;
  std::mutex mutex_;
  httplib::Server server_;
  int port_ = -1, listening_ = -1;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

ReportServer::ReportServer(int port, std::function<nlohmann::ordered_json()> data)
    : implementation_(std::make_unique<Implementation>(port, std::move(data))) {}

ReportServer::~ReportServer() = default;

int ReportServer::port() const {
  return implementation_->port();
}

bool ReportServer::is_running() const {
  return implementation_->is_running();
}

}  // namespace kolo
