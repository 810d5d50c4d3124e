#!/usr/bin/env bash
# Corpus -> story-q4_0.gguf, story-f16.gguf, reference.json and samples.txt, on one GPU.
# usage: train.sh [--dry] CORPUS_DIR OUT_DIR   (an OUT_DIR/data.npz that is there already is used as it is)
# --dry goes through every step with a few documents, a tiny model and a few steps: minutes on a CPU.
set -euo pipefail
few_documents=() few_steps=()
if [ "$1" = --dry ]; then
  few_documents=(--limit 20) few_steps=(--tiny --steps 4)
  shift
fi
corpus=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
held=$root/tests/fixtures/story/heldout.txt
export PYTHONUNBUFFERED=1
mkdir -p "$out"

[ -f "$out/data.npz" ] ||
  python3 "$here/prep.py" "$corpus" "$held" "$out" --tokenizer-of "$root/assets/story-q4_0.gguf" "${few_documents[@]}"
python3 "$here/train.py" "$out/data.npz" "$out/teacher.pt" --role teacher "${few_steps[@]}"
python3 "$here/train.py" "$out/data.npz" "$out/story.pt" --role story --teacher "$out/teacher.pt" "${few_steps[@]}"
python3 "$here/export.py" "$out/story.pt" "$out/data.npz" "$out"
python3 "$here/reference.py" "$out/story-q4_0.gguf" "$held" "$out/reference.json" --f16 "$out/story-f16.gguf"
python3 "$here/reference.py" "$out/story-q4_0.gguf" --tell "$out/samples.txt"
