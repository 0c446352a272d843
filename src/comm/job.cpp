#include "comm/job.h"

#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "comm/device/device_sharing.h"
#include "comm/executor.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/watch/watch.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/comm/launcher.h"

namespace kolo {

std::string_view name_of(ThreadLevel level) {
  constexpr std::string_view names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<std::size_t>(level)];
}

namespace {

std::optional<std::string> variable(const char* name) {
  auto value = environment_variable(name);
  return value && !value->empty() ? value : std::nullopt;
}

[[noreturn]] void refuse(const char* name, const std::string& value, const char* accepted) {
  throw InputError(
      fmt::format("the environment variable {} is \"{}\"; expected {}", name, value, accepted));
}

void read_switch(const char* name, bool& target) {
  const auto value = variable(name);
  if (!value) return;
  if (*value == "on" || *value == "1")
    target = true;
  else if (*value == "off" || *value == "0")
    target = false;
  else
    refuse(name, *value, "on, off, 1 or 0");
}

void read_seconds(const char* name, std::chrono::duration<double>& target) {
  const auto value = variable(name);
  if (!value) return;
  const auto seconds = parse_number<double>(*value);
  if (!seconds || *seconds < 0 || *seconds > 1e9)
    refuse(name, *value, "seconds, 0 or more (0: never)");
  target = std::chrono::duration<double>(*seconds);
}

}  // namespace

MpiOptions with_environment(MpiOptions options) {
  read_switch("KOLO_CHECKED", options.checked);
  read_switch("KOLO_LAUNCHER_CHECK", options.launcher_check);
  read_switch("KOLO_WATCH", options.watch.enabled);
  read_seconds("KOLO_WATCH_WARNING", options.watch.warning);
  read_seconds("KOLO_WATCH_LIMIT", options.watch.limit);
  if (const auto folder = variable("KOLO_WATCH_FOLDER")) options.watch.folder = *folder;
  if (const auto channel = variable("KOLO_DEVICE_CHANNEL"))
    options.devices.channel =
        named<DeviceChannelKind>("the environment", "KOLO_DEVICE_CHANNEL", *channel);
  return options;
}

MpiOptions with_options_of_rank_0(const BroadcastBytes& broadcast, MpiOptions own) {
  const auto take = [&](auto&... values) {
    (broadcast(std::as_writable_bytes(std::span(&values, 1))), ...);
  };
  auto nodes = own.ranks_on_nodes.size();
  take(own.checked, own.watch.enabled, own.watch.warning, own.watch.limit, own.shared_memory,
       own.largest_count, own.staging_bytes, own.whole_limit_bytes, own.devices.channel,
       own.devices.staging_bytes, nodes);
  own.ranks_on_nodes.resize(nodes);
  broadcast(std::as_writable_bytes(std::span(own.ranks_on_nodes)));
  return own;
}

std::vector<int> pretended_nodes(int ranks, const std::vector<int>& ranks_on_nodes) {
  if (ranks_on_nodes.empty()) return std::vector<int>(static_cast<std::size_t>(ranks));
  std::vector<int> nodes;
  for (std::size_t node = 0; node < ranks_on_nodes.size(); ++node)
    nodes.insert(nodes.end(), static_cast<std::size_t>(ranks_on_nodes[node]), narrow<int>(node));
  if (std::ssize(nodes) != ranks) {
    throw Error(fmt::format("comm: the nodes given hold {} ranks, but the job has {}", nodes.size(),
                            ranks));
  }
  return nodes;
}

void BackgroundThreads::end(const std::string& words, bool may_send) const {
  std::exception_ptr failure;
  const auto attempt = [&](const auto& owner, const auto& end_of) {
    try {
      if (const auto present = owner.lock()) end_of(*present);
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt(executor, [&](Executor& owner) { owner.close(words); });
  attempt(transfers, [&](TransferThread& owner) { owner.stop(words); });
  attempt(devices, [&](DeviceSharing& owner) { owner.poller().stop(); });
  attempt(watch, [&](Watch& owner) { owner.stop(may_send); });
  if (failure) std::rethrow_exception(failure);
}

Communicator make_job_communicator(std::shared_ptr<Backend> host, const MpiOptions& options,
                                   BackgroundThreads& threads) {
  const auto devices = std::make_shared<DeviceSharing>(options.devices);
  const auto backend = make_device_backend(std::move(host), devices);
  const auto executor = std::make_shared<Executor>(backend->capabilities().asynchronous);
  const Communicator plain(backend, executor);
  threads.executor = executor;
  threads.devices = devices;
  if (const auto transfers = backend->transfers()) threads.transfers = transfers->thread();
  if (options.watch.enabled && plain.size() > 1) {
    const auto watch = std::make_shared<Watch>(backend, options.watch);
    plain.add_listener(Watch::listener_of(watch));
    threads.watch = watch;
  }
  return options.checked ? plain.checked() : plain;
}

}  // namespace kolo
