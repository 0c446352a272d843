#pragma once

#include <memory>
#include <string>

#include "comm/device/device_channel.h"
#include "comm/device/device_sharing.h"

namespace kolo {

struct ChosenChannel {
  std::unique_ptr<DeviceChannel> channel;
  // Why it is none that would have gone before it: "not NCCL: ..."; empty: there is none, or it was
  // asked for.
  std::string why;
};

// The channel of a group of ranks, of which this one works on `device`: they tell each other what
// they have, and choose by that and by what was asked for, all the same. InputError on all where
// what was asked for can't be. Collective.
[[nodiscard]] ChosenChannel choose_channel(const std::shared_ptr<Backend>& host, int device,
                                           DeviceSharing& sharing);

}  // namespace kolo
