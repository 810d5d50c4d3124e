// Splits text into the words within which byte-pair merges happen.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"

namespace sluice::text {

// One pre-tokenizer of the published vocabularies. Expressions apply one after the other: each cuts every piece that
// the one before left into its matches and what lies between them.
//
// Written as published, but for these: `\s` and `\S` mean Unicode's White_Space (PCRE2's own \s has U+180E in it);
// (?i:'s|'t) is spelt out, since caseless matching would take U+017F for an s; and where a published form would search
// in quadratic time, an equivalent one stands here.
struct PreRule {
  std::vector<std::string_view> names;  // values of tokenizer.ggml.pre
  std::vector<std::string_view> expressions;
  bool ignore_merges = false;    // a whole word that is a token is taken as it is
  bool adds_bos = false;         // where the file does not say
  bool over_characters = false;  // no expressions: merges are over characters, see char_bpe.h
};

const PreRule* find_pre_rule(std::string_view name);
std::string pre_rule_names();  // all of them, for messages: "default, llama-bpe, ..."

// Compiled expressions; immutable, so threads may share it.
class PreTokenizer {
 public:
  // Without JIT (as where the system forbids it) matching is slower and needs memory for long runs; the words are the
  // same.
  static Result<PreTokenizer> create(std::span<const std::string_view> expressions, bool use_jit = true);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Words of `text` in order; joined they are `text`, which must be well-formed UTF-8.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::text
