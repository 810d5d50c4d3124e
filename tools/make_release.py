#!/usr/bin/env python3
"""Write a release: the tracked files of this checkout and the compiled GPU kernels of a build, as one archive.

    make_release.py BUILD OUT.tar.gz    BUILD: a folder that was configured with -DSLUICE_GPU=ON and built

The archive holds sluice-VERSION/, with the kernels in its folder blobs/, which a build then takes instead of a compiler: neither
pip nor a network is needed. The same commit and kernels give the same bytes.
"""
import argparse
import gzip
import pathlib
import re
import subprocess
import sys
import tarfile


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: a release is made from a git checkout: {done.stderr.strip()}")
    return done.stdout


def add(archive, path, name, seconds):
    info = archive.gettarinfo(str(path), name)
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = seconds
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    if info.isfile():
        with path.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    blobs = sorted(path for path in (args.build / "blobs").glob("*/*") if path.suffix != ".d")
    if not any(path.suffix == ".spv" for path in blobs):
        sys.exit(f"error: {args.build} holds no compiled GPU kernels; configure it with -DSLUICE_GPU=ON and build it")
    version = re.search(r"project\(sluice VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text()).group(1)
    top = f"sluice-{version}"
    files = sorted(name for name in git(root, "ls-files", "-z").split("\0") if name)
    seconds = int(git(root, "log", "-1", "--format=%ct"))
    with args.out.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, seconds) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in files:
            add(archive, root / name, f"{top}/{name}", seconds)
        for path in blobs:
            add(archive, path, f"{top}/blobs/{path.parent.name}/{path.name}", seconds)
    print(f"{args.out}: {len(files)} files, {len(blobs)} GPU kernels")


main()
