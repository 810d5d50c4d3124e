#!/usr/bin/env python3
"""Runs the checks of the source tree.

    run.py [--root DIR] [NAME ...]    all of them, or those named; --list names them
"""
import argparse
import pathlib
import sys

import checks

SHOWN = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.list:
        for name, function in checks.ALL.items():
            print(f"{name:16} {function.__doc__}")
        return 0
    if unknown := set(options.names) - set(checks.ALL):
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    tree = checks.Tree(options.root)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in options.names or checks.ALL:
        try:
            problems = checks.ALL[name](tree)
        except checks.Skipped as reason:
            counts["skipped"] += 1
            print(f"SKIP {name}: {reason}")
            continue
        counts["failed" if problems else "passed"] += 1
        print(f"{'FAIL' if problems else 'PASS'} {name}: {checks.ALL[name].__doc__}")
        for problem in problems[:SHOWN]:
            print(f"     {problem}")
        if len(problems) > SHOWN:
            print(f"     ... and {len(problems) - SHOWN} more")
    print("checks: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
