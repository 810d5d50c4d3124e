#include "engine/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>

#include "engine/sampling.h"
#include "ops/moe.h"
#include "sluice/sampler.h"

namespace sluice::engine {
namespace {

using kernels::kPageTokens;
using kernels::Penalty;
using kernels::SamplingRule;
using kernels::SeqSlice;
using kernels::StepState;

// The tokens of one input that an ubatch takes.
struct Slice {
  size_t input = 0;
  uint32_t first = 0, n = 0;  // of the input's tokens
};

struct Ubatch {
  std::vector<Slice> slices;
  uint32_t n_tokens = 0;
  uint32_t first_token = 0;  // counted over the whole step
  std::vector<uint32_t> out_tokens;
};

uint32_t pages_for(uint64_t n_tokens) { return static_cast<uint32_t>((n_tokens + kPageTokens - 1) / kPageTokens); }

Result<void> check_tokens(const Core& core, const StepInput& input, const Sequence::Impl& sequence) {
  if (input.tokens.empty())
    return Error(Code::invalid_argument, "a step without tokens computes nothing; give at least one");
  for (Token id : input.tokens) {
    if (id < 0 || static_cast<uint32_t>(id) >= core.model->config().n_vocab) {
      return Error(Code::invalid_argument,
                   fmt::format("token {} is outside the vocabulary of {}; give ids of this model", id,
                               core.model->config().n_vocab));
    }
  }
  const uint64_t length = sequence.tokens.size() + input.tokens.size();
  if (length > core.info.n_ctx) {
    return Error(Code::invalid_argument,
                 fmt::format("{} tokens do not fit the context of {}; shorten the text or raise --ctx-size", length,
                             core.info.n_ctx));
  }
  return {};
}

Result<void> check_inputs(const Core& core, std::span<const StepInput> inputs) {
  size_t n_pages = 0;
  std::vector<const Sequence::Impl*> seen;
  std::map<uint32_t, uint32_t> n_writers;  // of pages that forks share
  for (const StepInput& input : inputs) {
    if (input.sequence == nullptr || input.sequence->impl().core.get() != &core) {
      return Error(Code::invalid_argument,
                   "a step's sequence belongs to another engine; use new_sequence() of this one");
    }
    const Sequence::Impl& sequence = input.sequence->impl();
    seen.push_back(&sequence);
    TRY(check_tokens(core, input, sequence));
    n_pages += pages_for(sequence.tokens.size() + input.tokens.size()) - sequence.pages.size();
    if (sequence.tokens.size() % kPageTokens != 0 && core.pages.shared(sequence.pages.back()))
      ++n_writers[sequence.pages.back()];
  }
  // Each writer copies the page, but for the last one where nobody else holds it any more.
  for (const auto& [page, n] : n_writers) n_pages += std::min(n, core.pages.n_users(page) - 1);
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return Error(Code::invalid_argument, "a sequence comes twice in one step; join its tokens");
  }
  if (n_pages > core.pages.n_free()) {
    return Error(Code::out_of_memory,
                 fmt::format("the cache is full ({} of {} tokens free); end a sequence or raise the cache's size",
                             core.pages.n_free() * kPageTokens, core.pages.n_pages() * kPageTokens));
  }
  return {};
}

Result<void> check_forced(const Core& core, std::span<const StepInput> inputs, const Routing& forced) {
  size_t n_tokens = 0;
  for (const StepInput& input : inputs) n_tokens += input.tokens.size();
  const models::Config& config = core.model->config();
  if (forced.n_used != config.n_expert_used) {
    return Error(Code::invalid_argument,
                 fmt::format("the routing has {} experts per token and the model uses {}; give a matching one",
                             forced.n_used, config.n_expert_used));
  }
  for (uint32_t layer : core.model_info.moe_layers) {
    const auto it = forced.layers.find(layer);
    if (it == forced.layers.end() || it->second.experts.size() != n_tokens * config.layers[layer].n_expert_used) {
      return Error(
          Code::invalid_argument,
          fmt::format("the routing lacks layer {}, or has another number of tokens than {} there", layer, n_tokens));
    }
    for (uint32_t expert : it->second.experts) {
      if (expert >= config.n_expert) {
        return Error(Code::invalid_argument,
                     fmt::format("the routing of layer {} names expert {} of {}", layer, expert, config.n_expert));
      }
    }
  }
  return {};
}

std::vector<Ubatch> cut(const Core& core, std::span<const StepInput> inputs) {
  std::vector<Ubatch> ubatches(1);
  uint32_t n_total = 0;
  const size_t most_slices = std::min(core.max_sequences, core.n_ubatch);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto n = static_cast<uint32_t>(inputs[i].tokens.size());
    for (uint32_t first = 0; first < n;) {
      if (ubatches.back().n_tokens == core.n_ubatch || ubatches.back().slices.size() == most_slices) {
        ubatches.emplace_back().first_token = n_total;
      }
      Ubatch& ubatch = ubatches.back();
      const uint32_t take = std::min(n - first, core.n_ubatch - ubatch.n_tokens);
      for (uint32_t t = 0; t < take; ++t) {
        const bool last = first + t + 1 == n;
        if (inputs[i].logits == Logits::all || (inputs[i].logits == Logits::last && last))
          ubatch.out_tokens.push_back(ubatch.n_tokens + t);
      }
      ubatch.slices.push_back({i, first, take});
      ubatch.n_tokens += take;
      n_total += take;
      first += take;
    }
  }
  return ubatches;
}

// Pages for the slice's positions; a page that a fork also holds is copied before it is written.
Result<void> provide_pages(Core& core, Sequence::Impl& sequence, uint32_t n_new) {
  if (sequence.tokens.size() % kPageTokens != 0 && core.pages.shared(sequence.pages.back())) {
    const uint32_t old = sequence.pages.back(), fresh = core.pages.take();
    sequence.pages.back() = fresh;
    core.pages.give_back(old);
    for (const auto& [layer, cache] : core.caches) {
      TRY(core.backend->copy(cache.k + fresh * cache.k_page_bytes, cache.k + old * cache.k_page_bytes,
                             cache.k_page_bytes));
      TRY(core.backend->copy(cache.v + fresh * cache.v_page_bytes, cache.v + old * cache.v_page_bytes,
                             cache.v_page_bytes));
    }
  }
  while (sequence.pages.size() < pages_for(sequence.tokens.size() + n_new)) sequence.pages.push_back(core.pages.take());
  return {};
}

// The step's inputs in host memory, as StepLayout places them.
class StepImage {
 public:
  explicit StepImage(Core& core) : core_(core), bytes_(core.step_image) {}

  void fill(const Ubatch& ubatch, std::span<const StepInput> inputs) {
    const StepLayout& at = core_.step_layout;
    std::memset(bytes_.data() + at.row_error, 0, ubatch.n_tokens * sizeof(uint32_t));
    uint32_t token = 0, n_page_entries = 0;
    for (size_t s = 0; s < ubatch.slices.size(); ++s) {
      const Slice& slice = ubatch.slices[s];
      const Sequence::Impl& sequence = inputs[slice.input].sequence->impl();
      SeqSlice& seq = items<SeqSlice>(at.seqs)[s];
      seq = {};
      seq.first_token = token;
      seq.n_tokens = slice.n;
      seq.first_pos = static_cast<uint32_t>(sequence.tokens.size());
      seq.state_slot = sequence.slot;
      seq.first_page = n_page_entries;
      for (uint32_t page : sequence.pages) items<uint32_t>(at.page_table)[n_page_entries++] = page;
      for (uint32_t t = 0; t < slice.n; ++t, ++token) {
        items<uint32_t>(at.token)[token] = static_cast<uint32_t>(inputs[slice.input].tokens[slice.first + t]);
        items<uint32_t>(at.pos)[token] = seq.first_pos + t;
        items<uint32_t>(at.seq)[token] = static_cast<uint32_t>(s);
      }
    }
    used_ = at.page_table + n_page_entries * sizeof(uint32_t);
    rules_ = (used_ + 63) / 64 * 64;
    StepState& state = *items<StepState>(0);
    const uint64_t base = core_.memory.step;
    state = {};
    state.token = {base + at.token};
    state.pos = {base + at.pos};
    state.seq = {base + at.seq};
    state.seqs = {base + at.seqs};
    state.page_table = {base + at.page_table};
    state.out_token = {base + at.out_token};
    state.row_error = {base + at.row_error};
    state.grids = {base + at.grids};
    state.n_tokens = ubatch.n_tokens;
    state.n_seqs = static_cast<uint32_t>(ubatch.slices.size());
  }

  void set_out(std::span<const uint32_t> out_tokens) {
    items<StepState>(0)->n_out = static_cast<uint32_t>(out_tokens.size());
    std::copy(out_tokens.begin(), out_tokens.end(), items<uint32_t>(core_.step_layout.out_token));
  }

  // Those of the wanted rows. There is room: Pick::by_rules was chosen for that.
  void set_rules(const RowRules& all, size_t first_row) {
    StepState& state = *items<StepState>(0);
    if (state.n_out == 0) return;
    const std::span rules = std::span(all.rules).subspan(first_row, state.n_out);
    const uint32_t first = rules.front().first_penalty, end = rules.back().first_penalty + rules.back().n_penalties;
    const uint64_t penalties = rules_ + rules.size_bytes();
    state.rule = {core_.memory.step + rules_};
    state.penalty = {core_.memory.step + penalties};
    for (size_t i = 0; i < rules.size(); ++i) {
      SamplingRule& rule = items<SamplingRule>(rules_)[i] = rules[i];
      rule.first_penalty -= first;
    }
    std::copy_n(all.penalties.begin() + first, end - first, items<Penalty>(penalties));
    used_ = penalties + (end - first) * sizeof(Penalty);
  }

  Result<void> upload() { return core_.backend->upload(core_.memory.step, bytes_.first(used_)); }
  // The rows that are wanted, and nothing else: what kernels wrote into row_error stays.
  Result<void> upload_out() {
    TRY(core_.backend->upload(core_.memory.step, bytes_.first(sizeof(StepState))));
    const uint64_t at = core_.step_layout.out_token;
    const size_t n = items<StepState>(0)->n_out;
    TRY(core_.backend->upload(core_.memory.step + at, bytes_.subspan(at, n * sizeof(uint32_t))));
    if (used_ <= rules_) return {};
    return core_.backend->upload(core_.memory.step + rules_, bytes_.subspan(rules_, used_ - rules_));
  }

 private:
  template <class T>
  T* items(uint64_t offset) {
    return reinterpret_cast<T*>(bytes_.data() + offset);
  }
  const Core& core_;
  std::span<std::byte> bytes_;  // what was filled in before stays: nothing reads past what a step fills
  uint64_t used_ = 0;
  uint64_t rules_ = 0;  // where the rules begin, if there are any
};

uint32_t bucket(uint32_t n, uint32_t most) {
  uint32_t size = 1;
  while (size < n) size *= 2;
  return std::min(size, most);
}

// In a form that compilers vectorise: it reads all logits.
bool has_nan(std::span<const float> values) {
  uint32_t n = 0;
  for (const float v : values) n |= v != v ? 1u : 0u;
  return n != 0;
}

bool has_sampler(const StepInput& input) { return input.sampler != nullptr && input.logits != Logits::none; }

class StepRun {
 public:
  StepRun(Core& core, std::span<const StepInput> inputs, const StepOptions& options, StepResult& result)
      : core_(core),
        inputs_(inputs),
        options_(options),
        samples_(std::any_of(inputs.begin(), inputs.end(), has_sampler)),
        wants_logits_(!options.greedy && !std::all_of(inputs.begin(), inputs.end(),
                                                      [](const StepInput& input) {
                                                        return input.logits == Logits::none || input.sampler != nullptr;
                                                      })),
        image_(core),
        result_(result) {}

  Result<void> run() {
    const std::vector<Ubatch> ubatches = cut(core_, inputs_);
    choose_pick();
    prepare_result(ubatches);
    for (const Ubatch& ubatch : ubatches) {
      TRY(run_ubatch(ubatch));
      for (const Slice& slice : ubatch.slices) {
        Sequence::Impl& sequence = inputs_[slice.input].sequence->impl();
        const auto tokens = inputs_[slice.input].tokens.subspan(slice.first, slice.n);
        sequence.append(tokens);
      }
      const uint32_t done = ubatch.first_token + ubatch.n_tokens;
      const uint32_t total = ubatches.back().first_token + ubatches.back().n_tokens;
      if (options_.on_progress && !options_.on_progress(done, total))
        return Error(Code::cancelled, "stopped; start the text again");
    }
    finish_rows();
    return {};
  }

 private:
  // Where logits lie in host memory already, the host's sampler is the faster one; the reference does what devices do.
  void choose_pick() {
    if (wants_logits_ || (!samples_ && !options_.greedy)) return;
    const backend::Caps& caps = core_.backend->caps();
    const bool greedy = std::all_of(inputs_.begin(), inputs_.end(),
                                    [](const StepInput& i) { return !has_sampler(i) || i.sampler->greedy(); });
    if (greedy) {
      if (core_.backend->has({.id = backend::KernelId::argmax})) pick_ = Pick::greedy;
    } else if ((!caps.unified || caps.reference) && core_.backend->has({.id = backend::KernelId::sample_token}) &&
               core_.model->config().n_vocab <= kernels::kMostSampled) {
      rules_ = row_rules(inputs_);
      if (rules_.penalties.size() <= core_.step_layout.n_penalties) pick_ = Pick::by_rules;
    }
  }

  void prepare_result(const std::vector<Ubatch>& ubatches) {
    result_.n_vocab = core_.model->config().n_vocab;
    size_t n_rows = 0;
    for (const Ubatch& ubatch : ubatches) n_rows += ubatch.out_tokens.size();
    result_.logits.resize(pick_ != Pick::none || options_.embeddings ? 0 : n_rows * result_.n_vocab);
    result_.embeddings.resize(options_.embeddings ? n_rows * core_.model->config().n_embd : 0);
    result_.tokens.assign(options_.greedy || samples_ ? n_rows : 0, -1);
    result_.row_failed.resize(n_rows);
    result_.first_row.clear();
    result_.routing.layers.clear();
    uint32_t row = 0;
    for (const StepInput& input : inputs_) {
      result_.first_row.push_back(row);
      row += n_rows_of(input);
    }
    result_.routing.n_used = core_.model->config().n_expert_used;
    result_.routing.n_expert = core_.model->config().n_expert;
  }

  // Rows of logits were looked at when they came; tokens are still to be found in them.
  void finish_rows() {
    if (!options_.greedy && !samples_) return;
    for (size_t row = 0; pick_ != Pick::none && row < result_.n_rows(); ++row)
      result_.row_failed[row] = result_.tokens[row] < 0 ? 1 : 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const uint32_t first = result_.first_row[i], n = n_rows_of(inputs_[i]);
      if (pick_ == Pick::none) pick_rows(inputs_[i], options_.greedy, first, result_);
      if (inputs_[i].sampler != nullptr) cut_draft(inputs_[i], std::span(result_.tokens).subspan(first, n));
    }
    if (!wants_logits_) result_.logits.clear();
  }

  Result<void> run_ubatch(const Ubatch& ubatch) {
    for (const Slice& slice : ubatch.slices) TRY(provide_pages(core_, inputs_[slice.input].sequence->impl(), slice.n));
    image_.fill(ubatch, inputs_);
    // The head is part of the same run where its rows fit the logits' memory: one submit per decoded token.
    const std::span<const uint32_t> out = ubatch.out_tokens;
    const auto n_out = static_cast<uint32_t>(out.size());
    const bool together = n_out <= core_.max_logit_rows;
    const bool capture = (options_.routing || options_.gate) && core_.model->config().n_expert != 0;
    const bool head_too = together && n_out != 0;
    const PlanKey key{bucket(ubatch.n_tokens, core_.n_ubatch),
                      head_too ? bucket(n_out, core_.max_logit_rows) : 0,
                      capture,
                      options_.forced != nullptr,
                      head_too ? pick_ : Pick::none,
                      head_too && options_.embeddings};
    PreparedStep* step = TRY(core_.prepared(key));
    set_out(together ? out : std::span<const uint32_t>());
    TRY(image_.upload());
    if (options_.forced != nullptr) TRY(upload_forced(*step, ubatch));
    TRY(core_.backend->wait(core_.backend->run(*step->plan)));
    TRY(core_.file.check_whole());
    if (capture) TRY(read_routing(*step, ubatch));
    if (together) return read_rows(n_out);
    for (uint32_t first = 0; first < n_out; first += core_.max_logit_rows) {
      const uint32_t n = std::min(core_.max_logit_rows, n_out - first);
      PreparedStep* head =
          TRY(core_.prepared({0, bucket(n, core_.max_logit_rows), false, false, pick_, options_.embeddings}));
      set_out(out.subspan(first, n));
      TRY(image_.upload_out());
      TRY(core_.backend->wait(core_.backend->run(*head->plan)));
      TRY(read_rows(n));
    }
    return {};
  }

  void set_out(std::span<const uint32_t> out_tokens) {
    image_.set_out(out_tokens);
    if (pick_ == Pick::by_rules) image_.set_rules(rules_, rows_read_);
  }

  // Their logits, or only the tokens that the device picked.
  Result<void> read_rows(uint32_t n_rows) {
    if (n_rows == 0) return {};
    if (pick_ != Pick::none) {
      TRY(core_.backend->download(std::as_writable_bytes(std::span(result_.tokens).subspan(rows_read_, n_rows)),
                                  core_.memory.sampled));
      rows_read_ += n_rows;
      return {};
    }
    const models::Config& config = core_.model->config();
    const size_t width = options_.embeddings ? config.n_embd : config.n_vocab;
    std::vector<float>& to = options_.embeddings ? result_.embeddings : result_.logits;
    const std::span<float> rows = std::span(to).subspan(rows_read_ * width, n_rows * width);
    TRY(core_.backend->download(std::as_writable_bytes(rows), core_.memory.logits));
    for (uint32_t i = 0; i < n_rows; ++i)
      result_.row_failed[rows_read_ + i] = has_nan(rows.subspan(i * width, width)) ? 1 : 0;
    rows_read_ += n_rows;
    if (options_.embeddings && config.logit_scale != 1)
      for (float& value : rows) value *= config.logit_scale;
    return {};
  }

  Result<void> upload_forced(const PreparedStep& step, const Ubatch& ubatch) {
    for (const auto& [layer, block] : step.graph->forced) {
      const size_t n_used = core_.model->config().layers[layer].n_expert_used;
      const auto& experts = options_.forced->layers.at(layer).experts;
      TRY(core_.backend->upload(block->address, std::as_bytes(std::span(experts).subspan(ubatch.first_token * n_used,
                                                                                         ubatch.n_tokens * n_used))));
    }
    return {};
  }

  template <class T>
  Result<void> append(std::vector<T>& to, uint64_t address, size_t n) {
    const size_t before = to.size();
    to.resize(before + n);
    return core_.backend->download(std::as_writable_bytes(std::span(to).subspan(before)), address);
  }

  Result<void> read_routing(const PreparedStep& step, const Ubatch& ubatch) {
    for (const ops::CapturedRouting& captured : step.graph->captured) {
      Routing::Layer& layer = result_.routing.layers[captured.layer];
      const size_t n_used = layer.n_used = core_.model->config().layers[captured.layer].n_expert_used;
      TRY(append(layer.experts, captured.experts->address, ubatch.n_tokens * n_used));
      TRY(append(layer.weights, captured.weights->address, ubatch.n_tokens * n_used));
      if (!options_.gate) continue;
      const size_t n_expert = result_.routing.n_expert, before = layer.gate.size();
      TRY(append(layer.gate, captured.gate->address, ubatch.n_tokens * n_expert));
      std::vector<float> bias;
      if (captured.bias != 0) TRY(append(bias, captured.bias, n_expert));
      const std::vector<float> scores =
          ops::selection_scores(std::span(layer.gate).subspan(before), bias, captured, result_.routing.n_expert);
      layer.score.insert(layer.score.end(), scores.begin(), scores.end());
    }
    return {};
  }

  Core& core_;
  std::span<const StepInput> inputs_;
  const StepOptions& options_;
  const bool samples_;       // an input has a sampler
  const bool wants_logits_;  // and one has none
  Pick pick_ = Pick::none;   // what the device does for all rows
  RowRules rules_;           // for Pick::by_rules
  StepImage image_;
  StepResult& result_;
  size_t rows_read_ = 0;
};

}  // namespace

Result<void> run_step(const std::shared_ptr<Core>& core, std::span<const StepInput> inputs, const StepOptions& options,
                      StepResult& result) {
  if (inputs.empty())
    return Error(Code::invalid_argument, "a step without sequences computes nothing; give at least one");
  TRY(check_inputs(*core, inputs));
  if (options.embeddings && (options.greedy || std::any_of(inputs.begin(), inputs.end(), has_sampler)))
    return Error(Code::invalid_argument, "embeddings leave no logits to pick tokens from; ask for one of them");
  if (options.forced != nullptr) TRY(check_forced(*core, inputs, *options.forced));
  std::vector<size_t> lengths;
  for (const StepInput& input : inputs) lengths.push_back(input.sequence->impl().tokens.size());
  // Back to where the step began; recurrent state that has moved on cannot be, so such a sequence starts anew.
  const auto roll_back = [&](bool untouched) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      Sequence::Impl& sequence = inputs[i].sequence->impl();
      if (core->memory.slot_stride != 0 && !(untouched && sequence.tokens.size() == lengths[i])) {
        sequence.clear();
      } else {
        sequence.tokens.resize(lengths[i]);
        sequence.keep_pages_for(static_cast<uint32_t>(lengths[i]));
      }
    }
  };
  try {
    auto done = StepRun(*core, inputs, options, result).run();
    if (!done) roll_back(done.error().code == Code::cancelled);
    return done;
  } catch (const std::exception& e) {  // memory, or the caller's on_progress
    roll_back(false);
    const bool memory =
        dynamic_cast<const std::bad_alloc*>(&e) != nullptr || dynamic_cast<const std::length_error*>(&e) != nullptr;
    return memory ? Error(Code::out_of_memory,
                          "no memory is left for this step; give fewer tokens, or ask for fewer logits")
                  : Error(Code::internal, fmt::format("the step was interrupted: {}", e.what()));
  }
}

}  // namespace sluice::engine
