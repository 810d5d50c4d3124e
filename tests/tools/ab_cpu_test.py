#!/usr/bin/env python3
"""tools/ab_cpu.py with programs that only note how they were called."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "ab_cpu.py"

# Writes its name and arguments to `log`, and prints what the real program would; every call is faster than the last.
STUB = """#!{python}
import json, pathlib, sys
log = pathlib.Path({log!r})
calls = log.read_text().splitlines() if log.exists() else []
log.write_text("\\n".join(calls + ["{name} " + " ".join(sys.argv[1:])]) + "\\n")
speed = {speed} * (1 + sum(line.startswith("{name} ") for line in calls))
print({output})
"""
OUTPUTS = {
    "sluice": 'json.dumps({"tests": [{"test": t, "avg_ts": s} for t, s in [("pp8", speed), ("tg4", 7), ("tg4 x 3", speed), ("tg4 @ d16", speed)]]})',
    "llama-bench": '"a line before\\n" + json.dumps([{"n_prompt": 8, "avg_ts": speed}, {"n_prompt": 0, "avg_ts": speed}])',
    "llama-batched-bench": '"\\n" + json.dumps({"speed_pp": 1, "speed_tg": speed}) + "\\n"',
}


class AbCpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        for name, output in OUTPUTS.items():
            path = self.folder / name
            speed = 30 if name == "sluice" else 10
            path.write_text(STUB.format(python=sys.executable, log=str(self.log), name=name, speed=speed, output=output))
            path.chmod(0o755)

    def run_tool(self, *arguments):
        paths = [f"--{name}={self.folder / name}" for name in OUTPUTS]
        return subprocess.run([sys.executable, str(TOOL), *arguments, *paths], capture_output=True, text=True, check=False)

    def calls(self):
        return self.log.read_text().splitlines()

    def test_pairs_alternate_and_give_ratios(self):
        out = self.folder / "out.json"
        done = self.run_tool("dir/m.gguf", "pp8", "--pairs", "3", "--json", str(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call.split()[0] for call in self.calls()], ["sluice", "llama-bench", "llama-bench", "sluice", "sluice", "llama-bench"])
        result = json.loads(out.read_text())
        (work,) = result["works"]
        self.assertEqual((work["sluice"], work["peer"]), ([30, 60, 90], [10, 20, 30]))
        self.assertEqual((work["sluice_median"], work["peer_median"], work["ratio"], work["ratio_min"], work["ratio_max"]), (60, 20, 3, 3, 3))
        self.assertIn("bench -m dir/m.gguf -t 2 -p 8 -n 0 -r 1", work["commands"]["sluice"])
        self.assertEqual(done.stdout.splitlines()[-1], "| m.gguf | pp8 | 30.0 60.0 90.0 | 10.0 20.0 30.0 | 60.0 / 20.0 | 3.00 | 3.00 - 3.00 |")

    def test_every_work_becomes_arguments(self):
        done = self.run_tool("m.gguf", "tg4@16", "tg4x3", "--pairs", "1", "--cpu-isa", "avx2", "--rtr", "-t", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            self.calls(),
            [
                "sluice bench -m m.gguf -t 5 -p 0 -n 4 -d 16 -r 1 --cpu-isa avx2 --json",
                "llama-bench -m m.gguf -t 5 -p 0 -n 4 -d 16 -r 1 -o json -rtr 1",
                "sluice bench -m m.gguf -t 5 -p 0 -n 4 -r 1 -npl 3 --cpu-isa avx2 --json",
                "llama-batched-bench -m m.gguf -t 5 -c 15 -npp 1 -ntg 4 -npl 3 --output-format jsonl",
            ],
        )

    def test_what_cannot_be_is_told(self):
        for work in ("pp", "tg0", "pp8x2", "xx8"):
            done = self.run_tool("m.gguf", work)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is no work; give", done.stderr)
        (self.folder / "llama-bench").write_text("#!/bin/sh\necho 'no such model' >&2\nexit 3\n")
        done = self.run_tool("m.gguf", "pp8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3: no such model", done.stderr)


if __name__ == "__main__":
    unittest.main()
