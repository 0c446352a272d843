#pragma once

namespace kolo {

// The process that has made this object. A fork of it has a copy of all its memory, but none of its
// threads, and shares with it what others see: memory that is mapped by several, and files. So what
// waits for a thread, or tells others something, has to know whether this is still that process.
class OwnProcess {
 public:
  OwnProcess();
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;
  ~OwnProcess();

  // False in a fork. Costs reading a byte.
  [[nodiscard]] bool is_here() const;

 private:
  int process_;
  char* page_ = nullptr;  // that the system fills with zeros in a fork; null: it can't
};

}  // namespace kolo
