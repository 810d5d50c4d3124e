// Text to token ids and back. Thread-safe after create().
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/gguf.h"
#include "sluice/result.h"

namespace sluice {

using Token = int32_t;

struct EncodeOptions {
  bool add_bos = true;         // add BOS (and EOS) where the model's metadata asks for it
  bool parse_special = false;  // texts of control tokens in the input become those tokens
  // A chat template often writes BOS itself. Where the text's first token is BOS already, none is added (nor a second
  // EOS at its end); true adds them all the same, as some reference implementations do.
  bool repeat_bos = false;
};

class Tokenizer {
 public:
  // `not_found` where the file has no vocabulary (tokenizer.ggml.model = no_vocab, or no such key),
  // `unsupported` (naming it) for a tokenizer model or pre-tokenizer that is not known, and for a byte-pair vocabulary
  // that names no pre-tokenizer: a guess would degrade every text in silence. `pre` replaces the file's
  // tokenizer.ggml.pre when not empty ("default": the split that unnamed files got in the past);
  // `invalid_argument` where the kind of vocabulary has no pre-tokenizers.
  static Result<std::shared_ptr<const Tokenizer>> create(const gguf::File& file, std::string_view pre = {});
  virtual ~Tokenizer() = default;

  // Any bytes are accepted: a byte that is not part of well-formed UTF-8 is encoded by its byte token and parts the
  // words beside it. User-defined tokens are found in every text, control tokens with parse_special, the longest one at
  // each place.
  virtual std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const = 0;
  // The bytes a token stands for. Control tokens give "" unless `show_special`. Ids out of range give "".
  virtual std::string piece(Token id, bool show_special) const = 0;

  virtual uint32_t n_vocab() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool adds_eos() const = 0;
  virtual Token bos() const = 0;  // -1 where the model has none; likewise below
  virtual Token eos() const = 0;
  virtual Token pad() const = 0;
  virtual bool is_end(Token id) const = 0;                    // EOS, EOT, EOM: generation stops here
  virtual bool is_control(Token id) const = 0;                // has no text of its own
  virtual Token find(std::string_view token_text) const = 0;  // -1 where there is none
  virtual std::string_view chat_template() const = 0;         // "" where the file has none
  virtual std::string_view pre_name() const = 0;              // the pre-tokenizer in use, "" where this kind has none

  // All pieces joined. Where encode() puts a space in front (SentencePiece vocabularies), the text has it, too.
  std::string decode(std::span<const Token> ids, bool show_special) const;
};

// Joins streamed pieces so that only whole UTF-8 characters come out; invalid bytes come out as they are, once it is
// certain that no character can contain them.
class Utf8Stream {
 public:
  std::string push(std::string_view piece);  // the bytes that are complete now
  std::string flush();                       // what is left, at the end
 private:
  std::string pending_;
};

}  // namespace sluice
