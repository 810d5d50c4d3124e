#!/usr/bin/env python3
"""Corpus -> data.npz: token stream, chat prompts, tokenizer, validation and held-out ids.

usage: prep.py CORPUS_DIR HELDOUT.txt OUT_DIR (--tokenizer-of STORY.gguf | --new-tokenizer)

CORPUS_DIR holds tales.txt.xz, novels.txt.xz and extra.txt.xz: documents of a title line, a blank line and paragraphs,
each ended by a line <|endoftext|>. Nothing of HELDOUT.txt is kept: neither its tales nor any document that shares runs
of words with them.
"""
import argparse
import collections
import hashlib
import json
import lzma
import os
import random
import re

import numpy as np
import tokens

RUN = 8  # words in a run
MAX_SHARED = 0.01  # of a document's runs
MAX_STRETCH = 13  # consecutive shared runs: 20 words in a row
TALE, NOVEL, EXTRA = 0, 1, 2


def read_corpus(path):
    with lzma.open(path, "rt") as f:
        for doc in tokens.documents(f.read()):
            title, gap, body = doc.partition("\n\n")
            has_title = gap and len(title) <= 100 and "\n" not in title
            yield (title, body) if has_title else ("", doc)


class Overlap:
    """Counts runs of RUN words that a document shares with a set of texts."""

    def __init__(self, texts):
        self.ids = collections.defaultdict(lambda: len(self.ids) + 1)
        self.known = np.unique(np.concatenate([self.runs(t) for t in texts]))

    def runs(self, text):
        words = np.array([self.ids[w] for w in re.findall(r"[a-z']+", text.lower())], np.uint64)
        n = max(0, len(words) - RUN + 1)
        code = np.zeros(n, np.uint64)
        for k in range(RUN):
            code = code * np.uint64(0x9E3779B97F4A7C15) + words[k : k + n]
        return code

    def measure(self, text):
        """(share of the document's runs that are known, longest stretch of known runs)"""
        hit = np.isin(self.runs(text), self.known)
        if not hit.any():
            return 0.0, 0
        edges = np.flatnonzero(np.diff(np.concatenate([[0], hit, [0]])))
        return hit.mean(), int((edges[1::2] - edges[::2]).max())

    def touches(self, text):
        share, stretch = self.measure(text)
        return share > MAX_SHARED or stretch >= MAX_STRETCH


# ---------------------------------------------------------------------------------------------------- chat prompts
ASK = {
    0: [
        "Tell me a story.", "Tell me a tale.", "tell me a story", "Tell me a fairy tale, please.", "A bedtime story, please.",
        "Write a story.", "Could you tell me a tale?", "Hello!", "Let me hear a story.", "Once upon a time...",
    ],
    1: [
        "Tell me a story about {0}.", "tell me a story about {0}", "Tell a tale of {0}.", "Write a story about {0}.",
        "Can you tell me about {0}?", "A story about {0}, please.", "Write a fairy tale with {0} in it.", "{0}",
    ],
    2: [
        "Tell me a story about {0} and {1}.", "tell me a story about {0} and {1}", "Write a tale about {0} and {1}.",
        "Is there a story of {0} and {1}?", "A fairy tale with {0} and {1}, please.", "Write a short story about {0} and {1}.",
    ],
    3: ["Tell me a story about {0}, {1} and {2}.", "Write a tale with {0}, {1} and {2} in it."],
    "title": ['Tell me the story "{0}".', "{0}", "Tell me the tale of {0}.", "Do you know {0}?", 'Write a tale called "{0}".'],
    "fable": ["Write a short fable about {0} and {1}.", "Tell me a fable of {0} and {1}.", "A short fable about {0}, please."],
}
GO_ON = ["Go on.", "And then?", "What happened next?", "go on", "Please tell me more.", "What came of it?", "Continue."]
# words that look like nouns of a tale but make poor subjects
DULL = set(
    "time day days night morning evening moment while way place side end part matter word words thing things world same other"
    " one two first second last rest next year years hour hours week back front top bottom middle midst name hand hands head"
    " heart eyes eye face voice sight kind number half whole truth story tale reason sort bit lot piece present question"
    " answer ground air foot feet arm arms door use life death people man men woman women others will can art care kick like"
    " fairest orders lie family self use fact fashion manner sake".split()
)
AFTER_NOUN = r"(?:[,.;:!?]|\s(?:who|was|had|and|of|in|to|said|came|went|on|that|with|which|is|at|for|from|as|but|then|ran)\b)"


def subjects(bodies):
    """Words that stand as nouns in the tales: after an article and before what follows a noun."""
    bare, total, docs = collections.Counter(), collections.Counter(), collections.Counter()
    article = re.compile(r"\b(?:a|an|the) ([a-z]{3,14})(" + AFTER_NOUN + ")?")
    for body in bodies:
        seen = set()
        for word, tail in article.findall(body):
            total[word] += 1
            bare[word] += bool(tail)
            seen.add(word)
        docs.update(seen)
    nouns = {w for w in total if docs[w] >= 12 and bare[w] > 0.55 * total[w] and docs[w] < 0.4 * len(bodies)} - DULL
    plurals = {w for w in nouns if w[:-1] in nouns or w[:-2] in nouns and w.endswith("es")}
    return {w: docs[w] for w in nouns - plurals}


def topics(title, body, nouns, n_docs):
    """The few nouns that a tale is most about, most telling first."""
    count = collections.Counter(re.findall(r"[a-z]+", body.lower()))
    in_title = set(re.findall(r"[a-z]+", title.lower()))
    opening = set(re.findall(r"[a-z]+", body[:500].lower()))
    length = max(250, sum(count.values()))
    score = {}
    for w, df in nouns.items():
        n = count[w] + count[w + "s"]
        if n >= 2:
            boost = 2.5 if w in in_title else 1.4 if w in opening else 1
            score[w] = boost * n / length * np.log(n_docs / df)
    return sorted((w for w in score if score[w] > 0.004), key=score.get, reverse=True)[:4]


def with_article(w, rng):
    if w.endswith("s") and not w.endswith("ss"):
        return w
    return rng.choice(["the ", *["an " if w[0] in "aeiou" else "a "] * 4]) + w


def ask_for(title, about, n_chars, rng):
    roll = rng.random()
    if roll < 0.12 or not (about or title):
        return rng.choice(ASK[0])
    if title and (roll < 0.24 or not about):
        return rng.choice(ASK["title"]).format(title)
    n = min(len(about), rng.choice([1, 1, 2, 2, 2, 3]))
    pick = [with_article(w, rng) for w in rng.sample(about[: max(2, n)], n)]
    if n_chars < 1800 and n == 2 and rng.random() < 0.6:
        return rng.choice(ASK["fable"]).format(*pick)
    return rng.choice(ASK[n]).format(*pick)


# ---------------------------------------------------------------------------------------------------- main
def pick_validation(tales, n_bytes):
    """Whole tales by hash of the title, for watching a run; not the held-out text."""
    order = sorted(range(len(tales)), key=lambda i: hashlib.sha256(("validation " + tales[i][0]).encode()).digest())
    chosen, size = [], 0
    for i in order:
        if size >= n_bytes:
            break
        if 1500 < len(tales[i][1]) < 25000:
            chosen.append(i)
            size += len(tales[i][1])
    return set(chosen)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("corpus")
    ap.add_argument("heldout")
    ap.add_argument("out")
    how = ap.add_mutually_exclusive_group(required=True)
    how.add_argument("--tokenizer-of", metavar="STORY.gguf")
    how.add_argument("--new-tokenizer", action="store_true")
    ap.add_argument("--asks", type=int, default=6, help="chat prompts a tale")
    ap.add_argument("--limit", type=int, default=None, help="documents of each kind, for a dry run")
    a = ap.parse_args()
    rng = random.Random(11)
    os.makedirs(a.out, exist_ok=True)

    corpus = {k: list(read_corpus(f"{a.corpus}/{n}.txt.xz")) for k, n in ((TALE, "tales"), (NOVEL, "novels"), (EXTRA, "extra"))}
    held_text = open(a.heldout).read()
    held_docs = tokens.documents(held_text)

    # held-out tales go first, by their whole text, then everything that shares runs of words with them
    exact = {d for d in held_docs}
    found = sum(f"{t}\n\n{b}" in exact for t, b in corpus[TALE])
    print(f"held-out tales: {len(held_docs)}, of which {found} stand in tales.txt")
    assert found == len(held_docs), "the held-out text does not belong to this corpus"
    overlap = Overlap(held_docs)
    for kind, docs in corpus.items():
        kept = [d for d in docs if f"{d[0]}\n\n{d[1]}" not in exact and not overlap.touches(d[0] + "\n\n" + d[1])]
        print(f"kind {kind}: {len(docs)} documents, {len(docs) - len(kept)} held out or too near to it")
        corpus[kind] = kept
    worst = max((overlap.measure(b)[::-1] for docs in corpus.values() for _, b in docs), default=(0, 0.0))
    print(f"longest stretch left: {worst[0] + RUN - 1 if worst[0] else 0} words")

    # validation: tales out of training, and what shares runs of words with them
    chosen = pick_validation(corpus[TALE], 260_000)
    valid = [d for i, d in enumerate(corpus[TALE]) if i in chosen]
    corpus[TALE] = [d for i, d in enumerate(corpus[TALE]) if i not in chosen]
    near = Overlap([b for _, b in valid])
    for kind, docs in corpus.items():
        corpus[kind] = [d for d in docs if not near.touches(d[1])]
        print(f"kind {kind}: {len(docs) - len(corpus[kind])} too near to the {len(valid)} validation tales")
        corpus[kind] = corpus[kind][: a.limit]

    if a.new_tokenizer:
        tok = tokens.learn(t + "\n\n" + b for k, docs in corpus.items() for t, b in docs for _ in range(2 if k == TALE else 1))
    else:
        tok = tokens.from_gguf(a.tokenizer_of)

    nouns = subjects([b for _, b in corpus[TALE]])
    flat, rows, asks = [], [], []
    for kind, docs in corpus.items():
        titles = tok.encode_batch([t + "\n\n" if t else "" for t, _ in docs], add_special_tokens=False)
        bodies = tok.encode_batch([b for _, b in docs], add_special_tokens=False)
        for (title, body), head, text in zip(docs, titles, bodies):
            first_ask = len(asks)
            if kind == TALE:
                about = topics(title, body, nouns, len(docs))
                asks += [ask_for(title, about, len(body), rng) for _ in range(a.asks)]
            start = sum(r[-1] for r in rows[-1:])
            rows.append((kind, first_ask, len(asks), len(head.ids), start, start + len(head.ids) + len(text.ids)))
            flat += [np.array(head.ids, np.uint16), np.array(text.ids, np.uint16)]
    rows = np.array(rows, np.int64)
    ask_ids = [np.array(tokens.encode(tok, s), np.uint16) for s in asks]
    more_ids = [np.array(tokens.encode(tok, s), np.uint16) for s in GO_ON]
    ends = lambda parts: np.cumsum([0] + [len(p) for p in parts]).astype(np.int64)
    np.savez_compressed(
        a.out + "/data.npz",
        ids=np.concatenate(flat), rows=rows,
        asks=np.concatenate(ask_ids), ask_at=ends(ask_ids), more=np.concatenate(more_ids), more_at=ends(more_ids),
        heldout=tokens.heldout(tok, held_text).astype(np.uint16),
        valid=tokens.heldout(tok, tokens.DOC_END.join(f"{t}\n\n{b}" for t, b in valid)).astype(np.uint16),
        tokenizer=np.frombuffer(tok.to_str().encode(), np.uint8),
    )
    for kind, name in ((TALE, "tales"), (NOVEL, "novels"), (EXTRA, "extra")):
        m = rows[rows[:, 0] == kind]
        print(f"{name}: {len(m)} documents, {int((m[:, 5] - m[:, 4]).sum())} tokens")
    print(f"{len(nouns)} nouns; some asks: " + json.dumps(rng.sample(asks, min(40, len(asks)))))


if __name__ == "__main__":
    main()
