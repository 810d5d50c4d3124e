#!/usr/bin/env python3
"""Compares sluice with llama.cpp or ik_llama.cpp on the CPU: the two take turns, and every pair of runs gives a ratio.

    ab_cpu.py MODEL.gguf pp512 tg32 tg32x8 tg32@8192

A work is ppN (prefill of N tokens), tgN (decode of N), tgNxS (of S sequences together), each with @D after D tokens that
are in the cache before. Prints Markdown rows; --json FILE keeps every number and the command lines.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys


class Work:
    def __init__(self, text):
        match = re.fullmatch(r"(pp|tg)([1-9]\d*)(?:x([1-9]\d*))?(?:@([1-9]\d*))?", text)
        if not match or (match[1] == "pp" and match[3]):
            raise argparse.ArgumentTypeError(f"'{text}' is no work; give pp512, tg32, tg32x8 or tg32@8192")
        self.text, self.prefill, self.n = text, match[1] == "pp", int(match[2])
        self.parallel, self.depth = int(match[3] or 0), int(match[4] or 0)

    # The name of sluice bench's row.
    def row(self):
        name = f"{self.text[:2]}{self.n}"
        return name + (f" x {self.parallel}" if self.parallel else "") + (f" @ d{self.depth}" if self.depth else "")


# Both programs understand these. One repetition: the repeats are the pairs.
def common(o, work):
    p, n = (work.n, 0) if work.prefill else (0, work.n)
    depth = ["-d", str(work.depth)] if work.depth else []  # ik_llama.cpp's has no such option
    return ["-m", o.model, "-t", str(o.threads), "-p", str(p), "-n", str(n), *depth, "-r", "1"]


def sluice_command(o, work):
    parallel = ["-npl", str(work.parallel)] if work.parallel else []
    isa = ["--cpu-isa", o.cpu_isa] if o.cpu_isa else []
    return [o.sluice, "bench", *common(o, work), *parallel, *isa, "--json", *o.sluice_arg]


def peer_command(o, work):
    if not work.parallel:
        return [o.llama_bench, *common(o, work), "-o", "json", *(["-rtr", "1"] if o.rtr else []), *o.peer_arg]
    n_prompt = max(work.depth, 1)  # it wants one
    n_ctx = work.parallel * (n_prompt + work.n)
    sizes = ["-c", str(n_ctx), "-npp", str(n_prompt), "-ntg", str(work.n), "-npl", str(work.parallel)]
    return [o.llama_batched_bench, "-m", o.model, "-t", str(o.threads), *sizes, "--output-format", "jsonl", *o.peer_arg]


def output_of(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"error: {command[0]} does not run ({error.strerror}); give its path")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {last}; run it by hand")
    return done.stdout


# Tokens per second.
def sluice_speed(o, work):
    tests = json.loads(output_of(sluice_command(o, work)))["tests"]
    return next(test["avg_ts"] for test in tests if test["test"] == work.row())


def peer_speed(o, work):
    text = output_of(peer_command(o, work))
    if work.parallel:
        return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["speed_tg"]
    tests = json.loads(text[text.index("[") :])
    return next(test["avg_ts"] for test in tests if bool(test["n_prompt"]) == work.prefill)


# Who goes first changes from pair to pair, so that a machine that slows down harms both alike.
def measure(o, work):
    speeds = {sluice_speed: [], peer_speed: []}
    for pair in range(o.pairs):
        for side in list(speeds)[:: -1 if pair % 2 else 1]:
            speeds[side].append(side(o, work))
    sluice, peer = speeds[sluice_speed], speeds[peer_speed]
    ratios = [s / p for s, p in zip(sluice, peer)]
    return {
        "work": work.text,
        "sluice": sluice,
        "peer": peer,
        "sluice_median": statistics.median(sluice),
        "peer_median": statistics.median(peer),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "commands": {"sluice": " ".join(sluice_command(o, work)), "peer": " ".join(peer_command(o, work))},
    }


HEADER = "| file | work | sluice, tokens/s | peer, tokens/s | medians | ratio, median of pairs | its spread |\n" + "| --- " * 7 + "|"


def number(speed):
    return f"{speed:.{1 if speed < 1000 else 0}f}"


def markdown(o, r):
    raw = {side: " ".join(map(number, r[side])) for side in ("sluice", "peer")}
    work = r["work"] + (f", {o.cpu_isa}" if o.cpu_isa else "")
    return (
        f"| {o.model.split('/')[-1]} | {work} | {raw['sluice']} | {raw['peer']} | {number(r['sluice_median'])} / {number(r['peer_median'])} "
        f"| {r['ratio']:.2f} | {r['ratio_min']:.2f} - {r['ratio_max']:.2f} |"
    )


def options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("works", metavar="WORK", nargs="+", type=Work)
    parser.add_argument("--sluice", default="build/release/sluice", metavar="PATH")
    parser.add_argument("--llama-bench", default="llama-bench", metavar="PATH")
    parser.add_argument("--llama-batched-bench", default="llama-batched-bench", metavar="PATH", help="for tgNxS")
    parser.add_argument("--rtr", action="store_true", help="llama-bench is ik_llama.cpp's: repack at run time (-rtr 1)")
    parser.add_argument("--cpu-isa", default="", metavar="TIER", help="of sluice; the peer must have been built for it")
    parser.add_argument("--sluice-arg", action="append", default=[], metavar="ARG", help="one more argument, as in --sluice-arg=--no-repack")
    parser.add_argument("--peer-arg", action="append", default=[], metavar="ARG")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args(arguments)


def main():
    o = options(None)
    results = []
    print(HEADER)
    for work in o.works:
        results.append(measure(o, work))
        print(markdown(o, results[-1]), flush=True)
    if o.json:
        with open(o.json, "w") as file:
            json.dump({"model": o.model, "threads": o.threads, "cpu_isa": o.cpu_isa, "works": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
