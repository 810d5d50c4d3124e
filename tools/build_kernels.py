#!/usr/bin/env python3
"""Expand kernels/kernels.list: the KernelId table and the declaration of every CPU reference kernel.

    build_kernels.py --list kernels.list --out DIR    writes DIR/kernel_ids.inc

Each row becomes SLUICE_KERNEL(name, Args, quant_set). A header of the same name must exist beside the list.
"""
import argparse
import pathlib
import sys

QUANT_SETS = {"none", "weights", "kv"}


def rows(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        if len(fields) != 3 or fields[1] not in QUANT_SETS:
            sys.exit(f"{path}:{number}: expected 'name quant_set variants', got '{line}'")
        if not (path.parent / f"{fields[0]}.h").exists():
            sys.exit(f"{path}:{number}: kernel '{fields[0]}' has no contract {fields[0]}.h")
        yield tuple(fields)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    kernels = list(rows(options.list))
    options.out.mkdir(parents=True, exist_ok=True)
    args = {name: "".join(part.capitalize() for part in name.split("_")) + "Args" for name, *_ in kernels}
    table = ["// Generated from kernels.list."]
    table += [f"SLUICE_KERNEL({name}, {args[name]}, {quant})" for name, quant, _ in kernels]
    (options.out / "kernel_ids.inc").write_text("\n".join(table) + "\n")
    headers = ["// Generated from kernels.list."] + [f'#include "{name}.h"' for name, *_ in kernels]
    (options.out / "all_contracts.h").write_text("\n".join(["#pragma once"] + headers) + "\n")


if __name__ == "__main__":
    main()
