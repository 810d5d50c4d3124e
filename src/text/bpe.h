// Byte-level byte-pair encoding (tokenizer.ggml.model = gpt2).
#pragma once
#include <memory>

#include "text/vocab.h"

namespace sluice::text {

// `unsupported` where vocab.pre is missing or not known. Words become tokens by merges; a word's bytes that end in no
// token fall to the byte tokens, and without one to the unknown token or, where there is none, to nothing.
Result<std::shared_ptr<const Tokenizer>> make_bpe(Vocab vocab);

}  // namespace sluice::text
