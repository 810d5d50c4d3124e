#!/usr/bin/env python3
"""Runs the WGSL of moe_gemv_q4_0, as `sluice kernels` prints it, through its five bindings: what a browser would do.

    wgsl_test.py SLUICE CACHE    the program, and a folder for the Python package wgpu; ends with 77 where it cannot run

The cases and the expected values are those of tests/backend/published_entry_test.cpp, written a second time.
"""
import os
import pathlib
import random
import struct
import subprocess
import sys
import venv

WGPU = ("wgpu==0.32.0 --hash=sha256:6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568"
        " --hash=sha256:00454ba1bc794d38c8365f4ad29f381b88ce0a7f115133bfaa6f1dfad7eb2764\n")
ITS_NEEDS = ["cffi==2.1.1", "pycparser==3.12"]
SKIPPED = 77

# name, n_expert, m, k, n_used, sel_expert, x_by_entry, groups launched beyond the grid
CASES = [
    ("every expert, a stack of 810 bytes", 5, 3, 96, 1, [0, 1, 2, 3, 4], 0, 0),
    ("a row of x per token", 4, 5, 64, 2, [3, 0, 1, 1, 2, 3], 0, 0),
    ("a row of x per entry", 4, 5, 64, 2, [3, 0, 1, 1, 2, 3], 1, 0),
    ("n_used 0 counts as 1", 3, 4, 32, 0, [2, 0, 1], 0, 0),
    ("groups beyond rows and entries", 3, 4, 32, 2, [2, 0], 0, 3),
    ("many rows and blocks", 8, 33, 1024, 4, [7, 0, 3, 5], 0, 0),
]
STALE = -12345.0


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def python_with_wgpu(cache):
    folder = cache / "wgpu-0.32.0"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        (folder / "wgpu.txt").write_text(WGPU)
        for what in (["--require-hashes", "-r", str(folder / "wgpu.txt")], ITS_NEEDS):
            done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
                                   "--disable-pip-version-check", *what], capture_output=True, text=True)
            if done.returncode != 0:
                skip(f"pip cannot install wgpu: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
        (folder / "complete").touch()
    return python


def adapter():
    import wgpu

    vulkan = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
    if not vulkan:
        if "vulkan" in os.environ.get("SLUICE_REQUIRE", "").split(","):
            sys.exit("SLUICE_REQUIRE=vulkan: wgpu finds no Vulkan device")
        skip("wgpu finds no Vulkan device")
    return vulkan[0]


def make_weights(rng, n_expert, m, k):
    """(bytes, values[expert][row][k]): blocks of an f16 scale and 32 nibbles."""
    data, values = b"", []
    for _ in range(n_expert):
        rows = []
        for _ in range(m):
            row = []
            for _ in range(k // 32):
                scale = struct.pack("<e", rng.uniform(-0.1, 0.1))
                codes = bytes(rng.randrange(256) for _ in range(16))
                data += scale + codes
                d = struct.unpack("<e", scale)[0]
                row += [((c & 15) - 8) * d for c in codes] + [((c >> 4) - 8) * d for c in codes]
            rows.append(row)
        values.append(rows)
    return data, values


def run_case(device, shader, case):
    import wgpu

    name, n_expert, m, k, n_used, sel, x_by_entry, beyond = case
    rng = random.Random(name)
    data, weights = make_weights(rng, n_expert, m, k)
    x = [[struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1)))[0] for _ in range(k)] for _ in sel]
    expert_bytes = m * k // 32 * 18
    w_bytes = data + b"\0" * (-len(data) % 4)  # the binding is rounded up to 4 bytes
    x_bytes = b"".join(struct.pack(f"<{k}f", *row) for row in x)
    y_bytes = struct.pack("<f", STALE) * (len(sel) * m + 64)
    params = struct.pack("<8I", m, k, n_used, len(sel), expert_bytes, x_by_entry, 0, 0)
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffers = [device.create_buffer_with_data(data=part, usage=usage)
               for part in (w_bytes, x_bytes, y_bytes, struct.pack(f"<{len(sel)}I", *sel), params)]
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "moe_gemv_q4_0"})
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[
        {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}} for i, buffer in enumerate(buffers)])
    encoder = device.create_command_encoder()
    launch = encoder.begin_compute_pass()
    launch.set_pipeline(pipeline)
    launch.set_bind_group(0, group)
    launch.dispatch_workgroups(m + beyond, len(sel) + beyond)
    launch.end()
    device.queue.submit([encoder.finish()])
    y = struct.unpack(f"<{len(sel) * m + 64}f", device.queue.read_buffer(buffers[2]))

    error = norm = 0.0
    for entry, expert in enumerate(sel):
        row_of_x = x[entry if x_by_entry else entry // max(n_used, 1)]
        for row in range(m):
            expected = sum(a * b for a, b in zip(weights[expert][row], row_of_x))
            error += (y[entry * m + row] - expected) ** 2
            norm += expected ** 2
    if any(value != STALE for value in y[len(sel) * m:]):
        return "writes beyond the last entry"
    return None if error <= 1e-12 * norm else f"NMSE {error / norm:.3g}"


def run_all(wgsl):
    device = adapter().request_device_sync()
    shader = device.create_shader_module(code=wgsl)
    failed = 0
    for case in CASES:
        problem = run_case(device, shader, case)
        print(f"{'FAILED' if problem else 'passed'}: {case[0]}{f': {problem}' if problem else ''}")
        failed += bool(problem)
    sys.exit(1 if failed else 0)


def main():
    if sys.argv[1] == "--inside":
        return run_all(sys.stdin.read())
    program, cache = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    text = subprocess.run([program, "kernels", "moe_gemv_q4_0", "--target", "wgsl"], capture_output=True)
    if text.returncode != 0:
        sys.exit(f"FAILED: {text.stderr.decode()}")
    environment = {"XDG_RUNTIME_DIR": str(cache), **os.environ}
    done = subprocess.run([python_with_wgpu(cache), __file__, "--inside"], input=text.stdout, env=environment)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
