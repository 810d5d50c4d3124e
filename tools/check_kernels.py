#!/usr/bin/env python3
"""Check that every row of kernels/kernels.list has its contract, its Slang source (but for rows marked cpu), its CPU
reference and its test.

    check_kernels.py [--root DIR]    prints one line per missing file; exit code 1 if there are any
"""
import argparse
import pathlib
import sys

REQUIRED = {
    "contract header": "kernels/{}.h",
    "Slang source": "kernels/{}.slang",
    "CPU reference": "src/backend/cpu/kernels/{}.cpp",
    "test": "tests/kernels/{}_test.cpp",
}


def kernels(path):
    for line in path.read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            yield fields[0], fields[-1] == "cpu"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    missing = 0
    for kernel, cpu_only in kernels(root / "kernels" / "kernels.list"):
        for what, pattern in REQUIRED.items():
            if cpu_only and what == "Slang source":
                continue
            path = pattern.format(kernel)
            if not (root / path).is_file():
                print(f"kernels.list: '{kernel}' has no {what}; add {path}")
                missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
