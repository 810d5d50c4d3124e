// A vocabulary as the file has it, checked: what every kind of tokenizer starts from, and what tests build by hand.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/gguf.h"
#include "sluice/tokenizer.h"

namespace sluice::text {

enum class TokenType : uint8_t { undefined = 0, normal, unknown, control, user_defined, unused, byte };

struct Vocab {
  std::string model = "gpt2";       // tokenizer.ggml.model
  std::optional<std::string> pre;   // tokenizer.ggml.pre, or what replaces it; none where the file has no such key
  std::vector<std::string> tokens;  // (n_vocab) texts in the file's own spelling
  std::vector<TokenType> types;     // (n_vocab)
  std::vector<float> scores;        // (n_vocab) or empty
  std::vector<std::string> merges;  // "LEFT RIGHT", most wanted first
  Token bos = -1;                   // -1: none; likewise below
  Token eos = -1;
  Token eot = -1;
  Token eom = -1;
  Token pad = -1;
  Token unknown = -1;
  std::optional<bool> add_bos;  // none: the kind of tokenizer decides
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::string chat_template;

  // `corrupt_file` where array lengths differ or an id lies outside of the vocabulary.
  Result<void> check() const;
  // Whether merges can build this text, which makes it an ordinary piece of words.
  bool is_merged(std::string_view token_text) const;
};

// `not_found` for a file without a vocabulary. `pre` replaces the file's own where not empty.
Result<Vocab> read_vocab(const gguf::File& file, std::string_view pre);

// What a token's text tells about it, whatever the file calls it: files often mark an end token as an ordinary one.
struct KnownText {
  bool is_control = false;
  bool ends = false;
};
KnownText known_text(std::string_view token_text);

}  // namespace sluice::text
