#include "sluice/device.h"

#include "backend/registry.h"

namespace sluice {

std::vector<std::string> backend_names() { return backend::backend_names(); }

std::vector<DeviceInfo> list_devices(std::string& reason) { return backend::list_devices(reason); }

}  // namespace sluice
