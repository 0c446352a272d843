#include "kolo/parallel/profiler_range.h"

#include <string>

#include <nvtx3/nvToolsExt.h>

namespace kolo {

ProfilerRange::ProfilerRange(std::string_view name, std::int64_t number) {
  const std::string text(name);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = number;
  id_ = nvtxRangeStartEx(&attributes);
}

void ProfilerRange::end() noexcept {
  if (id_ != 0) nvtxRangeEnd(std::exchange(id_, 0));
}

}  // namespace kolo
