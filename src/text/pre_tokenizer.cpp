#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <cstdint>
#include <new>

#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace sluice::text {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// Unicode's White_Space, as members of a class.
constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Puts kWhiteSpace in the place of \s and \S. \S inside a class is not supported; no rule has it.
std::string expand_white_space(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      if (escaped == 's' && in_class) {
        out += kWhiteSpace;
      } else if (escaped == 's' || escaped == 'S') {
        out.append(escaped == 's' ? "[" : "[^").append(kWhiteSpace).append("]");
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct Expression {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool has_jit = false;
};

}  // namespace

struct PreTokenizer::Impl {
  std::vector<Expression> expressions;
  std::unique_ptr<pcre2_match_context, FreeContext> context;

  // End of the match, and its start in *start; none: 0.
  size_t match(const Expression& expression, std::string_view piece, size_t from, pcre2_match_data* data,
               size_t* start) const;
  void cut(const Expression& expression, std::string_view piece, pcre2_match_data* data,
           std::vector<std::string_view>& out) const;
};

size_t PreTokenizer::Impl::match(const Expression& expression, std::string_view piece, size_t from,
                                 pcre2_match_data* data, size_t* start) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  int n_groups = PCRE2_ERROR_JIT_STACKLIMIT;
  if (expression.has_jit) {
    n_groups =
        pcre2_jit_match(expression.code.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK, data, context.get());
  }
  // The interpreter keeps its backtracking on the heap, so long runs cost memory and never the stack.
  if (n_groups < 0 && n_groups != PCRE2_ERROR_NOMATCH) {
    n_groups = pcre2_match(expression.code.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data,
                           context.get());
  }
  if (n_groups == PCRE2_ERROR_NOMATCH) return 0;
  if (n_groups < 0) throw std::bad_alloc();  // limits are off and the text is well-formed: only memory is left
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  *start = ends[0];
  return ends[1];
}

void PreTokenizer::Impl::cut(const Expression& expression, std::string_view piece, pcre2_match_data* data,
                             std::vector<std::string_view>& out) const {
  size_t done = 0;
  while (done < piece.size()) {
    size_t start = 0;
    const size_t end = match(expression, piece, done, data, &start);
    if (end <= start) break;  // none; an empty match cannot be (every expression takes at least one character)
    if (start > done) out.push_back(piece.substr(done, start - done));
    out.push_back(piece.substr(start, end - start));
    done = end;
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
}

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::span<const std::string_view> expressions, bool use_jit) {
  auto impl = std::make_unique<Impl>();
  impl->context.reset(pcre2_match_context_create(nullptr));
  if (!impl->context) return Error{Code::out_of_memory, "no memory for the pre-tokenizer; close other programs"};
  pcre2_set_match_limit(impl->context.get(), UINT32_MAX);
  pcre2_set_depth_limit(impl->context.get(), UINT32_MAX);
  pcre2_set_heap_limit(impl->context.get(), UINT32_MAX);
  for (std::string_view published : expressions) {
    const std::string expression = expand_white_space(published);
    int error = 0;
    PCRE2_SIZE at = 0;
    Expression compiled;
    compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                      PCRE2_UTF | PCRE2_NO_UTF_CHECK, &error, &at, nullptr));
    if (!compiled.code) {
      return Error{Code::internal,
                   fmt::format("the PCRE2 library refuses a pre-tokenizer expression (error {} at {}); it "
                               "must be version 10.30 or newer and have Unicode support",
                               error, at)};
    }
    compiled.has_jit = use_jit && pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE) == 0;
    impl->expressions.push_back(std::move(compiled));
  }
  return PreTokenizer(std::move(impl));
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  words.clear();
  if (text.empty()) return;
  words.push_back(text);
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  std::vector<std::string_view> pieces;
  for (const Expression& expression : impl_->expressions) {
    pieces.swap(words);
    words.clear();
    for (std::string_view piece : pieces) impl_->cut(expression, piece, data.get(), words);
  }
}

}  // namespace sluice::text
