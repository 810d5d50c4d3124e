#include "sluice/speculate.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr uint32_t kFewest = 2;       // tokens that must match
constexpr uint32_t kLongest = 32;     // longer matches count as this long
constexpr uint32_t kCandidates = 24;  // places compared, the newest first
constexpr double kMemory = 24;        // guesses that a record remembers
// A draft costs certainly and pays perhaps: it must promise this much more than a step without.
constexpr double kWorth = 1.03;

uint64_t pair_of(Token a, Token b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

}  // namespace

Speculator::Speculator(const SpeculationParams& params) : params_(params) {
  // Before there is experience: short matches are chance, long ones are copies.
  constexpr std::array<double, kBuckets> kRate = {0.25, 0.35, 0.45, 0.6, 0.7, 0.8, 0.85};
  for (uint32_t i = 0; i < kBuckets; ++i) records_[i] = {kRate[i] * 4, 4};
}

uint32_t Speculator::bucket(uint32_t n_matching) {
  constexpr std::array<uint32_t, kBuckets - 1> kLast = {2, 3, 4, 6, 9, 15};
  return static_cast<uint32_t>(std::lower_bound(kLast.begin(), kLast.end(), n_matching) - kLast.begin());
}

void Speculator::learn(Token id) {
  if (n_matching_ == 0) return;
  Record& record = records_[bucket(n_matching_)];
  const bool right = text_[match_] == id;
  record.all += 1;
  record.right += right ? 1 : 0;
  if (record.all > kMemory) {
    record.right *= kMemory / record.all;
    record.all = kMemory;
  }
  // The longest match of a text is, one token later, still the longest.
  n_matching_ = right ? std::min(n_matching_ + 1, kLongest) : 0;
  match_ += right ? 1 : 0;
}

void Speculator::find_match() {
  const auto n = static_cast<uint32_t>(text_.size());
  const auto found = last_.find(pair_of(text_[n - 2], text_[n - 1]));
  if (found == last_.end()) return;
  uint32_t end = found->second;  // 0: none
  for (uint32_t tries = 0; end != 0 && tries < kCandidates && n_matching_ < kLongest; ++tries, end = before_[end]) {
    uint32_t length = kFewest;
    while (length < kLongest && length < end && text_[end - 1 - length] == text_[n - 1 - length]) ++length;
    if (length <= n_matching_) continue;
    n_matching_ = length;
    match_ = end;
  }
}

void Speculator::accept(Token id) {
  learn(id);
  text_.push_back(id);
  const size_t n = text_.size();
  before_.resize(n + 1);  // [i]: of the pair that ends before token i
  if (n < kFewest) return;
  if (n_matching_ == 0) find_match();
  // The pair enters the lists only now, so that the end of the text does not match itself.
  uint32_t& last = last_[pair_of(text_[n - 2], id)];
  before_[n] = last;
  last = static_cast<uint32_t>(n);
}

Token Speculator::guess(size_t i) const {
  // A guess beyond the text's end repeats the guesses: the text goes round in a circle.
  const size_t at = match_ + i, n = text_.size();
  return at < n ? text_[at] : text_[match_ + (at - n) % (n - match_)];
}

uint32_t Speculator::best_length(uint32_t most) const {
  uint32_t best = 0;
  double best_gain = kWorth, tokens = 1, sure = 1, cost = 1 + params_.first_cost;
  for (uint32_t i = 1; i <= most; ++i) {
    sure *= records_[bucket(std::min(n_matching_ + i - 1, kLongest))].rate();
    tokens += sure;
    cost += params_.token_cost;
    if (tokens / cost <= best_gain) continue;
    best_gain = tokens / cost;
    best = i;
  }
  return best;
}

std::span<const Token> Speculator::propose(Token id, uint32_t most) {
  accept(id);
  proposal_.assign(1, id);
  n_taken_ = 1;
  if (n_matching_ != 0) {
    const uint32_t n = best_length(std::min(most, params_.n_most));
    for (uint32_t i = 0; i < n; ++i) proposal_.push_back(guess(i));
  }
  ++counts_.n_steps;
  counts_.n_drafted += proposal_.size() - 1;
  return proposal_;
}

bool Speculator::take(Token id) {
  if (n_taken_ >= proposal_.size() || proposal_[n_taken_] != id) return false;
  accept(id);
  ++n_taken_;
  ++counts_.n_accepted;
  return true;
}

}  // namespace sluice
