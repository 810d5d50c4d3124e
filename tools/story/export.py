#!/usr/bin/env python3
"""Trained story model -> story-q4_0.gguf and story-f16.gguf.

usage: export.py STORY.pt DATA.npz OUT_DIR

The Q4_0 file has Q4_0 matrices and a Q8_0 embedding, the F16 file has both in F16; the rest is F32 in either.
"""
import argparse
import os

import gguf
import numpy as np
import tokens
import torch
from gguf import GGMLQuantizationType as Type
from tokenizers import Tokenizer

TEMPLATE = (
    "{{- bos_token -}}{%- for message in messages -%}{%- if message['role'] != 'system' -%}"
    "{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
NAMES = {
    "mix_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight",
    "q": "attn_q.weight", "k": "attn_k.weight", "v": "attn_v.weight", "o": "attn_output.weight",
    "q_norm": "attn_q_norm.weight", "k_norm": "attn_k_norm.weight",
    "conv_in": "shortconv.in_proj.weight", "conv_out": "shortconv.out_proj.weight", "taps": "shortconv.conv.weight",
    "router": "ffn_gate_inp.weight", "bias": "exp_probs_b.bias",
}
FFN = ("gate", "up", "down")
KEEP_F32 = ("ffn_gate_inp.weight", "shortconv.conv.weight")


def tensors(weights):
    """Trained weights under their GGUF names, in file order."""
    yield "token_embd.weight", weights["emb"]
    yield "token_embd_norm.weight", weights["out_norm"]
    for name in sorted((n for n in weights if n.startswith("blocks.")), key=lambda n: (int(n.split(".")[1]), n)):
        _, layer, own = name.split(".")
        w = weights[name]
        if own in FFN:
            new = f"ffn_{own}{'_exps' if w.ndim == 3 else ''}.weight"
        else:
            new, w = NAMES[own], w.flatten(0, 1) if own == "conv_in" else w
        yield f"blk.{layer}.{new}", w


def storage(name, w, quantised):
    if w.ndim < 2 or name.endswith(KEEP_F32):
        return Type.F32
    if not quantised:
        return Type.F16
    return Type.Q8_0 if name == "token_embd.weight" else Type.Q4_0


def sizes(c, named):
    """(all parameters, parameters that one token uses)"""
    total = sum(w.size for w in named.values())
    experts = sum(w.size for n, w in named.items() if "_exps" in n)
    return total, total - experts * (c["experts"] - c["top_k"]) // c["experts"]


def write(path, c, named, tok, quantised):
    total, active = sizes(c, named)
    label = f"{total / 1e6:.0f}M-A{active / 1e6:.0f}M"
    w = gguf.GGUFWriter(path, "lfm2moe")
    w.add_name("Sluice Tales " + label)
    w.add_basename("Sluice-Tales")
    w.add_size_label(label)
    w.add_description(
        "A small mixture-of-experts model that tells fairy and folk tales, trained from scratch on books in the public "
        f"domain in the United States. {total} parameters, {active} used per token."
    )
    w.add_license("other")
    w.add_license_name("trained from scratch on texts in the public domain in the United States")
    w.add_languages(["en"])
    w.add_tags(["text-generation", "fairy tales", "mixture of experts"])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0 if quantised else gguf.LlamaFileType.MOSTLY_F16)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)

    w.add_sampling_temp(0.8)
    w.add_sampling_top_k(40)
    w.add_sampling_top_p(0.95)
    w.add_sampling_min_p(0.05)
    w.add_sampling_penalty_last_n(64)
    w.add_sampling_penalty_repeat(1.05)

    w.add_block_count(c["layers"])
    w.add_context_length(c["ctx"])
    w.add_embedding_length(c["dim"])
    w.add_feed_forward_length(c["dense_ff"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv([c["kv"] if i in c["attn"] else 0 for i in range(c["layers"])])
    w.add_layer_norm_rms_eps(c["eps"])
    w.add_rope_freq_base(c["theta"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_vocab_size(c["vocab"])
    w.add_expert_count(c["experts"])
    w.add_expert_used_count(c["top_k"])
    w.add_expert_feed_forward_length(c["ff"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_leading_dense_block_count(c["n_dense"])
    w.add_shortconv_l_cache(c["conv"])

    vocab, merges = tokens.pieces(tok)
    kinds = {s: gguf.TokenType.UNUSED if "reserved" in s else gguf.TokenType.CONTROL for s in tokens.SPECIAL}
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(vocab)
    w.add_token_types([kinds.get(t, gguf.TokenType.NORMAL) for t in vocab])
    w.add_token_merges(merges)
    w.add_bos_token_id(tokens.EOT)
    w.add_eos_token_id(tokens.EOT)
    w.add_eot_token_id(tokens.IM_END)
    w.add_pad_token_id(tokens.PAD)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_chat_template(TEMPLATE)

    for name, x in named.items():
        kind = storage(name, x, quantised)
        data = x.astype(np.float16) if kind == Type.F16 else x if kind == Type.F32 else gguf.quants.quantize(x, kind)
        w.add_tensor(name, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("data")
    ap.add_argument("out")
    a = ap.parse_args()
    saved = torch.load(a.model, map_location="cpu", weights_only=True)
    tok = Tokenizer.from_str(bytes(np.load(a.data)["tokenizer"]).decode())
    named = {n: np.ascontiguousarray(w.float().numpy()) for n, w in tensors(saved["model"])}
    os.makedirs(a.out, exist_ok=True)
    for quantised, name in ((True, "story-q4_0.gguf"), (False, "story-f16.gguf")):
        write(f"{a.out}/{name}", saved["config"], named, tok, quantised)
        print(name, os.path.getsize(f"{a.out}/{name}"), "bytes", *sizes(saved["config"], named))


if __name__ == "__main__":
    main()
