#!/usr/bin/env python3
"""What a story file must compute, in float32 on its dequantised weights: reference.json and samples.

usage: reference.py STORY.gguf HELDOUT.txt OUT.json [--f16 STORY-F16.gguf]
       reference.py STORY.gguf --tell SAMPLES.txt

Reads nothing but the GGUF file, so it checks an exported file and not the trainer's state.
"""
import argparse
import json
import math
import os

import gguf
import numpy as np
import tokens
import torch
import torch.nn.functional as F

PROMPTS = ["Once upon a time", "There was once a poor miller", "The fox said to the wolf"]
TALES = PROMPTS + [
    "Once upon a time there lived a king who had three daughters",
    "In a deep forest there stood a little house",
    "The Tailor and the Moon\n\n",
]
ASKS = [
    "Tell me a story.",
    "Tell me a story about a dragon and a shoemaker.",
    "Write a short fable about a crow and a mouse.",
    "tell me a story about a fisherman's daughter and the king of the sea",
]


def norm(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


class Story:
    """The network over one sequence; `state` carries keys, values and convolution inputs from call to call."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        get = lambda key: reader.fields["lfm2moe." + key].contents()
        self.kv_heads, self.heads = get("attention.head_count_kv"), get("attention.head_count")
        self.head_dim, self.theta = get("rope.dimension_count"), get("rope.freq_base")
        self.eps, self.used = float(np.float32(get("attention.layer_norm_rms_epsilon"))), get("expert_used_count")
        self.n_dense, self.experts, self.taps = get("leading_dense_block_count"), get("expert_count"), get("shortconv.l_cache")
        self.name = reader.fields["general.name"].contents()
        self.w = {
            t.name: torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type), np.float32))
            for t in reader.tensors
        }
        self.counts = {}

    def parameters(self):
        total = sum(x.numel() for x in self.w.values())
        experts = sum(x.numel() for n, x in self.w.items() if "_exps" in n)
        return total, total - experts * (self.experts - self.used) // self.experts

    def attention(self, w, h, at, past):
        t = len(h)
        q, k, v = ((h @ w(f"attn_{n}.weight").T).view(t, -1, self.head_dim) for n in "qkv")
        freq = self.theta ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        angle = torch.arange(at, at + t, dtype=torch.float64)[:, None, None] * freq
        cos, sin = angle.cos().float(), angle.sin().float()

        def turn(x):
            a, b = x.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

        q, k = turn(norm(q, w("attn_q_norm.weight"), self.eps)), turn(norm(k, w("attn_k_norm.weight"), self.eps))
        if past:
            k, v = torch.cat((past[0], k)), torch.cat((past[1], v))
        each = self.heads // k.shape[1]
        kk, vv = (x.repeat_interleave(each, 1).transpose(0, 1) for x in (k, v))
        score = q.transpose(0, 1) @ kk.mT / math.sqrt(self.head_dim)
        seen = torch.arange(len(k)) <= torch.arange(at, at + t)[:, None]
        y = torch.softmax(score.masked_fill(~seen, -math.inf), -1) @ vv
        return y.transpose(0, 1).reshape(t, -1) @ w("attn_output.weight").T, (k, v)

    def short_conv(self, w, h, past):
        b, c, x = (h @ w("shortconv.in_proj.weight").T).chunk(3, -1)
        bx = torch.cat((past if past is not None else h.new_zeros(self.taps - 1, h.shape[1]), b * x))
        y = sum(bx[j : j + len(h)] * w("shortconv.conv.weight")[:, j] for j in range(self.taps))
        return (c * y) @ w("shortconv.out_proj.weight").T, bx[1 - self.taps :]

    def mixture(self, layer, w, h):
        score = torch.sigmoid(h @ w("ffn_gate_inp.weight").T)
        pick = torch.topk(score + w("exp_probs_b.bias"), self.used, -1).indices
        weight = score.gather(1, pick)
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(2.0**-14)
        self.counts[layer] = self.counts.get(layer, 0) + torch.bincount(pick.flatten(), minlength=self.experts)
        out = torch.zeros_like(h)
        for e in pick.unique().tolist():
            row, slot = (pick == e).nonzero(as_tuple=True)
            gate, up, down = (w(f"ffn_{n}_exps.weight")[e] for n in ("gate", "up", "down"))
            y = (F.silu(h[row] @ gate.T) * (h[row] @ up.T)) @ down.T
            out.index_add_(0, row, y * weight[row, slot, None])
        return out

    def logits(self, ids, state=None):
        """Logits of every position of ids, which follow what `state` has seen."""
        state = {} if state is None else state
        at = state.get("n", 0)
        x = self.w["token_embd.weight"][torch.as_tensor(ids)]
        for layer, kv in enumerate(self.kv_heads):
            w = lambda n: self.w[f"blk.{layer}.{n}"]
            h = norm(x, w("attn_norm.weight"), self.eps)
            past = state.get(layer)
            y, state[layer] = self.attention(w, h, at, past) if kv else self.short_conv(w, h, past)
            x = x + y
            h = norm(x, w("ffn_norm.weight"), self.eps)
            if layer < self.n_dense:
                gate, up, down = (w(f"ffn_{n}.weight") for n in ("gate", "up", "down"))
                x = x + (F.silu(h @ gate.T) * (h @ up.T)) @ down.T
            else:
                x = x + self.mixture(layer, w, h)
        state["n"] = at + len(ids)
        return norm(x, self.w["token_embd_norm.weight"], self.eps) @ self.w["token_embd.weight"].T

    def loss(self, ids):
        """(mean over the scored tokens, their number)"""
        self.counts = {}
        total, n = 0.0, 0
        for w in tokens.windows(ids):
            total += F.cross_entropy(self.logits(w)[:-1], torch.from_numpy(w[1:]), reduction="sum").item()
            n += len(w) - 1
        return total / n, n

    def greedy(self, ids, n):
        state, out = {}, []
        row = self.logits(ids, state)[-1]
        for _ in range(n):
            out.append(int(row.argmax()))
            row = self.logits(out[-1:], state)[-1]
        return out

    def tell(self, ids, n, seed, temp=0.8, top_k=40, min_p=0.05, penalty=1.05, last_n=64):
        rng, state, out = torch.Generator().manual_seed(seed), {}, list(ids)
        row = self.logits(ids, state)[-1]
        for _ in range(n):
            recent = torch.tensor(sorted(set(out[-last_n:])))
            seen = row[recent]
            row[recent] = torch.where(seen > 0, seen / penalty, seen * penalty)
            top, which = row.topk(top_k)
            top[top < top[0] + math.log(min_p)] = -math.inf
            out.append(int(which[torch.multinomial(torch.softmax(top / temp, -1), 1, generator=rng)]))
            if out[-1] in (tokens.EOT, tokens.IM_END):
                break
            row = self.logits(out[-1:], state)[-1]
        return out[len(ids) :]


def describe(a):
    model, tok = Story(a.story), tokens.from_gguf(a.story)
    total, active = model.parameters()
    held = tokens.heldout(tok, open(a.heldout).read())
    loss, scored = model.loss(held)
    counts = {str(k): v.tolist() for k, v in sorted(model.counts.items())}
    files = {"story-q4_0.gguf": os.path.getsize(a.story)}
    heldout = dict(tokens=len(held), window=tokens.WINDOW, scored=scored, pytorch_q4_0=dict(nll=loss, ppl=math.exp(loss)))
    if a.f16:
        files["story-f16.gguf"] = os.path.getsize(a.f16)
        full, _ = Story(a.f16).loss(held)
        heldout["pytorch_f16"] = dict(nll=full, ppl=math.exp(full))
    heldout["method"] = (
        f"each tale: <|endoftext|> + text; the tales joined; windows of {tokens.WINDOW} tokens, each from an empty state; "
        "every token but the first of a window is scored"
    )
    prompts = []
    for text in PROMPTS:
        ids = [tokens.EOT, *tokens.encode(tok, text)]
        top, which = model.logits(ids)[-1].topk(10)
        told = model.greedy(ids, 48)
        prompts.append(
            dict(
                prompt=text, ids=ids, top10=[[i, round(v, 5)] for i, v in zip(which.tolist(), top.tolist())],
                greedy=told, greedy_text=tok.decode(told, skip_special_tokens=False),
            )
        )
    note = (
        "PyTorch float32 arithmetic on the weights of story-q4_0.gguf after dequantisation; top10 = logits at the last "
        "prompt position; prompts begin with <|endoftext|> (id 0)"
    )
    out = dict(
        model=model.name, parameters=total, active_parameters=active, files=files, note=note, prompts=prompts, heldout=heldout,
        expert_counts=counts,
        expert_counts_note="times each expert was chosen over the held-out windows, per layer (block index)",
    )
    json.dump(out, open(a.out, "w"), indent=1)
    print(f"{model.name}: held-out perplexity {math.exp(loss):.4f} over {scored} tokens",
          *[f"(F16 {heldout['pytorch_f16']['ppl']:.4f})" if a.f16 else ""])
    for p in prompts:
        print(repr(p["prompt"] + p["greedy_text"]))


def samples(a):
    model, tok = Story(a.story), tokens.from_gguf(a.story)
    with open(a.tell, "w") as f:
        for k, text in enumerate(TALES + ASKS):
            ids = tokens.chat(tok, text) if text in ASKS else [tokens.EOT, *tokens.encode(tok, text)]
            told = tok.decode(model.tell(ids, a.n, k + 1), skip_special_tokens=False)
            shown = f"[{text}]\n\n{told}" if text in ASKS else text + told
            f.write(f"=== {k + 1}. {'asked' if text in ASKS else 'begun'}\n\n{shown}\n\n")
            f.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("story")
    ap.add_argument("heldout", nargs="?")
    ap.add_argument("out", nargs="?")
    ap.add_argument("--f16")
    ap.add_argument("--tell")
    ap.add_argument("-n", type=int, default=360, help="tokens a sample")
    a = ap.parse_args()
    torch.set_grad_enabled(False)
    if a.heldout:
        describe(a)
    if a.tell:
        samples(a)


if __name__ == "__main__":
    main()
