"""The lfm2moe network for training: bf16 matrices, float32 for the rest, experts as one wide masked product.

A teacher is the same network with `n_dense == layers`. Matrices live stacked by shape, so that an optimiser touches a
few large tensors; a matrix parameter is a bf16 view of its stack, which Stacks.refresh() fills from float32 masters,
through the rounding of Q4_0 when asked.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 6144
    dim: int = 384
    layers: int = 10
    attn: tuple = (2, 4, 6, 8)
    heads: int = 6
    kv: int = 2
    head_dim: int = 64
    dense_ff: int = 1024
    n_dense: int = 1
    experts: int = 16
    top_k: int = 4
    ff: int = 192
    conv: int = 3
    theta: float = 1e6
    eps: float = 1e-5
    ctx: int = 2048


STORY = Config()
TEACHER = Config(dim=768, layers=12, attn=(1, 3, 5, 7, 9, 11), heads=12, kv=4, dense_ff=2048, n_dense=12)
TINY = Config(dim=64, layers=4, attn=(2,), heads=2, kv=1, head_dim=32, dense_ff=96, experts=4, top_k=2, ff=32)
TINY_TEACHER = Config(dim=96, layers=2, attn=(1,), heads=2, kv=1, head_dim=32, dense_ff=96, n_dense=2)


def q4_0(x):
    """x as a Q4_0 file gives it back: blocks of 32, a half scale, the largest magnitude at -8."""
    b = x.float().reshape(-1, 32)
    peak = b.gather(1, b.abs().argmax(1, keepdim=True))
    d = peak / -8
    q = torch.where(d == 0, 0.0, b / d).add(8.5).floor().clamp(0, 15) - 8
    return (q * d.half().float()).view_as(x)


def rms(x, w, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


def matrix(*shape, gain=1.0):
    """A matrix parameter; Stacks moves it into its stack."""
    std = gain * min(0.02, 0.5 / math.sqrt(shape[-1]))
    return nn.Parameter(torch.randn(shape) * std)


class Block(nn.Module):
    def __init__(self, c, index, drop):
        super().__init__()
        self.c, self.drop = c, drop
        self.is_attn, self.is_moe = index in c.attn, index >= c.n_dense
        d, deep = c.dim, 1 / math.sqrt(2 * c.layers)
        self.mix_norm, self.ffn_norm = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        if self.is_attn:
            self.q, self.o = matrix(c.heads * c.head_dim, d), matrix(d, c.heads * c.head_dim, gain=deep)
            self.k, self.v = matrix(c.kv * c.head_dim, d), matrix(c.kv * c.head_dim, d)
            self.q_norm, self.k_norm = nn.Parameter(torch.ones(c.head_dim)), nn.Parameter(torch.ones(c.head_dim))
        else:
            self.conv_in, self.conv_out = matrix(3, d, d), matrix(d, d, gain=deep)
            self.taps = nn.Parameter(torch.randn(d, c.conv) / math.sqrt(c.conv))
        e = (c.experts,) if self.is_moe else ()
        ff = c.ff if self.is_moe else c.dense_ff
        self.gate, self.up, self.down = matrix(*e, ff, d), matrix(*e, ff, d), matrix(*e, d, ff, gain=deep)
        if self.is_moe:
            self.router = nn.Parameter(torch.randn(c.experts, d) * 0.02)
            self.register_buffer("bias", torch.zeros(c.experts))

    def attention(self, h, cos, sin):
        c, (b, t, _) = self.c, h.shape

        def heads(w, n):
            return F.linear(h, w).view(b, t, n, c.head_dim)

        def turn(x, w):
            p, q = rms(x, w, c.eps).chunk(2, -1)
            return torch.cat((p * cos - q * sin, q * cos + p * sin), -1).to(h.dtype).transpose(1, 2)

        q, k = turn(heads(self.q, c.heads), self.q_norm), turn(heads(self.k, c.kv), self.k_norm)
        v = heads(self.v, c.kv).transpose(1, 2)
        k, v = (x.repeat_interleave(c.heads // c.kv, 1) for x in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).reshape(b, t, -1), self.o)

    def short_conv(self, h):
        t = h.shape[1]
        b, c, x = F.linear(h, self.conv_in.flatten(0, 1)).chunk(3, -1)
        bx = F.pad(b.float() * x.float(), (0, 0, self.c.conv - 1, 0))
        y = sum(bx[:, j : j + t] * self.taps[:, j] for j in range(self.c.conv))
        return F.linear((c.float() * y).to(h.dtype), self.conv_out)

    def dense(self, h):
        return F.linear(F.silu(F.linear(h, self.gate)) * F.linear(h, self.up), self.down)

    def experts(self, hf, dtype):
        """All experts in two wide products; an expert that was not picked has weight 0."""
        c, n = self.c, hf.shape[0]
        score = torch.sigmoid(F.linear(hf, self.router))
        pick = torch.topk(score.detach() + self.bias, c.top_k, -1).indices
        chosen = torch.zeros_like(score).scatter(1, pick, 1.0)
        weight = score * chosen
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-6)
        h = hf.to(dtype)
        g, u = (F.linear(h, w.flatten(0, 1)).view(n, c.experts, c.ff) for w in (self.gate, self.up))
        a = (F.silu(g.float()) * u.float() * weight[..., None]).to(dtype)
        return a.view(n, -1) @ self.down.transpose(1, 2).flatten(0, 1), chosen.sum(0)

    def forward(self, x, cos, sin):
        c, dtype = self.c, self.gate.dtype
        h = rms(x, self.mix_norm, c.eps).to(dtype)
        y = self.attention(h, cos, sin) if self.is_attn else self.short_conv(h)
        x = x + F.dropout(y, self.drop, self.training).float()
        h = rms(x, self.ffn_norm, c.eps)
        if self.is_moe:
            y, load = self.experts(h.flatten(0, 1), dtype)
            y = y.view_as(x)
        else:
            y, load = self.dense(h.to(dtype)), None
        return x + F.dropout(y, self.drop, self.training).float(), load


class Model(nn.Module):
    def __init__(self, c, drop=0.0):
        super().__init__()
        self.c, self.drop = c, drop
        self.emb = nn.Parameter(torch.randn(c.vocab, c.dim) * 0.02)
        self.blocks = nn.ModuleList(Block(c, i, drop) for i in range(c.layers))
        self.out_norm = nn.Parameter(torch.ones(c.dim))
        angle = torch.arange(c.ctx)[:, None] * c.theta ** (-torch.arange(0, c.head_dim, 2) / c.head_dim)
        self.register_buffer("cos", angle.cos()[:, None], persistent=False)
        self.register_buffer("sin", angle.sin()[:, None], persistent=False)

    def hidden(self, ids):
        """Last hidden states (after the norm, bf16) and each expert layer's load."""
        t, loads = ids.shape[1], []
        x = F.dropout(F.embedding(ids, self.emb), self.drop, self.training)
        for block in self.blocks:
            x, load = block(x, self.cos[:t], self.sin[:t])
            loads += [] if load is None else [load]
        return rms(x, self.out_norm, self.c.eps).to(torch.bfloat16), loads

    def head(self):
        return self.emb.to(torch.bfloat16)

    def balance(self, loads, gamma):
        """Moves the selection bias towards even loads: no auxiliary loss."""
        for block, load in zip((b for b in self.blocks if b.is_moe), loads):
            block.bias += gamma * torch.sign(load.mean() - load)


class Stacks:
    """Float32 masters and bf16 working copies of all matrices of a model, stacked by shape."""

    def __init__(self, model):
        groups = {}
        for m in model.modules():
            for name, p in m.named_parameters(recurse=False):
                if p.dim() >= 2 and name not in ("emb", "router", "taps"):
                    groups.setdefault(tuple(p.shape[-2:]), []).append((m, name, p))
        self.master, self.work, self.grad = [], [], []
        for group in groups.values():
            sizes = [1 if p.dim() == 2 else p.shape[0] for _, _, p in group]
            master = torch.cat([p.detach().view(k, *p.shape[-2:]) for k, (_, _, p) in zip(sizes, group)])
            work = master.to(torch.bfloat16)
            grad = torch.zeros_like(work)
            for k, end, (m, name, p) in zip(sizes, torch.tensor(sizes).cumsum(0).tolist(), group):
                q = nn.Parameter(work[end - k : end].view(p.shape))
                q.grad = grad[end - k : end].view(p.shape)
                setattr(m, name, q)
            self.master.append(master)
            self.work.append(work)
            self.grad.append(grad)

    @torch.no_grad()
    def refresh(self, quantised, source=None):
        for work, master in zip(self.work, source or self.master):
            work.copy_(q4_0(master) if quantised else master)
