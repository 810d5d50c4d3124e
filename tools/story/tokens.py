"""The story model's tokenizer, its chat form, and how held-out text is cut into windows."""
import json

import gguf
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

EOT, PAD, IM_START, IM_END = 0, 1, 2, 3
DOC_END = "<|endoftext|>"
SPECIAL = [DOC_END, "<|pad|>", "<|im_start|>", "<|im_end|>"] + [f"<|reserved_{i}|>" for i in range(4)]
VOCAB = 6144
WINDOW = 1024
# the pre-tokenizer that GGUF files call "llama-bpe"
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _shell(bpe):
    tok = Tokenizer(bpe)
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    return tok


def _special():
    return [AddedToken(s, special=True, normalized=False) for s in SPECIAL]


def from_gguf(path):
    """The tokenizer stored in a GGUF file of the "llama-bpe" kind."""
    fields = gguf.GGUFReader(path).fields
    read = lambda key: fields["tokenizer.ggml." + key].contents()
    if read("pre") != "llama-bpe" or read("tokens")[: len(SPECIAL)] != SPECIAL:
        raise ValueError(f"{path}: not a story tokenizer")
    vocab = {t: i for i, t in enumerate(read("tokens"))}
    merges = [tuple(m.split(" ")) for m in read("merges")]
    tok = _shell(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    tok.add_special_tokens(_special())
    return tok


def learn(texts):
    tok = _shell(models.BPE(ignore_merges=True))
    tok.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCAB,
            special_tokens=_special(),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            max_token_length=20,
            show_progress=False,
        ),
    )
    return tok


def pieces(tok):
    """(token strings in id order, merges as "a b")."""
    model = json.loads(tok.to_str())["model"]
    ordered = sorted(model["vocab"], key=model["vocab"].get)
    return ordered, [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]


def encode(tok, text):
    return tok.encode(text, add_special_tokens=False).ids


def chat(tok, ask):
    """Ids of one question, up to where the answer begins."""
    user, answer, nl = (encode(tok, s) for s in ("user\n", "assistant\n", "\n"))
    return [EOT, IM_START, *user, *encode(tok, ask), IM_END, *nl, IM_START, *answer]


def documents(text):
    return [d.strip("\n") for d in text.split(DOC_END) if d.strip("\n")]


def heldout(tok, text):
    """Ids of held-out tales, joined: <|endoftext|> and the text of each."""
    return np.array([i for d in documents(text) for i in (EOT, *encode(tok, d))], np.int64)


def windows(ids):
    """Windows that start from an empty state; all but the first token of each is scored."""
    return [w for w in (ids[a : a + WINDOW] for a in range(0, len(ids), WINDOW)) if len(w) > 1]
