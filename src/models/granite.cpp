// Granite and Granite-MoE: rotary pairs side by side; the picked experts are weighted by the softmax of their logits,
// beside a shared expert in some files. The embedding, the scores, what layers add and the logits have scales of their
// own.
#include <fmt/format.h>

#include "models/decoder.h"

namespace sluice::models {
namespace {

// Converters write 0 for "none".
Result<float> scale_or_one(Metadata& meta, std::string_view key) {
  if (!meta.has(key) || TRY(meta.float_or(key, 0)) == 0) return 1.0f;
  return meta.positive(key);
}

Result<DecoderForm> common_form(Metadata& meta) {
  DecoderForm form;
  form.attention.qk_norm = QkNorm::none;
  form.attention.scale = TRY(meta.float_or("attention.scale", 0));
  if (form.attention.scale < 0) {
    return Error(Code::corrupt_file, fmt::format("metadata '{}.attention.scale' is negative; download the file again",
                                                 meta.architecture()));
  }
  form.rope_style = 1;
  form.embedding_scale = TRY(scale_or_one(meta, "embedding_scale"));
  form.residual_scale = TRY(scale_or_one(meta, "residual_scale"));
  form.logit_scale = TRY(scale_or_one(meta, "logit_scale"));
  if (!TRY(meta.flag_or("rope.scaling.finetuned", true))) {
    return Error(Code::unsupported, fmt::format("metadata '{}.rope.scaling.finetuned' asks for attention without "
                                                "positions, which is not supported; use another model",
                                                meta.architecture()));
  }
  return form;
}

}  // namespace

Result<std::unique_ptr<Model>> create_granite(Metadata& meta, const Overrides& overrides) {
  return create_decoder(meta, overrides, TRY(common_form(meta)));
}

Result<std::unique_ptr<Model>> create_granitemoe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form = TRY(common_form(meta));
  form.n_ff_expert = TRY(meta.count("feed_forward_length"));
  form.n_ff_shared = TRY(meta.number_or("expert_shared_feed_forward_length", 0));
  form.gate = kernels::kGateSoftmaxPicked;
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
