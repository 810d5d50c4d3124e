// Turns of a chat in the ChatML form, as token ids.
#pragma once
#include <string_view>
#include <vector>

#include "sluice/tokenizer.h"

namespace sluice::cli {

// The vocabulary has the two control tokens of ChatML.
bool has_chatml(const Tokenizer& tokenizer);

// Up to where the assistant begins to speak. `first`: starts the text (BOS, and the system message unless empty);
// otherwise ends the assistant's turn before. Control tokens written out in `user` stay plain text.
std::vector<Token> chatml_turn(const Tokenizer& tokenizer, bool first, std::string_view system, std::string_view user);

}  // namespace sluice::cli
