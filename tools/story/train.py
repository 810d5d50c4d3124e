#!/usr/bin/env python3
"""Train the teacher or the story model on one GPU.

usage: train.py DATA.npz OUT.pt --role teacher
       train.py DATA.npz OUT.pt --role story [--teacher TEACHER.pt]
       (--tiny: a dry run of either on the CPU)

Matrices: Muon. Embedding, router, norms, taps: AdamW. Both decay hard, the rate falls in a straight line to zero, and
the averaged weights are what is saved. The story model learns mostly from the teacher's distribution; from --qat-at on
its matrices are rounded to Q4_0 in the forward pass.
"""
import argparse
import dataclasses
import json
import math
import queue
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from model import STORY, TEACHER, TINY, TINY_TEACHER, Model, Stacks
from prep import TALE
from tokenizers import Tokenizer
from tokens import EOT, IM_END, IM_START, chat, encode, windows

ROLES = {
    "teacher": dict(config=TEACHER, tokens=1.7e8, batch=32, lr=2e-3, decay=1.0, drop=0.2, tales_at=0.62, other=0.30),
    "story": dict(config=STORY, tokens=2.6e8, batch=16, lr=3e-3, decay=0.2, drop=0.05, tales_at=0.55, other=0.15),
}


# ---------------------------------------------------------------------------------------------------- data
class Data:
    def __init__(self, path):
        z = np.load(path)
        self.ids, self.rows, self.asks, self.ask_at = z["ids"], z["rows"], z["asks"], z["ask_at"]
        self.more = np.split(z["more"], z["more_at"][1:-1])
        self.valid, self.heldout = z["valid"].astype(np.int64), z["heldout"].astype(np.int64)
        self.tok = Tokenizer.from_str(bytes(z["tokenizer"]).decode())
        u16 = lambda x: np.array(x, np.uint16)
        self.open_user = u16([IM_START, *encode(self.tok, "user\n")])
        self.open_answer = u16([IM_END, *encode(self.tok, "\n"), IM_START, *encode(self.tok, "assistant\n")])
        self.close = u16([IM_END, *encode(self.tok, "\n")])
        # tokens that end a paragraph, and the token that is left when a turn ends there
        self.cut_to = {}
        vocab = self.tok.get_vocab()
        for text, i in vocab.items():
            if text.endswith("\u010a\u010a"):
                self.cut_to[i] = vocab.get(text[:-2])
        self.is_break = np.zeros(len(vocab), bool)
        self.is_break[list(self.cut_to)] = True

    def turns(self, ask, body, rng):
        """A tale as an answer; a long one in several, each ended at a paragraph."""
        breaks, cuts, want = np.flatnonzero(self.is_break[body]) + 1, [0], rng.integers(400, 1000)
        for b in breaks:
            if b - cuts[-1] >= want and len(body) - b > 100:
                cuts.append(int(b))
                want = rng.integers(400, 1000)
        for a, b in zip(cuts, cuts[1:] + [len(body)]):
            part = body[a:b]
            if b < len(body):
                left = self.cut_to[int(part[-1])]
                part = np.append(part[:-1], [] if left is None else [np.uint16(left)]).astype(np.uint16)
            yield from (self.open_user, ask, self.open_answer, part, self.close)
            ask = self.more[rng.integers(len(self.more))]

    def document(self, row, chats, rng):
        kind, ask0, ask1, n_title, start, end = row
        yield np.array([EOT], np.uint16)
        if ask1 > ask0 and rng.random() < chats:
            k = rng.integers(ask0, ask1)
            yield from self.turns(self.asks[self.ask_at[k] : self.ask_at[k + 1]], self.ids[start + n_title : end], rng)
        else:
            yield self.ids[start + (n_title if rng.random() < 0.4 else 0) : end]

    def epoch(self, seed, chats, other):
        """One pass: every tale, and a share of the other books, shuffled and joined."""
        rng = np.random.default_rng(seed)
        kind = self.rows[:, 0]
        keep = (kind == TALE) | (rng.random(len(kind)) < other)
        order = rng.permutation(np.flatnonzero(keep))
        return np.concatenate([p for i in order for p in self.document(self.rows[i], chats, rng)])


class Feeder:
    """Windows of `length` tokens out of epochs that a thread builds ahead; `phase()` says (chats, other)."""

    def __init__(self, data, length, batch, device, phase):
        self.data, self.length, self.batch, self.device, self.phase = data, length, batch, device, phase
        self.ready, self.left, self.epochs = queue.Queue(1), 0, 0
        self.now = phase()
        threading.Thread(target=self.build, daemon=True).start()

    def build(self):
        seed = 0
        while True:
            phase = self.phase()
            seed += 1
            self.ready.put((phase, self.data.epoch(seed, *phase)))

    def next(self):
        if self.left < self.batch or self.phase() != self.now:
            phase, ids = None, None
            while phase != self.phase():
                phase, ids = self.ready.get()
            self.now, self.epochs = phase, self.epochs + 1
            rng = np.random.default_rng(self.epochs)
            shift = int(rng.integers(self.length))
            self.left = (len(ids) - 1 - shift) // self.length
            self.ids = torch.from_numpy(ids.astype(np.int32)).to(self.device)
            self.starts = torch.from_numpy(shift + rng.permutation(self.left) * self.length).to(self.device)
        at = self.starts[self.left - self.batch : self.left]
        self.left -= self.batch
        w = self.ids[at[:, None] + torch.arange(self.length + 1, device=self.device)].long()
        return w[:, :-1], w[:, 1:]


# ---------------------------------------------------------------------------------------------------- optimiser
def orthogonal(g):
    """Newton-Schulz: about U V^T of each matrix of a stack."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Optimiser:
    """Muon on the stacks, AdamW on the rest, and a running average of both."""

    def __init__(self, model, stacks, lr, decay, fused):
        work = {w.untyped_storage().data_ptr() for w in stacks.work}
        self.rest = [p for p in model.parameters() if p.untyped_storage().data_ptr() not in work]
        wide = [p for p in self.rest if p.dim() == 2 and p.shape[-1] == model.c.dim]
        flat = [p for p in self.rest if not (p.dim() == 2 and p.shape[-1] == model.c.dim)]
        groups = [dict(params=wide, weight_decay=0.05), dict(params=flat, weight_decay=0.0)]
        self.adam = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.97), eps=1e-9, fused=fused)
        self.stacks, self.decay = stacks, decay
        self.momentum = [torch.zeros_like(m) for m in stacks.master]
        self.mean = [p.detach().clone() for p in self.state()]

    def state(self):
        return self.stacks.master + self.rest

    @torch.no_grad()
    def step(self, lr, keep):
        for master, moment, grad in zip(self.stacks.master, self.momentum, self.stacks.grad):
            moment.lerp_(grad.float(), 0.05)
            step = orthogonal(grad.float().lerp_(moment, 0.95))
            master.mul_(1 - lr * self.decay).add_(step.float(), alpha=-lr * 0.2 * math.sqrt(max(master.shape[-2:])))
            grad.zero_()
        torch.nn.utils.clip_grad_norm_(self.rest, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        self.adam.zero_grad()
        torch._foreach_lerp_(self.mean, self.state(), 1 - keep)

    @torch.no_grad()
    def use(self, state):
        """Puts a saved state in place; returns what was there."""
        old = [p.detach().clone() for p in self.state()]
        for p, q in zip(self.state(), state):
            p.copy_(q)
        return old


# ---------------------------------------------------------------------------------------------------- losses
def loss_of(x, head, y, soft_x, soft_head, share):
    """(loss, cross-entropy); `share` of the loss is against a teacher's distribution."""
    logp = F.log_softmax(F.linear(x, head).float(), -1)
    hard = F.nll_loss(logp.flatten(0, 1), y.flatten())
    if soft_x is None:
        return hard, hard.detach()
    soft = F.softmax(F.linear(soft_x, soft_head).float(), -1)
    return share * -(soft * logp).sum(-1).mean() + (1 - share) * hard, hard.detach()


@torch.no_grad()
def held_loss(model, ids, device, batch=16):
    """Mean loss over windows from an empty state, as reference.py measures it."""
    torch.compiler.set_stance("force_eager")
    model.eval()
    total, n = 0.0, 0
    parts = windows(ids)
    for i in range(0, len(parts), batch):
        group = parts[i : i + batch]
        x = torch.zeros(batch, len(parts[0]), dtype=torch.long, device=device)
        for row, w in zip(x, group):
            row[: len(w)] = torch.from_numpy(w)
        h, _ = model.hidden(x)
        logp = F.log_softmax(F.linear(h, model.head()).float(), -1)
        for row, lp, w in zip(x, logp, group):
            total -= lp[: len(w) - 1].gather(1, row[1 : len(w), None]).sum().item()
            n += len(w) - 1
    model.train()
    torch.compiler.set_stance("default")
    return total / n


@torch.no_grad()
def tell(model, ids, n, seed, device):
    """Sampling by recomputation, for a first look."""
    torch.compiler.set_stance("force_eager")
    model.eval()
    rng = torch.Generator(device).manual_seed(seed)
    x = torch.full((1, len(ids) + n), EOT, device=device)
    x[0, : len(ids)] = torch.tensor(ids)
    for i in range(len(ids), len(ids) + n):
        h, _ = model.hidden(x)  # the same length every time: what follows is not seen
        p = torch.softmax(F.linear(h[0, i - 1], model.head()).float() / 0.8, -1)
        p = torch.where(p < 0.05 * p.max(), 0, p)
        x[0, i] = torch.multinomial(p, 1, generator=rng)
        if x[0, i] in (EOT, IM_END):
            break
    model.train()
    torch.compiler.set_stance("default")
    return x[0, : i + 1].tolist()


# ---------------------------------------------------------------------------------------------------- main
def load_teacher(path, device):
    saved = torch.load(path, map_location="cpu", weights_only=True)
    model = Model(type(TEACHER)(**saved["config"]))
    model.load_state_dict(saved["model"])
    model.to(device).eval().requires_grad_(False)
    Stacks(model)  # bf16 matrices
    return model.requires_grad_(False)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("data")
    ap.add_argument("out")
    ap.add_argument("--role", choices=ROLES, required=True)
    ap.add_argument("--teacher")
    ap.add_argument("--share", type=float, default=0.9, help="share of the loss that is the teacher's")
    ap.add_argument("--seconds", type=float, default=430, help="fewer tokens when they would take longer")
    ap.add_argument("--qat-at", type=float, default=0.7)
    ap.add_argument("--steps", type=int, help="stop early: a bench")
    ap.add_argument("--tiny", action="store_true")
    for name in ("tokens", "batch", "lr", "decay", "drop", "tales_at", "other"):
        ap.add_argument("--" + name.replace("_", "-"), type=float)
    a = ap.parse_args()
    role = dict(ROLES[a.role], **{k: v for k, v in vars(a).items() if k in ROLES[a.role] and v is not None})
    if a.tiny:
        role.update(config=TINY_TEACHER if a.role == "teacher" else TINY, tokens=6e3, batch=2)
    device, length, batch = ("cpu", 128, 2) if a.tiny else ("cuda", STORY.ctx, int(role["batch"]))
    c, began = role["config"], time.time()
    torch.manual_seed(3)
    data = Data(a.data)
    progress = 0.0
    feed = Feeder(data, length, batch, device, lambda: (0.08, 1.0) if progress < role["tales_at"] else (0.25, role["other"]))
    model = Model(c, role["drop"])
    n_params = sum(p.numel() for p in model.parameters())
    model.to(device)
    stacks = Stacks(model)
    opt = Optimiser(model, stacks, role["lr"], role["decay"], fused=not a.tiny)
    teacher = load_teacher(a.teacher, device) if a.teacher else None
    loss_fn = loss_of
    if not a.tiny:
        torch._dynamo.config.recompile_limit = 64
        loss_fn = torch.compile(loss_of, dynamic=False)
        for block in list(model.blocks) + (list(teacher.blocks) if teacher else []):
            block.compile(dynamic=False)
    print(f"{a.role}: {n_params} parameters; ready after {time.time() - began:.0f} s", flush=True)

    def look(note):
        """Held-out losses of the running weights and of the averaged ones."""
        now = (held_loss(model, data.valid, device), held_loss(model, data.heldout, device))
        old = opt.use(opt.mean)
        stacks.refresh(rounded)
        mean = (held_loss(model, data.valid, device), held_loss(model, data.heldout, device))
        opt.use(old)
        stacks.refresh(rounded)
        log.append(dict(step=step, train=float(train), valid=now, averaged=mean))
        print(f"{note} step {step} of {steps} {time.time() - began:.0f} s epochs {feed.epochs} train {float(train):.4f} "
              f"valid/held-out {now[0]:.4f} {now[1]:.4f} averaged {mean[0]:.4f} {mean[1]:.4f}", flush=True)

    per_step = batch * length
    steps, step, rounded, log, start = int(role["tokens"] / per_step), 0, False, [], None
    train = torch.zeros((), device=device)
    spread = torch.zeros((), device=device)
    model.train()
    while step < steps:
        if step in (10, 70) and not a.tiny:
            torch.cuda.synchronize()
            if step == 10:
                start = time.time()
            else:
                rate = 60 / (time.time() - start)
                left = a.seconds - (start - began) - 60 / rate - 12
                steps = min(steps, 70 + int(left * rate))
                print(f"{rate * per_step / 1e6:.3f} M tokens/s, compiled after {start - began:.0f} s, {steps} steps, "
                      f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB", flush=True)
        if a.steps and step >= a.steps:
            break
        progress = step / steps
        if a.role == "story" and progress >= a.qat_at and not rounded:
            look("before rounding:")
            rounded = True
            stacks.refresh(True)
            look("rounded to Q4_0:")
        elif step % max(12, steps // 8) == 0 and step:
            look(f"load {float(spread):.2f}")
        lr = role["lr"] * min(1.0, (step + 1) / (0.02 * steps), (1 - progress) / 0.6)
        x, y = feed.next()
        soft_x, soft_head = None, None
        if teacher:
            with torch.no_grad():
                soft_x, soft_head = teacher.hidden(x)[0], teacher.head()
        h, loads = model.hidden(x)
        loss, hard = loss_fn(h, model.head(), y, soft_x, soft_head, a.share)
        loss.backward()
        opt.step(lr, min(0.997, step / (step + 10)))
        stacks.refresh(rounded)
        with torch.no_grad():
            model.balance(loads, 1e-3 * min(1.0, (1 - progress) / 0.3))
            train.lerp_(hard, 0.02 if step else 1.0)
            if loads:
                spread = torch.stack([l.max() / l.mean() for l in loads]).max()
        step += 1
    progress = 1.0
    look("end:")
    scores = log[-1]
    if scores["averaged"][0] <= scores["valid"][0]:
        opt.use(opt.mean)
    stacks.refresh(rounded)

    prompts = [[EOT, *encode(data.tok, "Once upon a time")], chat(data.tok, "Tell me a story about a dragon and a shoemaker.")]
    for k, ids in enumerate(prompts):
        told = tell(model, ids, 12 if a.tiny else 200, k, device)
        print("---- " + data.tok.decode(told, skip_special_tokens=False), flush=True)
    stacks.refresh(False)
    weights = {k: v.float().cpu() for k, v in model.state_dict().items()}
    for name, p in model.named_parameters():  # masters, not their bf16 copies
        for work, master in zip(stacks.work, stacks.master):
            if p.untyped_storage().data_ptr() == work.untyped_storage().data_ptr():
                at = p.storage_offset() // work[0].numel()
                weights[name] = master[at : at + p.numel() // work[0].numel()].reshape(p.shape).cpu()
    torch.save(dict(config=dataclasses.asdict(c), model=weights), a.out)
    info = dict(role={k: v for k, v in role.items() if k != "config"}, config=dataclasses.asdict(c), parameters=n_params,
                steps=step, tokens=step * per_step, seconds=time.time() - began, log=log)
    json.dump(info, open(a.out.removesuffix(".pt") + ".json", "w"), indent=1)
    print(f"{a.role}: {step * per_step / 1e6:.0f} M tokens, {time.time() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
