#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/text.h"
#include "gguf/parse.h"

namespace sluice::gguf {
namespace {

struct Signature {
  std::string_view start;
  std::string_view looks_like;
};

// Lower case; the start of a text is compared after its byte order mark, its white space, and without case.
constexpr Signature kTexts[] = {
    {"<!doctype", "a saved web page"},
    {"<html", "a saved web page"},
    {"<head", "a saved web page"},
    {"<?xml", "an XML text, perhaps an error of the download"},
    {"<", "a web page or XML text"},
    {"version https://git-lfs", "a Git LFS pointer, not the file it stands for"},
    {"{", "a JSON text, perhaps an error of the download"},
};
constexpr Signature kBinaries[] = {
    {"FUGG", "a big-endian GGUF file"},
    {"lmgg", "a model of the older GGML format"},
    {"ggml", "a model of the older GGML format"},
    {"fmgg", "a model of the older GGMF format"},
    {"tjgg", "a model of the older GGJT format"},
    {"PK\x03\x04", "a ZIP archive or a PyTorch model"},
    {"\x1f\x8b", "a gzip archive"},
    {"\x28\xb5\x2f\xfd", "a zstd archive"},
    {"\xfd"
     "7zXZ",
     "an xz archive"},
    {"7z\xbc\xaf", "a 7-Zip archive"},
    {"\x7f"
     "ELF",
     "a program"},
    {"\x80\x02", "a Python pickle"},
    {"\x89HDF", "an HDF5 file"},
};

bool looks_like_safetensors(std::string_view start) {
  return start.size() > 9 && start.substr(4, 4) == std::string_view("\0\0\0\0", 4) && start[8] == '{';
}

}  // namespace

std::string describe_foreign(std::span<const std::byte> bytes, uint64_t file_bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 256));
  if (start.empty()) return "is empty";
  for (const Signature& s : kBinaries) {
    if (start.starts_with(s.start)) return fmt::format("is no GGUF file; it looks like {}", s.looks_like);
  }
  if (looks_like_safetensors(start)) return "is no GGUF file; it looks like a safetensors model";
  if (std::string_view("GGUF").starts_with(start)) return fmt::format("has only {} bytes", file_bytes);

  std::string text(start.starts_with("\xef\xbb\xbf") ? start.substr(3) : start);
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Signature& s : kTexts) {
    if (text.starts_with(s.start)) return fmt::format("is no GGUF file; it looks like {}", s.looks_like);
  }
  const bool zeros = std::all_of(start.begin(), start.end(), [](char c) { return c == 0; });
  if (zeros) return "is no GGUF file; it starts with zeros, as an interrupted download does";
  const bool is_text =
      std::all_of(start.begin(), start.end(), [](unsigned char c) { return c >= 0x20 || std::isspace(c); });
  if (is_text) return fmt::format("is no GGUF file; it looks like a text: '{}'", printable(start, 40));
  return fmt::format("is no GGUF file; its first bytes are '{}'", printable(start.substr(0, 4)));
}

}  // namespace sluice::gguf
