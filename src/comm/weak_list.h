#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kolo {

// Objects that others own, as long as they do. Thread-safe.
template <typename T>
class WeakList {
 public:
  void add(const std::shared_ptr<T>& object) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [](const auto& known) { return known.expired(); });
    objects_.push_back(object);
  }
  void remove(const T& object) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& known) { return known.lock().get() == &object; });
  }
  [[nodiscard]] std::vector<std::shared_ptr<T>> present() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> present;
    for (const auto& each : objects_) {
      if (auto object = each.lock()) present.push_back(std::move(object));
    }
    return present;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<T>> objects_;
};

}  // namespace kolo
