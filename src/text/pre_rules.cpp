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
#define CASED_BY(upper, lower, suffix) \
  R"([^\r\n\p{L}\p{N}]?)" upper "*" lower "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" upper "+" lower "*" suffix
#define CASED_WORD(suffix) CASED_BY(UPPER, LOWER, suffix)
// The script Han. Not \p{Han}: newer PCRE2 takes that to hold punctuation that other scripts use as well.
#define HAN                                                                                                     \
  R"([\x{2E80}-\x{2E99}\x{2E9B}-\x{2EF3}\x{2F00}-\x{2FD5}\x{3005}\x{3007}\x{3021}-\x{3029}\x{3038}-\x{303B})"   \
  R"(\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FA6D}\x{FA70}-\x{FAD9}\x{16FE2}\x{16FE3}\x{16FF0}\x{16FF1})" \
  R"(\x{20000}-\x{2A6DF}\x{2A700}-\x{2B739}\x{2B740}-\x{2B81D}\x{2B820}-\x{2CEA1}\x{2CEB0}-\x{2EBE0})"          \
  R"(\x{2EBF0}-\x{2EE5D}\x{2F800}-\x{2FA1D}\x{30000}-\x{3134A}\x{31350}-\x{323AF}])"
#define NO_HAN(letters) "(?:(?!" HAN ")" letters ")"
// Digits in threes counted from the right, where `after` may follow. Published as {1,3} before any number of threes,
// which would look for the end anew at every group.
#define THREES(digit, after) \
  "(?<!" digit ")" digit "{1,3}(?=(?:" digit "{3})*+" after R"()|\G(?<=)" digit ")" digit "{3}"

constexpr std::string_view kGpt2 = SUFFIX R"(| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)" SPACES;
constexpr std::string_view kLlama3 = SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" SYMBOLS_LINES;
constexpr std::string_view kQwen2 = SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" SYMBOLS_LINES;
constexpr std::string_view kQwen35 =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" LINES;
constexpr std::string_view kGpt4o = CASED_WORD(SUFFIX_ANY_CASE "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES;
constexpr std::string_view kYoutu = CASED_WORD(SUFFIX_ANY_CASE "?") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES;
constexpr std::string_view kKimi =
    HAN "+|" CASED_BY(NO_HAN(UPPER), NO_HAN(LOWER), SUFFIX_ANY_CASE "?") R"(|\p{N}{1,3}|)" SYMBOLS_LINES;
constexpr std::string_view kTekken = CASED_WORD("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES;
// Words hold the joiners of scripts that have them.
constexpr std::string_view kK2Horizon =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}|)" SYMBOLS_LINES;
constexpr std::string_view kUfakzeka = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" SYMBOLS_LINES;
constexpr std::string_view kMinicpm5 = SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)" SYMBOLS_LINES;
// Words of Korean take the spaces between single letters with them.
constexpr std::string_view kExaoneMoe =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
                    R"(\s*[\r\n]|)" SPACES;
// The line ends are published without the look back: a run of spaces was searched for them at its first piece already.
constexpr std::string_view kJais2 =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                    R"((?<!\s)\s*[\r\n]+|(?<=[\r\n])\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|)"
                    R"(\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr std::string_view kBailing =
    R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]|)" SPACES;
constexpr std::string_view kSeedCoder =
    SUFFIX_ANY_CASE R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" LINES;
#define DEEPSEEK_WORDS \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
constexpr std::string_view kDeepseekV3 = DEEPSEEK_WORDS R"([\r\n]*|)" LINES;
constexpr std::string_view kSpark = DEEPSEEK_WORDS R"(|[\r\n]|)" SPACES;

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
constexpr std::string_view kAfmoeEastAsian =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
    R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
    R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
constexpr std::string_view kYoutuEastAsian =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
    R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
    R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// Numbers are cut before every three digits, counted from the right; what is no digit goes with what is before it.
// Published as an empty match before any number of threes, which would look for the end anew at every place.
#define FIRST_DIGITS R"(\p{Nd}{1,2}(?=(?:\p{Nd}{3})*+(?!\p{Nd})))"
#define NO_DIGITS R"((?:\P{Nd}++(?:)" FIRST_DIGITS R"()?)*+)"
constexpr std::string_view kSuperbpeThrees =
    R"(\A)" FIRST_DIGITS NO_DIGITS R"(|\A(?=\P{Nd}))" NO_DIGITS R"(|\G\p{Nd}{3})" NO_DIGITS;
// Published as \s+$ of a piece, which would start anew at every space of a long run.
constexpr std::string_view kSpacesAtEnd = R"((?<!\s)\s++\z)";

const std::vector<PreRule>& rules() {
  static const std::vector<PreRule> table = {
      // What files without a name were split by in the past; only ever used when asked for.
      {{"default"}, {R"([\p{P}$+<=>\^~|]+)", kGpt2, R"(\p{N}+)", R"([0-9][0-9][0-9])"}},
      {{"llama-bpe", "llama3", "llama-v3", "lfm2", "pixtral", "falcon3", "falcon-h1", "midm-2.0", "jina-v5-nano"},
       {kLlama3},
       /*ignore_merges=*/true,
       /*adds_bos=*/true},
      {{"glm4", "chatglm-bpe", "glm5", "dbrx", "smaug-bpe"}, {kLlama3}},
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
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {R"(\p{N}{1,3})", kDeepseekV3EastAsian, kDeepseekV3}},
      {{"spark2_5"}, {R"(\p{N}{1,3})", kDeepseekV3EastAsian, kSpark, R"(\p{N})"}},
      {{"afmoe"}, {THREES(R"(\p{N})", R"((?!\p{N}))"), kAfmoeEastAsian, kDeepseekV3}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {kGpt4o}},
      {{"granite-embed-multi-97m"}, {kGpt4o}, /*ignore_merges=*/true},
      {{"tiny_aya", "cohere2moe"}, {THREES(R"(\p{Nd})", R"((?![\p{L}\p{M}\p{N}\p{Pc}]))"), kGpt4o}},
      {{"youtu"}, {kYoutuEastAsian, kYoutu}, /*ignore_merges=*/true},
      {{"kimi-k2"}, {kKimi}},
      {{"k2-horizon"}, {kK2Horizon}},
      {{"tekken"}, {kTekken}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"seed-coder"}, {kSeedCoder}},
      {{"exaone-moe"}, {kExaoneMoe}},
      {{"jais-2"}, {kJais2}},
      {{"minicpm5"}, {R"(\p{N}{1,3})", kMinicpm5}, /*ignore_merges=*/true},
      {{"ufakzeka"}, {kUfakzeka}},
      {{"laguna"}, {R"([^\n]+|[\n]+)", kQwen2}},
      {{"superbpe"}, {R"(\p{N}+)", kSuperbpeThrees}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
      {{"viking"}, {kBloom, R"(\p{N})"}},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       /*ignore_merges=*/false,
       /*adds_bos=*/true},
      {{"gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe"},
       {},
       false,
       /*adds_bos=*/true,
       /*over_characters=*/true},
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
