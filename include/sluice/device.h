// What this build can compute on: EngineOptions::backend and ::device name one of these.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// The backends of this build, in the order in which `auto` tries them.
std::vector<std::string> backend_names();

struct DeviceInfo {
  std::string backend, name, kind;  // kind: discrete, integrated, virtual, cpu (a CPU that plays a GPU), other
  std::string driver;
  uint32_t idx = 0;                                // EngineOptions::device
  uint64_t memory_bytes = 0, available_bytes = 0;  // of its own memory
  std::string refusal;                             // why it cannot be used, or empty
  std::vector<std::pair<std::string, std::string>> limits;
};

// The GPUs that this build's backends see; where there are none, `reason` says why.
std::vector<DeviceInfo> list_devices(std::string& reason);

}  // namespace sluice
