#include "text/vocab_tokenizer.h"

#include <array>
#include <charconv>

namespace sluice::text {
namespace {

// Channel markers of the harmony format: part of the visible text, since only the caller can tell the channels apart.
constexpr std::array<std::string_view, 4> kChannelMarkers = {"<|start|>", "<|message|>", "<|channel|>",
                                                             "<|constrain|>"};

// The value of "<0x0A>", the spelling of a byte token; -1 for any other text.
int byte_value(std::string_view token_text) {
  if (token_text.size() != 6 || !token_text.starts_with("<0x") || token_text.back() != '>') return -1;
  int value = 0;
  const char* end = token_text.data() + 5;
  const auto [at, error] = std::from_chars(token_text.data() + 3, end, value, 16);
  return error == std::errc() && at == end ? value : -1;
}

}  // namespace

VocabTokenizer::VocabTokenizer(Vocab vocab, bool adds_bos, bool adds_eos)
    : vocab_(std::move(vocab)),
      adds_bos_(vocab_.add_bos.value_or(adds_bos) && vocab_.bos >= 0),
      adds_eos_(vocab_.add_eos.value_or(adds_eos) && vocab_.eos >= 0),
      ends_(vocab_.tokens.size()) {
  by_text_.reserve(vocab_.tokens.size());
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) by_text_.emplace(vocab_.tokens[i], static_cast<Token>(i));
  settle_types();
  vocab_.merges = {};  // megabytes that only the making of a tokenizer needs
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const TokenType type = vocab_.types[i];
    if (type == TokenType::user_defined) user_defined_.add(vocab_.tokens[i], static_cast<Token>(i));
    if (type == TokenType::user_defined || type == TokenType::control || type == TokenType::unknown) {
      special_.add(vocab_.tokens[i], static_cast<Token>(i));
    }
  }
}

void VocabTokenizer::settle_types() {
  // Where turns end otherwise, </s> is a tag of HTML.
  const Token strike = find("</s>");
  const bool is_tag =
      strike >= 0 && strike != vocab_.eos && (type(strike) == TokenType::user_defined || find("<|tool_response>") >= 0);
  if (is_tag && type(strike) == TokenType::control) vocab_.types[static_cast<size_t>(strike)] = TokenType::normal;
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    if (is_tag && i == static_cast<size_t>(strike)) continue;
    const std::string& text = vocab_.tokens[i];
    if (text.empty() || (text[0] != '<' && text[0] != '[' && text[0] != '_'))
      continue;  // no known text begins otherwise
    const KnownText known = known_text(text);
    if (!known.is_control || (vocab_.types[i] == TokenType::normal && vocab_.is_merged(text))) continue;
    ends_[i] = known.ends;
    vocab_.types[i] = TokenType::control;
  }
  for (Token id : {vocab_.eos, vocab_.eot, vocab_.eom}) {
    if (id >= 0) ends_[static_cast<size_t>(id)] = true;
  }
  for (std::string_view marker : kChannelMarkers) {
    if (const Token id = find(marker); id >= 0) vocab_.types[static_cast<size_t>(id)] = TokenType::user_defined;
  }
  // In the harmony format <|end|> closes a channel, not the answer.
  const Token end = find("<|end|>");
  const bool harmony = find("<|return|>") >= 0 && find("<|call|>") >= 0;
  const bool calls_and_flush = find("<|calls|>") >= 0 && find("<|flush|>") >= 0;
  if (end >= 0 && end != vocab_.eos && (harmony || calls_and_flush)) {
    ends_[static_cast<size_t>(end)] = false;
    vocab_.types[static_cast<size_t>(end)] = TokenType::user_defined;
  }
}

Token VocabTokenizer::find(std::string_view token_text) const {
  const auto found = by_text_.find(token_text);
  return found == by_text_.end() ? -1 : found->second;
}

std::vector<Token> VocabTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Token> out;
  out.reserve(text.size() / 3 + 2);
  const bool wants_bos = options.add_bos && adds_bos_;
  if (wants_bos) out.push_back(vocab_.bos);
  const size_t n_before = out.size();
  encode_parts(text, options.parse_special, out);
  if (wants_bos && !options.repeat_bos && out.size() > n_before && out[n_before] == vocab_.bos) out.erase(out.begin());
  if (options.add_bos && adds_eos_) {
    const bool has_eos = !options.repeat_bos && out.size() > n_before && out.back() == vocab_.eos;
    if (!has_eos) out.push_back(vocab_.eos);
  }
  return out;
}

void VocabTokenizer::encode_parts(std::string_view text, bool parse_special, std::vector<Token>& out) const {
  const TokenTrie& trie = parse_special ? special_ : user_defined_;
  size_t done = 0;
  while (done < text.size()) {
    const TokenTrie::Match match = trie.find(text, done);
    if (match.at > done) encode_plain(text.substr(done, match.at - done), out);
    if (match.n_bytes > 0) out.push_back(match.id);
    done = match.at + match.n_bytes;
  }
}

std::string VocabTokenizer::piece(Token id, bool show_special) const {
  if (!in_range(id)) return {};
  switch (type(id)) {
    case TokenType::normal:
      return plain_piece(id);
    case TokenType::user_defined:
      return token_text(id);
    case TokenType::byte: {
      const int value = byte_value(token_text(id));
      return value < 0 ? plain_piece(id) : std::string(1, static_cast<char>(value));
    }
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::unused:
    case TokenType::undefined:
      break;
  }
  return show_special ? token_text(id) : std::string();
}

}  // namespace sluice::text
