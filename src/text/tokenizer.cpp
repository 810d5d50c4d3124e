// The kinds of tokenizer: one row each, one file each.
#include "sluice/tokenizer.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "text/bpe.h"
#include "text/char_bpe.h"
#include "text/spm.h"

namespace sluice {
namespace {

struct Kind {
  std::string_view model;  // tokenizer.ggml.model
  Result<std::shared_ptr<const Tokenizer>> (*make)(text::Vocab vocab);
  bool has_pre = false;  // pre-tokenizers to choose from
};

constexpr std::array kKinds = {
    Kind{"gpt2", &text::make_bpe, /*has_pre=*/true},
    Kind{"llama", &text::make_spm},
    Kind{"gemma4", &text::make_char_bpe},
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(const gguf::File& file, std::string_view pre) {
  text::Vocab vocab = TRY(text::read_vocab(file, pre));
  for (const Kind& kind : kKinds) {
    if (kind.model != vocab.model) continue;
    if (kind.has_pre) return kind.make(std::move(vocab));
    if (!pre.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("tokenizers of model '{}' have no pre-tokenizer; do not name one", kind.model)};
    }
    vocab.pre.reset();  // files say "default" all the same
    return kind.make(std::move(vocab));
  }
  std::string known;
  for (const Kind& kind : kKinds) known.append(known.empty() ? "" : ", ").append(kind.model);
  return Error{Code::unsupported,
               fmt::format("tokenizer model '{}' is not supported (known: {}); give token ids instead of text",
                           printable(vocab.model), known)};
}

std::string Tokenizer::decode(std::span<const Token> ids, bool show_special) const {
  std::string text;
  for (Token id : ids) text += piece(id, show_special);
  return text;
}

}  // namespace sluice
