#pragma once

#include "kolo/comm/data_type.h"

namespace kolo {

// One of the messages of Communicator::exchange(): what this rank sends to a peer, or receives from
// it.
struct Transfer {
  ConstBuffer sent;
  Buffer received;
  bool is_send = false;  // which of the two counts
  int peer = -1;
  int tag = 0;

  [[nodiscard]] static Transfer send(const ConstBuffer& buffer, int peer, int tag = 0) {
    Transfer transfer;
    transfer.sent = buffer;
    transfer.is_send = true;
    transfer.peer = peer;
    transfer.tag = tag;
    return transfer;
  }
  [[nodiscard]] static Transfer receive(const Buffer& buffer, int peer, int tag = 0) {
    Transfer transfer;
    transfer.received = buffer;
    transfer.peer = peer;
    transfer.tag = tag;
    return transfer;
  }
};

}  // namespace kolo
