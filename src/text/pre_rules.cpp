// The table of pre-tokenizers: one row each.
#include "text/pre_tokenizer.h"

namespace sluice::text {
namespace {

// Ends of English words; the second form takes capitals as well.
#define SUFFIX "'s|'t|'re|'ve|'m|'ll|'d"
#define SUFFIX_ANY_CASE R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
// What most expressions end with: punctuation, line ends, other white space.
#define SPACES R"(\s+(?!\S)|\s+)"
#define LINES R"(\s*[\r\n]+|)" SPACES
#define SYMBOLS_LINES R"( ?[^\s\p{L}\p{N}]+[\r\n]*|)" LINES
// Capitals then small letters, or capitals alone: "HTTPServer" is HTTPS, erver; marks go with their letters.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED_WORD(suffix) \
  R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" suffix

constexpr std::string_view kGpt2 = SUFFIX R"(| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)" SPACES;
constexpr std::string_view kLlama3 = SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" SYMBOLS_LINES;
constexpr std::string_view kQwen2 = SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" SYMBOLS_LINES;
constexpr std::string_view kQwen35 =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" LINES;
constexpr std::string_view kGpt4o = CASED_WORD(SUFFIX_ANY_CASE "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES;
constexpr std::string_view kTekken = CASED_WORD("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES;
constexpr std::string_view kBailing =
    R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]|)" SPACES;
constexpr std::string_view kSeedCoder =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" LINES;
constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|)" LINES;

// Letters that have a case, as the vocabulary's makers listed them (an older Unicode, hence not a property).
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekEastAsian = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseekV3EastAsian = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// Published as \s+$ of a piece, which would start anew at every space of a long run.
constexpr std::string_view kSpacesAtEnd = R"((?<!\s)\s++\z)";

const std::vector<PreRule>& rules() {
  static const std::vector<PreRule> table = {
      // What files without a name were split by in the past; only ever used when asked for.
      {{"default"}, {R"([\p{P}$+<=>\^~|]+)", kGpt2, R"(\p{N}+)", R"([0-9][0-9][0-9])"}},
      {{"llama-bpe", "llama3", "llama-v3", "lfm2", "pixtral", "falcon3", "falcon-h1", "midm-2.0"},
       {kLlama3},
       /*ignore_merges=*/true,
       /*adds_bos=*/true},
      {{"glm4", "chatglm-bpe", "dbrx", "smaug-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2", "kormo", "f2llmv2"},
       {kQwen2}},
      {{"qwen35"}, {kQwen35}},
      {{"gpt-2", "mpt", "olmo", "phi-2", "jais", "trillion", "granite-docling", "exaone4", "gigachat", "mellum",
        "a.x-4.0", "modern-bert"},
       {kGpt2}},
      {{"refact", "starcoder", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {R"(\p{N})", kGpt2}},
      {{"falcon"}, {R"([\p{P}$+<=>\^~|`]+)", kGpt2, R"([0-9][0-9][0-9])"}},
      {{"deepseek-llm"},
       {R"([\r\n])", kDeepseekLetters, kDeepseekPunctuation, kSpacesAtEnd, kDeepseekEastAsian, R"(\p{N}+)"}},
      {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekEastAsian, R"(\p{N})"}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {R"(\p{N}{1,3})", kDeepseekV3EastAsian, kDeepseekV3}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {kGpt4o}},
      {{"tekken"}, {kTekken}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"seed-coder"}, {kSeedCoder}},
  };
  return table;
}

}  // namespace

const PreRule* find_pre_rule(std::string_view name) {
  for (const PreRule& rule : rules()) {
    for (std::string_view candidate : rule.names) {
      if (candidate == name) return &rule;
    }
  }
  return nullptr;
}

std::string pre_rule_names() {
  std::string names;
  for (const PreRule& rule : rules()) {
    for (std::string_view name : rule.names) names.append(names.empty() ? "" : ", ").append(name);
  }
  return names;
}

}  // namespace sluice::text
