// The Metal text of this build, read and not run: no machine with Metal is at hand. What a host must know of it is
// checked: where arguments lie, which buffer is which, and how a group sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <regex>

#include "backend/blobs.h"
#include "kernels/all_contracts.h"

namespace sluice::backend {
namespace {

std::string metal_text(std::string_view name) {
  std::span<const std::byte> code;
  for (const Blob& blob : blobs(BlobTarget::metal))
    if (blob.name == name) code = blob.code;
  for (const PublishedBlob& blob : published_blobs())
    if (blob.target == BlobTarget::metal && blob.name == name) code = blob.code;
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

struct Layout {
  size_t size = 0, align = 1;
  std::map<std::string, size_t> offsets;
};

size_t round_up(size_t n, size_t align) { return (n + align - 1) / align * align; }

// By Metal's rules: a field lies at the next multiple of its alignment, which for scalars and pointers is their size
// and for a struct that of its strictest field.
std::optional<Layout> layout_of(const std::string& text, const std::string& name) {
  const std::map<std::string, size_t> scalars = {{"uint", 4}, {"int", 4}, {"float", 4}, {"ulong", 8}};
  std::smatch found;
  if (!std::regex_search(text, found, std::regex("struct " + name + "\\s*\\{([^}]*)\\};"))) return std::nullopt;
  const std::string body = found[1];
  Layout layout;
  const std::regex field(R"((\w+)( device\*| constant\*)? (\w+)_\d+;)");
  for (std::sregex_iterator it(body.begin(), body.end(), field), end; it != end; ++it) {
    const std::string type = (*it)[1];
    size_t size = 8, align = 8;  // of a pointer
    if (!(*it)[2].matched) {
      if (const auto scalar = scalars.find(type); scalar != scalars.end()) {
        size = align = scalar->second;
      } else {
        const auto inner = layout_of(text, type);
        if (!inner) return std::nullopt;
        size = inner->size;
        align = inner->align;
      }
    }
    layout.size = round_up(layout.size, align);
    layout.offsets[(*it)[3]] = layout.size;
    layout.size += size;
    layout.align = std::max(layout.align, align);
  }
  layout.size = round_up(layout.size, layout.align);
  // No line that the pattern did not take for a field.
  return static_cast<size_t>(std::count(body.begin(), body.end(), ';')) == layout.offsets.size() ? std::optional(layout)
                                                                                                 : std::nullopt;
}

#define NEED_METAL_TEXT() \
  if (blobs(BlobTarget::metal).empty()) GTEST_SKIP() << "this build has no Metal text (SLUICE_BLOB_TARGETS)"

void expect_layout(const char* kernel, const char* args, size_t size, const std::map<std::string, size_t>& expected) {
  const std::string text = metal_text(kernel);
  ASSERT_FALSE(text.empty());
  const auto layout = layout_of(text, std::string(args) + "_0"), params = layout_of(text, "EntryPointParams_0");
  ASSERT_TRUE(layout) << args << " is not read";
  EXPECT_EQ(layout->size, size);
  EXPECT_EQ(layout->offsets, expected);
  ASSERT_TRUE(params);
  EXPECT_EQ(params->offsets, (std::map<std::string, size_t>{{"args", 0}}));
  EXPECT_EQ(params->size, size);
  EXPECT_TRUE(std::regex_search(text, std::regex("EntryPointParams_0 constant\\* \\w+ \\[\\[buffer\\(0\\)\\]\\]")));
}

#define AT(Args, field) \
  { #field, offsetof(kernels::Args, field) }

TEST(GpuMetalText, ArgumentsLieAsTheContractHasThem) {
  NEED_METAL_TEXT();
  expect_layout(
      "moe_route", "MoeRouteArgs", sizeof(kernels::MoeRouteArgs),
      {AT(MoeRouteArgs, sel_expert), AT(MoeRouteArgs, weight), AT(MoeRouteArgs, logits), AT(MoeRouteArgs, bias),
       AT(MoeRouteArgs, forced), AT(MoeRouteArgs, step), AT(MoeRouteArgs, n_expert), AT(MoeRouteArgs, n_used),
       AT(MoeRouteArgs, gate), AT(MoeRouteArgs, renormalise), AT(MoeRouteArgs, n_group), AT(MoeRouteArgs, n_group_used),
       AT(MoeRouteArgs, n_group_best), AT(MoeRouteArgs, scale)});
  expect_layout("moe_combine", "MoeCombineArgs", sizeof(kernels::MoeCombineArgs),
                {AT(MoeCombineArgs, out), AT(MoeCombineArgs, z), AT(MoeCombineArgs, weight), AT(MoeCombineArgs, bias),
                 AT(MoeCombineArgs, scale), AT(MoeCombineArgs, sel_expert), AT(MoeCombineArgs, step),
                 AT(MoeCombineArgs, m), AT(MoeCombineArgs, n_used), AT(MoeCombineArgs, accumulate)});
}

TEST(GpuMetalText, StepStateLiesAsTheContractHasIt) {
  NEED_METAL_TEXT();
  const auto layout = layout_of(metal_text("moe_route"), "StepState_0");
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->size, sizeof(kernels::StepState));
  EXPECT_EQ(layout->offsets.at("row_error"), offsetof(kernels::StepState, row_error));
  EXPECT_EQ(layout->offsets.at("n_tokens"), offsetof(kernels::StepState, n_tokens));
  EXPECT_EQ(layout->offsets.at("n_out"), offsetof(kernels::StepState, n_out));
}

TEST(GpuMetalText, ThePublishedEntrySumsInOneSimdgroup) {
  NEED_METAL_TEXT();
  const std::string text = metal_text("moe_gemv_q4_0");
  EXPECT_EQ(count(text, "simd_sum("), 1u);
  EXPECT_EQ(count(text, "threadgroup_barrier"), 0u);
  EXPECT_EQ(count(text, "threadgroup*"), 0u);  // and shares no memory
  const std::pair<const char*, const char*> buffers[] = {{"uint device\\* w", "0"},
                                                         {"float device\\* x", "1"},
                                                         {"float device\\* y", "2"},
                                                         {"uint device\\* sel_expert", "3"},
                                                         {"packed_uint4 device\\* params", "4"}};
  for (const auto& [parameter, idx] : buffers)
    EXPECT_TRUE(
        std::regex_search(text, std::regex(std::string(parameter) + "_\\d+ \\[\\[buffer\\(" + idx + "\\)\\]\\]")))
        << parameter;
}

TEST(GpuMetalText, EveryGpuKernelHasIt) {
  NEED_METAL_TEXT();
  for (const Blob& spirv : blobs(BlobTarget::spirv)) {
    const auto metal = blobs(BlobTarget::metal);
    EXPECT_TRUE(std::any_of(metal.begin(), metal.end(), [&](const Blob& blob) { return blob.id == spirv.id; }))
        << kernel_name(spirv.id);
  }
}

}  // namespace
}  // namespace sluice::backend
