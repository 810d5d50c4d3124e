// Byte-pair encoding over characters in SentencePiece's spelling (tokenizer.ggml.model = gemma4).
#pragma once
#include <memory>

#include "text/vocab.h"

namespace sluice::text {

// Text is parted at runs of line ends alone, and such a run that is a token is taken whole.
Result<std::shared_ptr<const Tokenizer>> make_char_bpe(Vocab vocab);

}  // namespace sluice::text
