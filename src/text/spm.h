// SentencePiece's merging by score (tokenizer.ggml.model = llama).
#pragma once
#include <memory>

#include "text/vocab.h"

namespace sluice::text {

// Neighbours whose texts joined are a token merge, the highest score first, the leftmost of equals. Where the file does
// not say otherwise (tokenizer.ggml.add_space_prefix), text gets a space in front at the beginning and after every
// special token, so decoding the ids gives that space, too.
Result<std::shared_ptr<const Tokenizer>> make_spm(Vocab vocab);

}  // namespace sluice::text
