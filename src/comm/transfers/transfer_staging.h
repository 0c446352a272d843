#pragma once

namespace kolo {

// A buffer of a device's memory as memory of the host, through which a transfer goes. Nothing here
// blocks; kept until is_over().
class TransferStaging {
 public:
  virtual ~TransferStaging() = default;

  // Of what is sent: whether it has come down from the device.
  [[nodiscard]] virtual bool is_there() const = 0;
  // Of what has been received: has the device take it, and sets the call's order->done.
  virtual void take_up() = 0;
  // The device does not use the host's memory any more.
  [[nodiscard]] virtual bool is_over() const = 0;
};

}  // namespace kolo
