#!/usr/bin/env python3
"""Ready kernels stand in for the compiler: a build from the blobs of another one needs neither slangc nor a network.

    check_blobs.py SOURCE BUILD    BUILD has compiled its kernels
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, build = map(pathlib.Path, sys.argv[1:])
TOOL = [sys.executable, str(source / "tools/build_blobs.py")]
SOURCES = ["--kernels", str(source / "kernels"), "--types", str(source / "include/sluice/types.inc")]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def require(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def check_code(folder):
    files = sorted(folder.glob("*.spv"))
    require(files, f"{folder} holds SPIR-V")
    if not shutil.which("spirv-val"):
        print("spirv-val is not installed: the code is not validated")
        return
    for file in files:
        done = run(["spirv-val", "--target-env", "vulkan1.2", str(file)])
        if "Invalid capability operand: 6022" in done.stderr:  # cooperative matrices are newer than this validator
            continue
        require(done.returncode == 0, f"{file.name} is valid: {done.stdout}{done.stderr}")


def check_missing(folder, scratch):
    shutil.copytree(folder, scratch / "less" / "spirv")
    (scratch / "less" / "spirv" / "add.spv").unlink()
    done = run([*TOOL, "plan", *SOURCES, "--target", "spirv", "--ready", "--out", str(scratch / "less" / "spirv"),
                "--cmake", str(scratch / "less.cmake")])
    require(done.returncode != 0 and "add.spv is missing; " in done.stderr, f"a missing kernel is named: {done.stderr}")


def check_build(code, scratch, *options):
    """Configures the checkout or release `code` with no pip, and assembles the table."""
    tree = scratch / "build"
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(scratch)}
    done = run(["cmake", "-S", str(code), "-B", str(tree), "-G", "Ninja", "-DSLUICE_GPU=ON", *options], env=environment)
    require(done.returncode == 0, f"a build from ready kernels configures: {done.stdout}{done.stderr}")
    target = "src/CMakeFiles/sluice_backend.dir/__/generated/kernels/blobs.S.o"
    listed = run(["ninja", "-C", str(tree), "-n", "-v", target])
    require(listed.returncode == 0 and "slangc" not in listed.stdout, f"no compiler is asked for: {listed.stdout[-2000:]}")
    done = run(["ninja", "-C", str(tree), target])
    require(done.returncode == 0, f"the kernels are embedded: {done.stdout}{done.stderr}")
    mine, theirs = ((tree / "generated/kernels/blob_table.inc").read_text() for tree in (tree, build))
    require(mine == theirs, "both builds have the same table")


def check_release(scratch):
    """A release, unpacked, needs to be told nothing."""
    if not (source / ".git").exists():
        print("this is no git checkout: no release is made")
        return
    for name in ("once.tar.gz", "again.tar.gz"):
        done = run([sys.executable, str(source / "tools/make_release.py"), str(build), str(scratch / name)])
        require(done.returncode == 0, f"a release is written: {done.stdout}{done.stderr}")
    once, again = ((scratch / name).read_bytes() for name in ("once.tar.gz", "again.tar.gz"))
    require(once == again, "the same release has the same bytes")
    shutil.unpack_archive(scratch / "once.tar.gz", scratch)
    folder, = scratch.glob("sluice-*")
    require((folder / "sluicew").stat().st_mode & 0o100, "./sluicew may be run")
    check_build(folder, scratch)


for check in (lambda scratch: check_missing(build / "blobs" / "spirv", scratch),
              lambda scratch: check_build(source, scratch, f"-DSLUICE_BLOBS_DIR={build / 'blobs'}"), check_release):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
check_code(build / "blobs" / "spirv")
