#!/usr/bin/env python3
"""Proves that every check can fail: each gets a tree that is clean, and then the same tree with one thing wrong."""
import pathlib
import subprocess
import sys
import tempfile

import checks
import simd_symbols

SUPPORT = """Text.
| architecture | type | reference | avx2 | vulkan |
| --- | --- | ---: | ---: | ---: |
| old | F32 | 1e-13 | 1e-13 | 1e-13 |
| old | Q4_0 | 1e-13 | 1e-13 | - |

| avx2 | Q4_0 |
"""
CLEAN = {
    "docs/support.md": SUPPORT,
    "src/models/registry.cpp": '#define SLUICE_ARCHITECTURES SLUICE_ARCHITECTURE("old", create_old)\n',
    "include/sluice/types.inc": 'SLUICE_TYPE(F32, 0, 1, 4, "f32.h")\nSLUICE_TYPE(Q4_0, 2, 32, 18, "q4_0.h")\n',
    "src/backend/cpu/simd/avx2/x.cpp": "int avx2();\n",
    "src/backend/cpu/simd/generic/row_major.inl": "SLUICE_ROW_MAJOR(F32)\n",
    "include/sluice/good.h": "#pragma once\nint good();\n",
    "src/base/os.h": "#pragma once\n#include <unistd.h>\n",
    "src/ops/linear.cpp": '#include "base/os.h"\n#include "sluice/good.h"\n\nint linear() { return 0; }\n',
    "docs/a.md": "See [b](b.md) and [the net](https://example.org).\n",
    "docs/b.md": "Nothing.\n",
    "tools/good.py": "print(1)\n",
    ".clang-format": "BasedOnStyle: Google\n",
}

# check -> files that make it fail, and a part of the line that it must then print.
WRONG = {
    "format": [({"src/base/x.cpp": "int   x( ) ;\n"}, "src/base/x.cpp:1")],
    "includes": [
        ({"src/base/x.h": '#include "ops/linear.h"\n'}, "base must not include ops"),
        ({"src/cli/x.cpp": '#include "ops/linear.h"\n'}, "cli must not include ops"),
        ({"src/hub/x.cpp": '#include "ops/linear.h"\n'}, "hub must not include ops"),
        ({"src/text/x.cpp": '#include "ops/linear.h"\n'}, "text must not include ops"),
        ({"include/sluice/x.h": '#include "base/os.h"\n'}, "public must not include base"),
        ({"kernels/k.h": '#include "base/os.h"\n'}, "kernels must not include base"),
        ({"src/base/x.h": '#include "../ops/linear.h"\n'}, "not with .."),
        ({"src/stray/x.h": "int x;\n"}, "no folder of the design"),
    ],
    "os_headers": [({"src/ops/x.cpp": "#include <sys/mman.h>\n"}, "src/ops/x.cpp:1"), ({"include/sluice/x.h": "#include <pthread.h>\n"}, "pthread.h")],
    "printing": [({"src/ops/x.cpp": "void f() { std::cerr << 1; }\n"}, "std::cerr"), ({"src/base/x.cpp": 'auto v = getenv("A");\n'}, "getenv")],
    "kernels": [({"tools/check_kernels.py": "print('no reference')\nraise SystemExit(1)\n"}, "no reference")],
    "support": [
        ({"docs/support.md": SUPPORT.replace("| old | F32 |", "| new | F32 |")}, "lacks '| old | F32 |'"),
        ({"docs/support.md": SUPPORT + "| gone | F32 | 1 | 1 | 1 |\n"}, "no more"),
        ({"docs/support.md": SUPPORT, "src/quant/q4_0_panel.h": "#pragma once\n"}, "lacks '| avx2 | none |'"),
    ],
    "length": [({"src/base/x.cpp": "int x;\n" * 601}, "601 lines")],
    "paths": [({"docs/c.md": "cd /wor" + "k/here\n"}, "docs/c.md:1"), ({"tools/x.sh": "ls '/hom" + "e/someone'\n"}, "tools/x.sh:1")],
    "newlines": [({"src/base/x.cpp": "int x;"}, "newline"), ({"tools/x.py": "x = 1 \n"}, "blanks"), ({"x.txt": "a\r\n"}, "carriage")],
    "public_headers": [
        ({"include/sluice/x.h": "#pragma once\nstd::string x();\n"}, "include/sluice/x.h"),
        ({"include/sluice/x.h": "struct NoGuard {};\n"}, "redefinition"),
        ({"include/sluice/sluice.h": "#pragma once\nclass NotC;\n"}, "c11"),
    ],
    "links": [({"docs/c.md": "[gone](gone.md)\n"}, "docs/c.md:1")],
    "scripts": [({"tools/x.py": "def f(:\n"}, "tools/x.py:1"), ({"tools/x.sh": "#!/bin/bash\nif\n"}, "tools/x.sh")],
}


def make_tree(folder, files):
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return checks.Tree(folder)


def outcome(check, files):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return check(make_tree(folder, files))
        except checks.Skipped as reason:
            return str(reason)


def simd_case(source, tier):
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "src/sluice_cpu.dir/simd", tier, "x.cpp.o")
        target.parent.mkdir(parents=True)
        subprocess.run(["g++", "-std=c++20", "-O0", "-x", "c++", "-c", "-o", str(target), "-"], input=source, text=True, check=True)
        return simd_symbols.problems(pathlib.Path(folder))


def main():
    bad = []
    if missing := set(checks.ALL) - set(WRONG):
        bad.append(f"no example for: {', '.join(sorted(missing))}")
    skipped = 0
    for name, examples in WRONG.items():
        clean = outcome(checks.ALL[name], CLEAN if name != "kernels" else CLEAN | {"tools/check_kernels.py": "\n"})
        if isinstance(clean, str):
            print(f"SKIP {name}: {clean}")
            skipped += 1
            continue
        if clean:
            bad.append(f"{name}: fails on a clean tree: {clean[0]}")
        for files, expected in examples:
            found = outcome(checks.ALL[name], CLEAN | files)
            if not any(expected in line for line in found):
                bad.append(f"{name}: did not say '{expected}' about {list(files)[0]}: {found}")
    if simd_case("namespace sluice::avx2 { inline int f() { return 1; } int g() { return f(); } }", "avx2"):
        bad.append("simd_symbols: fails on functions of its own namespace")
    if not simd_case("namespace sluice { inline int f() { return 1; } int avx2_g() { return f(); } }", "avx2"):
        bad.append("simd_symbols: an inline function of everybody passes")
    for line in bad:
        print(f"FAIL {line}")
    print(f"selftest: {len(WRONG) + 1 - skipped - min(len(bad), len(WRONG))} passed, {len(bad)} failed, {skipped} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
