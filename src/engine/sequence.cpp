#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/file_io.h"
#include "base/text.h"
#include "engine/core.h"

namespace sluice {
namespace {

using kernels::kPageTokens;

// A saved sequence: this header, the tokens, the recurrent state, then every attention layer's pages (K, then V), page
// by page.
struct FileHeader {
  char magic[8] = {'S', 'L', 'U', 'I', 'S', 'E', 'Q', '1'};
  uint64_t fingerprint = 0;
  uint64_t n_tokens = 0;
  uint64_t n_bytes = 0;   // after the header
  uint64_t checksum = 0;  // of those
};

// FNV-1a over 8 bytes at a time: enough against accidents, which is all that is promised.
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  for (; i < bytes.size(); ++i) hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  return hash;
}

uint64_t pages_for(uint64_t n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

uint64_t saved_bytes(const engine::Core& core, uint64_t n_tokens) {
  uint64_t page_bytes = 0;
  for (const auto& [layer, cache] : core.caches) page_bytes += cache.k_page_bytes + cache.v_page_bytes;
  return n_tokens * sizeof(Token) + core.state_floats * sizeof(float) + pages_for(n_tokens) * page_bytes;
}

Error damaged(const std::string& path) {
  return Error(
      Code::corrupt_file,
      fmt::format("'{}' is not a whole saved sequence; delete it and compute the text again", printable_path(path)));
}

// use(the row's floats in a slot's image, the row's floats in the packed state) for every row that positions below
// n_tokens left; of positions below 0 there is none.
template <class Use>
void for_state_rows(const engine::Core& core, uint32_t n_tokens, const Use& use) {
  uint64_t packed = 0;
  for (const engine::LayerRing& ring : core.rings) {
    for (uint32_t j = 0; j < ring.n_rows; ++j, packed += ring.width) {
      const uint64_t ahead = uint64_t{n_tokens} + j;  // of the row's position, by n_rows
      if (ahead < ring.n_rows) continue;
      const uint64_t row = (ahead - ring.n_rows) % (uint64_t{ring.n_rows} + core.memory.n_rewind);
      use(ring.offset + row * ring.width, packed, ring.width);
    }
  }
}

}  // namespace

namespace engine {

Result<std::vector<float>> read_state(const Core& core, uint32_t slot, uint32_t n_tokens) {
  std::vector<float> image(core.memory.slot_stride), state(core.state_floats);
  TRY(core.backend->download(std::as_writable_bytes(std::span(image)), core.slot_address(slot)));
  for_state_rows(core, n_tokens, [&](uint64_t in_image, uint64_t in_state, uint32_t n) {
    std::copy_n(image.data() + in_image, n, state.data() + in_state);
  });
  return state;
}

Result<void> write_state(const Core& core, uint32_t slot, uint32_t n_tokens, std::span<const float> state) {
  std::vector<float> image(core.memory.slot_stride);
  for_state_rows(core, n_tokens, [&](uint64_t in_image, uint64_t in_state, uint32_t n) {
    std::copy_n(state.data() + in_state, n, image.data() + in_image);
  });
  return core.backend->upload(core.slot_address(slot), std::as_bytes(std::span(image)));
}

}  // namespace engine

Sequence::Impl::~Impl() {
  keep_pages_for(0);
  core->free_slots.push_back(slot);
}

void Sequence::Impl::keep_pages_for(uint32_t n) {
  while (pages.size() > pages_for(n)) {
    core->pages.give_back(pages.back());
    pages.pop_back();
  }
}

void Sequence::Impl::clear() {
  keep_pages_for(0);
  tokens.clear();
  checkpoints.clear();
  rewind_limit = 0;
}

void Sequence::Impl::append(std::span<const Token> more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  const auto n = static_cast<uint32_t>(tokens.size());
  rewind_limit = std::max(rewind_limit, n - std::min(n, core->memory.n_rewind));
}

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

uint32_t Sequence::n_tokens() const { return static_cast<uint32_t>(impl_->tokens.size()); }
std::span<const Token> Sequence::tokens() const { return impl_->tokens; }

Result<Sequence> Sequence::fork() const {
  engine::Core& core = *impl_->core;
  if (core.free_slots.empty()) {
    return Error(Code::out_of_memory,
                 fmt::format("all {} sequences are in use; raise max_sequences", core.max_sequences));
  }
  const uint32_t slot = core.free_slots.back();
  if (core.memory.slot_stride != 0) {
    TRY(core.backend->copy(core.slot_address(slot), core.slot_address(impl_->slot),
                           core.memory.slot_stride * sizeof(float)));
  }
  core.free_slots.pop_back();
  auto copy = std::make_unique<Impl>(impl_->core);
  copy->slot = slot;
  copy->tokens = impl_->tokens;
  copy->checkpoints = impl_->checkpoints;
  copy->rewind_limit = impl_->rewind_limit;
  copy->pages = impl_->pages;
  for (uint32_t page : copy->pages) core.pages.share(page);
  return Sequence(std::move(copy));
}

Result<void> Sequence::checkpoint() {
  engine::Core& core = *impl_->core;
  if (core.memory.slot_stride == 0) return {};
  impl_->checkpoints[n_tokens()] = TRY(engine::read_state(core, impl_->slot, n_tokens()));
  return {};
}

Result<void> Sequence::truncate(uint32_t n) {
  if (n >= n_tokens()) {
    if (n == n_tokens()) return {};
    return Error(Code::invalid_argument,
                 fmt::format("cannot cut {} tokens at {}; give at most their number", n_tokens(), n));
  }
  engine::Core& core = *impl_->core;
  if (n == 0) impl_->clear();
  if (core.memory.slot_stride != 0 && n < impl_->rewind_limit) {
    const auto it = impl_->checkpoints.find(n);
    if (it == impl_->checkpoints.end()) {
      return Error(Code::unsupported,
                   fmt::format("this model's recurrent state cannot be cut at {}; compute the text again from 0", n));
    }
    TRY(engine::write_state(core, impl_->slot, n, it->second));
    impl_->rewind_limit = n;
  }
  impl_->tokens.resize(n);
  impl_->keep_pages_for(n);
  impl_->checkpoints.erase(impl_->checkpoints.upper_bound(n), impl_->checkpoints.end());
  return {};
}

Result<void> Sequence::save(const std::string& path) const {
  engine::Core& core = *impl_->core;
  FileHeader header;
  header.fingerprint = core.fingerprint;
  header.n_tokens = n_tokens();
  header.n_bytes = saved_bytes(core, header.n_tokens);
  ByteBuffer buffer = TRY(ByteBuffer::allocate(sizeof(header) + header.n_bytes));
  std::span<std::byte> out = buffer.bytes().subspan(sizeof(header));
  const auto next = [&out](size_t n) {
    const auto piece = out.first(n);
    out = out.subspan(n);
    return piece;
  };
  const auto ids = next(header.n_tokens * sizeof(Token));
  if (!ids.empty()) std::memcpy(ids.data(), impl_->tokens.data(), ids.size());
  const std::vector<float> state = TRY(engine::read_state(core, impl_->slot, n_tokens()));
  const auto to = next(core.state_floats * sizeof(float));
  if (!to.empty()) std::memcpy(to.data(), state.data(), to.size());
  for (const auto& [layer, cache] : core.caches) {
    for (uint32_t page : impl_->pages) {
      TRY(core.backend->download(next(cache.k_page_bytes), cache.k + page * cache.k_page_bytes));
      TRY(core.backend->download(next(cache.v_page_bytes), cache.v + page * cache.v_page_bytes));
    }
  }
  header.checksum = checksum_of(buffer.bytes().subspan(sizeof(header)));
  std::memcpy(buffer.bytes().data(), &header, sizeof(header));
  return write_file_atomically(path, buffer.bytes());
}

Result<void> Sequence::load(const std::string& path) {
  engine::Core& core = *impl_->core;
  const InputFile file = TRY(InputFile::open(path));
  FileHeader header;
  const FileHeader expected;
  if (file.size() < sizeof(header)) return damaged(path);
  TRY(file.read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) return damaged(path);
  if (header.fingerprint != core.fingerprint) {
    return Error(Code::invalid_argument,
                 fmt::format("'{}' was saved with another model or another cache type; use those it was saved with",
                             printable_path(path)));
  }
  if (header.n_tokens > core.info.n_ctx) {
    return Error(Code::invalid_argument,
                 fmt::format("'{}' holds {} tokens, more than the context of {}; raise --ctx-size",
                             printable_path(path), header.n_tokens, core.info.n_ctx));
  }
  if (header.n_bytes != saved_bytes(core, header.n_tokens) || file.size() - sizeof(header) != header.n_bytes)
    return damaged(path);
  const ByteBuffer buffer = TRY(ByteBuffer::allocate(header.n_bytes));
  TRY(file.read_at(sizeof(header), buffer.bytes()));
  if (checksum_of(buffer.bytes()) != header.checksum) return damaged(path);

  const uint64_t n_pages = pages_for(header.n_tokens);
  const auto own =
      std::count_if(impl_->pages.begin(), impl_->pages.end(), [&](uint32_t page) { return !core.pages.shared(page); });
  if (n_pages > core.pages.n_free() + static_cast<uint64_t>(own)) {
    return Error(Code::out_of_memory,
                 fmt::format("the cache has no room for {} tokens; end another sequence first", header.n_tokens));
  }
  std::vector<Token> tokens(header.n_tokens);
  std::span<const std::byte> in = buffer.bytes();
  const auto next = [&in](size_t n) {
    const auto piece = in.first(n);
    in = in.subspan(n);
    return piece;
  };
  const auto ids = next(header.n_tokens * sizeof(Token));
  if (!ids.empty()) std::memcpy(tokens.data(), ids.data(), ids.size());
  for (Token id : tokens) {
    if (id < 0 || static_cast<uint32_t>(id) >= core.model->config().n_vocab) return damaged(path);
  }
  impl_->clear();
  std::vector<float> state(core.state_floats);
  const auto from = next(state.size() * sizeof(float));
  if (!from.empty()) std::memcpy(state.data(), from.data(), from.size());
  TRY(engine::write_state(core, impl_->slot, static_cast<uint32_t>(header.n_tokens), state));
  for (uint64_t i = 0; i < n_pages; ++i) impl_->pages.push_back(core.pages.take());
  for (const auto& [layer, cache] : core.caches) {
    for (uint32_t page : impl_->pages) {
      TRY(core.backend->upload(cache.k + page * cache.k_page_bytes, next(cache.k_page_bytes)));
      TRY(core.backend->upload(cache.v + page * cache.v_page_bytes, next(cache.v_page_bytes)));
    }
  }
  impl_->tokens = std::move(tokens);
  impl_->rewind_limit = static_cast<uint32_t>(header.n_tokens);
  return {};
}

}  // namespace sluice
