#include "sluice/embedding.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice {
namespace {

constexpr size_t kChunk = 4096;  // tokens whose states are held at a time

constexpr std::array<std::string_view, 4> kPoolings = {"none", "mean", "cls", "last"};

// Appends or adds up the rows that a step gave.
class Pool {
 public:
  Pool(Pooling pooling, size_t n_embd) : pooling_(pooling), n_embd_(n_embd) {}

  void take(std::span<const float> rows) {
    if (pooling_ == Pooling::none) {
      out_.insert(out_.end(), rows.begin(), rows.end());
    } else if (pooling_ == Pooling::mean) {
      sums_.resize(n_embd_);
      for (size_t i = 0; i < rows.size(); ++i) sums_[i % n_embd_] += rows[i];
      n_rows_ += rows.size() / n_embd_;
    } else if (pooling_ == Pooling::last || out_.empty()) {
      const auto row = pooling_ == Pooling::last ? rows.last(n_embd_) : rows.first(n_embd_);
      out_.assign(row.begin(), row.end());
    }
  }

  std::vector<float> finish(bool normalise) {
    for (const double sum : sums_) out_.push_back(static_cast<float>(sum / static_cast<double>(n_rows_)));
    for (size_t at = 0; normalise && at < out_.size(); at += n_embd_) {
      const std::span row = std::span(out_).subspan(at, n_embd_);
      double squares = 0;
      for (const float value : row) squares += double{value} * value;
      const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
      for (float& value : row) value = static_cast<float>(value * scale);
    }
    return std::move(out_);
  }

 private:
  Pooling pooling_;
  size_t n_embd_;
  size_t n_rows_ = 0;
  std::vector<double> sums_;  // (n_embd) with Pooling::mean
  std::vector<float> out_;
};

}  // namespace

Result<Pooling> parse_pooling(std::string_view name) {
  const auto found = std::find(kPoolings.begin(), kPoolings.end(), name);
  if (found == kPoolings.end())
    return Error{Code::invalid_argument, "pooling is one of none, mean, cls and last; choose one of them"};
  return static_cast<Pooling>(found - kPoolings.begin());
}

Result<Pooling> default_pooling(const ModelInfo& model) {
  // The file's numbers: 0 none, 1 mean, 2 cls, 3 last, 4 rank.
  if (model.pooling_type < 0) return Pooling::last;
  if (static_cast<size_t>(model.pooling_type) < kPoolings.size()) return static_cast<Pooling>(model.pooling_type);
  return Error{Code::unsupported, "this model ranks texts, which needs more than pooling; give a pooling to use"};
}

Result<std::vector<float>> embed(Engine& engine, Sequence& sequence, std::span<const Token> tokens,
                                 const EmbedOptions& options) {
  TRY(sequence.truncate(0));
  Pool pool(options.pooling, engine.model().n_embd);
  for (size_t at = 0; at < tokens.size() || at == 0; at += kChunk) {
    const auto piece = tokens.subspan(at, std::min(kChunk, tokens.size() - at));
    const bool is_last = at + piece.size() == tokens.size();
    StepOptions step{.embeddings = true};
    step.on_progress = [&](uint32_t done, uint32_t) {
      return !options.on_progress || options.on_progress(at + done, tokens.size());
    };
    const Logits wanted = options.pooling != Pooling::last ? Logits::all : is_last ? Logits::last : Logits::none;
    const StepResult result = TRY(engine.step({{.sequence = &sequence, .tokens = piece, .logits = wanted}}, step));
    if (std::find(result.row_failed.begin(), result.row_failed.end(), 1) != result.row_failed.end())
      return Error{Code::unsupported, "the model computed numbers that are none (NaN); download the file again"};
    if (wanted != Logits::none) pool.take(result.embeddings);
  }
  return pool.finish(options.normalise);
}

}  // namespace sluice
