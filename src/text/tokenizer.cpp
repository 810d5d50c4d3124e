// The kinds of tokenizer: one row each, one file each.
#include "sluice/tokenizer.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "text/bpe.h"

namespace sluice {
namespace {

struct Kind {
  std::string_view model;  // tokenizer.ggml.model
  Result<std::shared_ptr<const Tokenizer>> (*make)(text::Vocab vocab);
};

constexpr std::array kKinds = {
    Kind{"gpt2", &text::make_bpe},
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(const gguf::File& file, std::string_view pre) {
  text::Vocab vocab = TRY(text::read_vocab(file, pre));
  for (const Kind& kind : kKinds) {
    if (kind.model == vocab.model) return kind.make(std::move(vocab));
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
