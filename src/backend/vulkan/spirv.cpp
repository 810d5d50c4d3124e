// What a SPIR-V module needs, read from the module itself: so a kernel's variants need no list of features by hand.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "backend/vulkan/device.h"

namespace sluice::backend::vulkan {
namespace {

constexpr uint32_t kMagic = 0x07230203, kHeaderWords = 5, kWorkgroup = 4;
enum Op : uint32_t {
  kCapability = 17,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeMatrix = 24,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kConstant = 43,
  kVariable = 59
};

struct Rule {
  uint32_t capability;
  bool Features::*feature;  // nullptr: every device has it
  const char* name;
};
constexpr Rule kRules[] = {
    {0, nullptr, "Matrix"},
    {1, nullptr, "Shader"},
    {9, &Features::fp16, "16-bit floats"},
    {11, &Features::int64, "64-bit integers"},
    {22, &Features::int16, "16-bit integers"},
    {39, &Features::int8, "8-bit integers"},
    {61, &Features::subgroup_basic, "subgroups"},
    {62, &Features::subgroup_vote, "subgroup votes"},
    {63, &Features::subgroup_arithmetic, "subgroup arithmetic"},
    {64, &Features::subgroup_ballot, "subgroup ballots"},
    {65, &Features::subgroup_shuffle, "subgroup shuffles"},
    {66, &Features::subgroup_shuffle, "subgroup shuffles"},
    {4433, &Features::storage16, "16-bit storage"},
    {4435, &Features::push16, "16-bit push constants"},
    {4448, &Features::storage8, "8-bit storage"},
    {4450, &Features::push8, "8-bit push constants"},
    {5345, &Features::memory_model, "the Vulkan memory model"},
    {5346, &Features::memory_model, "the Vulkan memory model"},
    {5347, &Features::device_address, "buffer device addresses"},
    {6016, &Features::dot_product, "integer dot products"},
    {6017, &Features::dot_product, "integer dot products"},
    {6018, &Features::dot_product, "integer dot products"},
    {6019, &Features::dot_product, "integer dot products"},
    {6022, &Features::cooperative_matrix, "cooperative matrices"},
};

// Sizes of types, so far as shared memory holds them, and the constants that size arrays.
struct Types {
  std::map<uint32_t, uint64_t> bytes, constants;
  std::map<uint32_t, uint32_t> pointee;  // of pointers to shared memory

  void read(uint32_t op, std::span<const uint32_t> w) {
    if (op == kTypeBool && w.size() >= 1) bytes[w[0]] = 4;
    if ((op == kTypeInt || op == kTypeFloat) && w.size() >= 2) bytes[w[0]] = w[1] / 8;
    if ((op == kTypeVector || op == kTypeMatrix) && w.size() >= 3) bytes[w[0]] = bytes[w[1]] * w[2];
    if (op == kTypeArray && w.size() >= 3) bytes[w[0]] = bytes[w[1]] * constants[w[2]];
    if (op == kTypeStruct && !w.empty()) {
      uint64_t sum = 0;
      for (uint32_t member : w.subspan(1)) sum += bytes[member];
      bytes[w[0]] = sum;
    }
    if (op == kTypePointer && w.size() >= 3 && w[1] == kWorkgroup) pointee[w[0]] = w[2];
    if (op == kConstant && w.size() >= 3) constants[w[1]] = w[2];
  }
};

}  // namespace

Result<Needs> read_needs(std::span<const std::byte> code) {
  const Error damaged(Code::corrupt_file, "a kernel of this build is not whole SPIR-V; build it again");
  if (code.size() < kHeaderWords * sizeof(uint32_t) || code.size() % sizeof(uint32_t) != 0) return damaged;
  std::vector<uint32_t> words(code.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.data(), code.size());
  if (words[0] != kMagic) return damaged;
  Needs needs;
  Types types;
  for (size_t at = kHeaderWords; at < words.size();) {
    const uint32_t n = words[at] >> 16, op = words[at] & 0xffff;
    if (n == 0 || n > words.size() - at) return damaged;
    const auto operands = std::span<const uint32_t>(words).subspan(at + 1, n - 1);
    if (op == kCapability && n >= 2) needs.capabilities.push_back(operands[0]);
    types.read(op, operands);
    if (op == kVariable && n >= 4 && operands[2] == kWorkgroup)
      needs.shared_bytes += types.bytes[types.pointee[operands[0]]];
    at += n;
  }
  return needs;
}

std::string missing(const Needs& needs, const uint32_t (&group)[3], const PhysicalDevice& device) {
  for (const uint32_t capability : needs.capabilities) {
    const Rule* rule = nullptr;
    for (const Rule& candidate : kRules) {
      if (candidate.capability == capability) rule = &candidate;
    }
    if (rule == nullptr) return fmt::format("SPIR-V capability {}", capability);
    if (rule->feature != nullptr && !(device.features.*rule->feature)) return rule->name;
  }
  const Limits& limits = device.limits;
  if (needs.shared_bytes > limits.shared) return fmt::format("{} bytes of shared memory", needs.shared_bytes);
  if (uint64_t{group[0]} * group[1] * group[2] > limits.group_threads)
    return fmt::format("groups of {} threads", uint64_t{group[0]} * group[1] * group[2]);
  for (int axis = 0; axis < 3; ++axis) {
    if (group[axis] > limits.group_size[axis]) return fmt::format("groups of {} threads on an axis", group[axis]);
  }
  return {};
}

}  // namespace sluice::backend::vulkan
