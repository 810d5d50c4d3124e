#include "text/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"

namespace sluice::text {
namespace {

constexpr const char* kRemedy = "download the file again, or convert the model anew";

Error corrupt(const std::string& what) { return Error{Code::corrupt_file, what + "; " + kRemedy}; }

// An id's value: `absent` where the vocabulary has such a token but the file no key, -1 where the file says "none" (-1,
// or 2^32 - 1 from converters that wrote it so).
Result<Token> read_id(const gguf::File& file, std::string_view key, size_t n_vocab, Token absent = -1) {
  const gguf::Value* value = file.find(key);
  if (!value) return absent < 0 || static_cast<size_t>(absent) < n_vocab ? absent : Token{-1};
  const auto id = value->as_int();
  if (!id) return corrupt(fmt::format("{} is no token id", key));
  if (*id == -1 || *id == int64_t{std::numeric_limits<uint32_t>::max()}) return Token{-1};
  if (*id < 0 || static_cast<uint64_t>(*id) >= n_vocab) {
    return corrupt(fmt::format("{} is {}, in a vocabulary of {} tokens", key, *id, n_vocab));
  }
  return static_cast<Token>(*id);
}

Result<std::optional<bool>> read_flag(const gguf::File& file, std::string_view key) {
  if (!file.find(key)) return std::optional<bool>{};
  return std::optional<bool>{TRY(file.get_bool(key))};
}

Result<std::vector<TokenType>> read_types(const gguf::File& file, size_t n_vocab) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  if (!file.find(kKey)) return std::vector<TokenType>(n_vocab, TokenType::normal);
  const std::vector<int64_t> numbers = TRY(file.get_ints(kKey));
  std::vector<TokenType> types(numbers.size());
  // Numbers of a later format are no reason to refuse the file: such a token is never produced from text.
  std::transform(numbers.begin(), numbers.end(), types.begin(),
                 [](int64_t n) { return n >= 1 && n <= 6 ? static_cast<TokenType>(n) : TokenType::undefined; });
  return types;
}

struct KnownRow {
  std::string_view text;
  bool ends;
};

// "ends" is also true of the separators of code models, after which nothing of the answer follows.
constexpr std::array kKnown = {
    KnownRow{"<|eot_id|>", true},
    KnownRow{"<|eom_id|>", true},
    KnownRow{"<|im_end|>", true},
    KnownRow{"<|end|>", true},
    KnownRow{"<|endoftext|>", true},
    KnownRow{"<|end_of_text|>", true},
    KnownRow{"<end_of_turn>", true},
    KnownRow{"<end_of_utterance>", true},
    KnownRow{"</s>", true},
    KnownRow{"<eos>", true},
    KnownRow{"<EOT>", true},
    KnownRow{"_<EOT>", true},
    KnownRow{"[EOT]", true},
    KnownRow{"[EOS]", true},
    KnownRow{"<|return|>", true},
    KnownRow{"<|call|>", true},
    KnownRow{"<|calls|>", true},
    KnownRow{"<|flush|>", true},
    KnownRow{"<turn|>", true},
    KnownRow{"<|tool_response>", true},
    KnownRow{"[e~[", true},
    KnownRow{"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", true},
    KnownRow{"<|fim_pad|>", true},
    KnownRow{"<fim_pad>", true},
    KnownRow{"<|repo_name|>", true},
    KnownRow{"<|fim_repo|>", true},
    KnownRow{"<|file_sep|>", true},
    KnownRow{"<|fim_prefix|>", false},
    KnownRow{"<|fim_suffix|>", false},
    KnownRow{"<|fim_middle|>", false},
    KnownRow{"<fim_prefix>", false},
    KnownRow{"<fim_suffix>", false},
    KnownRow{"<fim_middle>", false},
    KnownRow{"<|code_prefix|>", false},
    KnownRow{"<|code_suffix|>", false},
    KnownRow{"<|code_middle|>", false},
    KnownRow{"<\uFF5Cfim\u2581begin\uFF5C>", false},
    KnownRow{"<\uFF5Cfim\u2581hole\uFF5C>", false},
    KnownRow{"<\uFF5Cfim\u2581end\uFF5C>", false},
};

}  // namespace

KnownText known_text(std::string_view token_text) {
  for (const KnownRow& row : kKnown) {
    if (row.text == token_text) return {true, row.ends};
  }
  return {};
}

Result<void> Vocab::check() const {
  if (tokens.empty()) return corrupt("the vocabulary is empty");
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<Token>::max()))
    return corrupt("the vocabulary is too large");
  if (types.size() != tokens.size()) {
    return corrupt(fmt::format("the vocabulary has {} tokens but {} token types", tokens.size(), types.size()));
  }
  if (!scores.empty() && scores.size() != tokens.size()) {
    return corrupt(fmt::format("the vocabulary has {} tokens but {} scores", tokens.size(), scores.size()));
  }
  for (Token id : {bos, eos, eot, eom, pad, unknown}) {
    if (id < -1 || (id >= 0 && static_cast<size_t>(id) >= tokens.size())) {
      return corrupt(fmt::format("special token {} lies outside of a vocabulary of {} tokens", id, tokens.size()));
    }
  }
  return {};
}

bool Vocab::is_merged(std::string_view token_text) const {
  for (std::string_view merge : merges) {
    if (merge.size() != token_text.size() + 1) continue;
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || !token_text.starts_with(merge.substr(0, space))) continue;
    if (token_text.substr(space) == merge.substr(space + 1)) return true;
  }
  return false;
}

Result<Vocab> read_vocab(const gguf::File& file, std::string_view pre) {
  Vocab vocab;
  if (!file.find("tokenizer.ggml.model")) {
    return Error{Code::not_found,
                 "the file has no vocabulary (no tokenizer.ggml.model key); give token ids instead of text"};
  }
  vocab.model = TRY(file.get_string("tokenizer.ggml.model"));
  if (vocab.model == "no_vocab" || vocab.model == "none") {
    return Error{Code::not_found, "the file says that it has no vocabulary; give token ids instead of text"};
  }
  if (!pre.empty()) {
    vocab.pre = std::string(pre);
  } else if (file.find("tokenizer.ggml.pre")) {
    vocab.pre = TRY(file.get_string("tokenizer.ggml.pre"));
  }
  if (!file.find("tokenizer.ggml.tokens")) return corrupt("tokenizer.ggml.tokens is missing");
  vocab.tokens = TRY(file.get_strings("tokenizer.ggml.tokens"));
  const size_t n_vocab = vocab.tokens.size();
  vocab.types = TRY(read_types(file, n_vocab));
  if (file.find("tokenizer.ggml.scores")) {
    const std::vector<double> scores = TRY(file.get_floats("tokenizer.ggml.scores"));
    vocab.scores.assign(scores.begin(), scores.end());
  }
  if (file.find("tokenizer.ggml.merges")) vocab.merges = TRY(file.get_strings("tokenizer.ggml.merges"));
  const bool is_spm = vocab.model == "llama";  // such files may leave out ids that are as in the first of them
  vocab.bos = TRY(read_id(file, "tokenizer.ggml.bos_token_id", n_vocab, is_spm ? 1 : -1));
  vocab.eos = TRY(read_id(file, "tokenizer.ggml.eos_token_id", n_vocab, is_spm ? 2 : -1));
  vocab.eot = TRY(read_id(file, "tokenizer.ggml.eot_token_id", n_vocab));
  vocab.eom = TRY(read_id(file, "tokenizer.ggml.eom_token_id", n_vocab));
  vocab.pad = TRY(read_id(file, "tokenizer.ggml.padding_token_id", n_vocab));
  vocab.unknown = TRY(read_id(file, "tokenizer.ggml.unknown_token_id", n_vocab, is_spm ? 0 : -1));
  vocab.add_bos = TRY(read_flag(file, "tokenizer.ggml.add_bos_token"));
  vocab.add_eos = TRY(read_flag(file, "tokenizer.ggml.add_eos_token"));
  vocab.add_space_prefix = TRY(read_flag(file, "tokenizer.ggml.add_space_prefix"));
  if (file.find("tokenizer.chat_template")) vocab.chat_template = TRY(file.get_string("tokenizer.chat_template"));
  TRY(vocab.check());
  return vocab;
}

}  // namespace sluice::text
