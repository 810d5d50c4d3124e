#!/usr/bin/env python3
"""No object compiled for an instruction set shares functions with the rest of the program.

    simd_symbols.py BUILD_DIR

An inline function or a template instance is emitted by every file that uses it, and the linker keeps one copy. If it
keeps the copy of an AVX-512 file, the whole program needs AVX-512. Such a copy is a weak symbol; in the files of a tier
only the tier's own namespace may have any.
"""
import pathlib
import re
import subprocess
import sys


def problems(build):
    found = []
    for path in sorted(build.rglob("simd/*/*.o")):
        tier = path.parent.name
        table = subprocess.run(["nm", "-C", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
        for line in table.splitlines():
            fields = line.split(maxsplit=2)
            if len(fields) == 3 and fields[1] in "WVu" and not re.search(rf"\b{tier}::", fields[2]):
                found.append(f"{tier}/{path.name}: shares '{fields[2]}'")
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    objects = list(build.rglob("simd/*/*.o"))
    found = problems(build)
    print(f"{'FAIL' if found else 'PASS'} simd_symbols: {len(objects)} objects of SIMD tiers share no function with the rest")
    for problem in found[:20]:
        print(f"     {problem}; give it internal linkage, or put it into the tier's namespace")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
