#include "text/utf8.h"

#include "sluice/tokenizer.h"

namespace sluice {
namespace text {

Utf8Step utf8_step(std::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return {Utf8Kind::character, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::invalid, 1};
  const uint8_t n_bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (uint8_t i = 1; i < n_bytes; ++i) {
    if (i == bytes.size()) return {Utf8Kind::incomplete, i};
    // The second byte's range is narrower after E0, ED, F0 and F4.
    uint8_t low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;
    if (i == 1 && lead == 0xED) high = 0x9F;
    if (i == 1 && lead == 0xF0) low = 0x90;
    if (i == 1 && lead == 0xF4) high = 0x8F;
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte < low || byte > high) return {Utf8Kind::invalid, 1};
  }
  return {Utf8Kind::character, n_bytes};
}

size_t utf8_valid_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind != Utf8Kind::character) break;
    at += step.n_bytes;
  }
  return at;
}

uint32_t utf8_decode(std::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return lead;
  const uint32_t n_bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t code_point = lead & (0x7Fu >> n_bytes);
  for (uint32_t i = 1; i < n_bytes; ++i) code_point = code_point << 6 | (static_cast<uint8_t>(bytes[i]) & 0x3Fu);
  return code_point;
}

void utf8_append(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  const int n_bytes = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  out += static_cast<char>((0xF00u >> n_bytes & 0xFFu) | code_point >> 6 * (n_bytes - 1));
  for (int i = n_bytes - 2; i >= 0; --i) out += static_cast<char>(0x80u | (code_point >> 6 * i & 0x3Fu));
}

}  // namespace text

std::string Utf8Stream::push(std::string_view piece) {
  pending_ += piece;
  size_t at = 0;
  while (at < pending_.size()) {
    const text::Utf8Step step = text::utf8_step(std::string_view(pending_).substr(at));
    if (step.kind == text::Utf8Kind::incomplete) break;
    at += step.n_bytes;
  }
  std::string complete = pending_.substr(0, at);
  pending_.erase(0, at);
  return complete;
}

std::string Utf8Stream::flush() { return std::exchange(pending_, {}); }

}  // namespace sluice
