// A model whose layers are all attention and a feed-forward network, dense or of experts, each behind a norm. Most
// architectures are that, and say here how they differ.
#pragma once
#include "models/attention_config.h"
#include "models/latent_config.h"

namespace sluice::models {

struct DecoderForm {
  AttentionForm attention;
  bool latent = false;            // latent_attention in the place of the above
  std::vector<uint32_t> windows;  // of each layer, as read_windows gives them; empty: none has one
  uint32_t rope_style = 0;        // kernels/rope.h
  const char* ffn_norm = "ffn_norm.weight";

  // Experts, in all layers but the first n_dense. n_ff_expert 0: in none.
  uint32_t n_ff_expert = 0, n_dense = 0;
  uint32_t gate = kernels::kGateSoftmaxAll;
  bool renormalise = true;
  bool selection_bias = false;
  bool expert_biases = false;  // of the router, which enters the weights, and of the experts' matrices
  uint32_t activation = kernels::kSilu;
  uint32_t n_ff_shared = 0;  // of an expert that every token takes; 0: there is none
  bool shared_gate = false;  // its output is weighted by a sigmoid

  // Of the embedding, of what a layer adds to the residual stream, and the divisor of the logits.
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
};

// Width of the expert_shared_count experts of n_ff values that every token takes, which files hold as one.
Result<uint32_t> read_shared_width(Metadata& meta, uint32_t n_ff);
Result<std::unique_ptr<Model>> create_decoder(Metadata& meta, const Overrides& overrides, const DecoderForm& form);

}  // namespace sluice::models
