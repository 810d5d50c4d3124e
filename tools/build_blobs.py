#!/usr/bin/env python3
"""Compile the Slang kernels: kernels.list x types x variants, one blob per specialisation.

    build_blobs.py plan     write the CMake commands that make every blob of a target, and the names that are expected
    build_blobs.py compile  one blob: slangc, then what SPIR-V needs afterwards
    build_blobs.py table    blob_table.inc, published_table.inc (rows of backend/blobs.cpp) and blobs.S, which embeds the files
    build_blobs.py slangc   the pinned compiler, taken from PyPI; prints its path

A specialisation's file is NAME[-TYPE[-TYPE2]][-VARIANT].EXTENSION. Its entry takes a parameter per type, then one for the
variant where kernels.list names any: `gemv<Q4_0, Subgroup32>`. The variant `matrix` is a source of its own, NAME_matrix.slang,
and stands for two: matrix16 and matrix8, by the size of the matrices that a device multiplies.
"""
import argparse
import hashlib
import itertools
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

import build_kernels

WHEEL = "slangtorch==1.3.22"
WHEEL_SHA256 = "7755f2f53509ebbd65839dcd8a104e7105aeaf3e3600aea9385c2bec9beb2eaa"
SLANG_VERSION = "2026.14.1"
EXTENSIONS = {"spirv": "spv", "cuda": "cu", "metal": "metal", "wgsl": "wgsl"}
BLOB_TARGETS = {"spirv": "spirv", "cuda": "cuda", "metal": "metal", "wgsl": "wgsl"}
# In the order of backend::BlobVariant. Metal's and CUDA's subgroups are 32 wide.
VARIANTS = {"portable": "Portable", "subgroup32": "Subgroup32", "matrix16": "16", "matrix8": "8"}
CACHE_TYPES = ["F32", "F16", "Q8_0"]
# Cooperative matrices: the types whose weights f16 holds, and threads of a group.
MATRIX_TYPES = {"weights": ["F16", "Q4_0", "Q6_K", "Q8_0"], "kv": ["F16"]}
MATRIX_THREADS = {"matrix16": 256, "matrix8": 64}
# Types that are rarely used: their kernels are compiled in the variant that runs everywhere, and in no other.
RARE_TYPES = ["IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ3_S", "IQ2_S", "IQ1_M", "TQ1_0", "TQ2_0", "NVFP4"]
# Of a kernel that is shown and not run: one usual type, in the variant for Metal's subgroups.
SHOWN_TYPE = {"none": None, "weights": "Q4_0", "kv": "F16"}


class Blob:
    def __init__(self, kernel, types, variant, has_variants, shown=True):
        self.kernel, self.types, self.variant, self.shown = kernel, types, variant, shown
        self.name = "-".join([kernel, *types] + ([variant] if variant != "portable" else []))
        parameters = list(types) + ([VARIANTS[variant]] if has_variants else [])
        self.entry = kernel + (f"<{', '.join(parameters)}>" if parameters else "")
        self.modules = [f"quant/{kind.lower()}.slang" for kind in dict.fromkeys(types)]
        self.source, self.defines = f"{kernel}.slang", []
        if variant in MATRIX_THREADS:
            self.source, self.defines = f"{kernel}_matrix.slang", [f"-DMATRIX_SIZE={VARIANTS[variant]}"]
            self.entry = f"{kernel}_matrix" + (f"<{types[0]}Tile>" if len(types) == 1 else "")

    def symbol(self, target):
        return f"sluice_blob_{self.name.replace('-', '_')}_{target}"


def read_types(path):
    return re.findall(r"^SLUICE_TYPE\((\w+),", path.read_text(), re.MULTILINE)


def entry_text(kernels, kernel):
    source = kernels / f"{kernel}.slang"
    found = re.search(r"\[numthreads\((\d+), (\d+), (\d+)\)\]\s*void (\w+)(<[^>]*>)?\(", source.read_text())
    if not found or found[4] != kernel:
        sys.exit(f"{source}: expected '[numthreads(x, y, z)]' and then 'void {kernel}'")
    return found


def blobs(kernels, types_path):
    """Every specialisation, in the order of the list."""
    types = read_types(types_path)
    for kernel, quant, variants in build_kernels.rows(kernels / "kernels.list"):
        if variants == "cpu":
            continue
        n_types = len(re.findall(r": I(?:Quant|Stored)\b", entry_text(kernels, kernel)[5] or ""))
        of = {"none": [], "weights": types, "kv": CACHE_TYPES}[quant]
        if (n_types == 0) != (quant == "none"):
            sys.exit(f"kernels/{kernel}.slang: {n_types} type parameters do not go with the quant set '{quant}'")
        names = ["portable"] + (variants.split(",") if variants != "-" else [])
        has_matrix = "matrix" in names
        names = [name for name in names if name != "matrix"]
        for combination in itertools.product(of, repeat=n_types):
            for variant in names[:1] if set(combination) & set(RARE_TYPES) else names:
                shown = variant == ("subgroup32" if "subgroup32" in names else "portable") and set(combination) <= {SHOWN_TYPE[quant]}
                yield Blob(kernel, combination, variant, len(names) > 1, shown)
            if has_matrix and all(kind in MATRIX_TYPES[quant] for kind in combination):
                for variant in MATRIX_THREADS:
                    yield Blob(kernel, combination, variant, True, shown=False)


def published(kernels):
    """The entries that other programs embed: bindings of their own, no place in the table."""
    for source in sorted(kernels.glob("*.slang")):
        for entry in re.findall(r"^// slang-entries: (.+)$", source.read_text(), re.MULTILINE):
            yield Blob(entry, (), "portable", False)


def files_of(options, target):
    """What is compiled for a target: all that a backend runs, and of the others what `sluice kernels` shows."""
    return own_files(options, target) + list(published(options.kernels))


def own_files(options, target):
    """Of the engine's own kernels. WGSL has no pointers, and CUDA's text begins with 300 KB that are always the same."""
    if target not in ("spirv", "metal"):
        return []
    return [blob for blob in blobs(options.kernels, options.types) if target == "spirv" or blob.shown]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def plan(options):
    lines = ["# Generated from kernels.list."]
    files = []
    for blob in files_of(options, options.target):
        file = f"{options.out}/{blob.name}.{EXTENSIONS[options.target]}"
        files.append(file)
        if options.ready:
            if not pathlib.Path(file).is_file():
                sys.exit(f"error: {file} is missing; take a blob folder of this very version, or build without SLUICE_BLOBS_DIR")
            continue
        lines += [
            f'add_custom_command(OUTPUT "{file}"',
            f'  COMMAND "{sys.executable}" "{pathlib.Path(__file__).resolve()}" compile --slangc "{options.slangc}"',
            f'          --kernels "{options.kernels}" --name "{blob.name}" --types "{options.types}" --target {options.target}',
            f'          --file "{file}"',
            f'  DEPENDS "{options.kernels}/{blob.source}" "{pathlib.Path(__file__).resolve()}" "{options.slangc}"',
            f'  DEPFILE "{file}.d" COMMENT "{options.target}: {blob.entry}" VERBATIM)',
        ]
    listed = "\n".join(f'  "{file}"' for file in files)
    lines.append(f"set(blob_files_{options.target}\n{listed})")
    write(options.cmake, "\n".join(lines) + "\n")


def finish_spirv(data, name):
    """Without the source language, whose id old validation layers do not know; refuses what old drivers refuse."""
    OP_SOURCE = {2, 3, 4, 5, 330}  # OpSourceContinued, OpSource, OpSourceExtension, OpName, OpModuleProcessed
    OP_COPY_LOGICAL = 400
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] != 0x07230203:
        sys.exit(f"error: {name}: slangc wrote no SPIR-V")
    kept, at = list(words[:5]), 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xffff
        if opcode == OP_COPY_LOGICAL:
            sys.exit(f"error: {name}: OpCopyLogical, which Mesa 22 rejects; let the entry only forward its arguments to a body")
        if opcode not in OP_SOURCE:
            kept += words[at:at + length]
        at += length
    return struct.pack(f"<{len(kept)}I", *kept)


def compile_blob(options):
    blob = next(b for b in files_of(options, options.target) if b.name == options.name)
    folder, file = options.kernels, options.file
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [str(options.slangc), str(folder / blob.source), *blob.defines, *(str(folder / module) for module in blob.modules),
               "-I", str(folder), "-I", str(folder / "lib"), "-I", str(folder / "quant"), "-entry", blob.entry,
               "-stage", "compute", "-target", options.target, "-O0", "-line-directive-mode", "none",
               "-depfile", f"{file}.d", "-o", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not file.exists():
        file.unlink(missing_ok=True)
        sys.exit(f"{done.stdout}{done.stderr}\nerror: slangc did not compile {blob.entry}")
    if options.target == "spirv":
        file.write_bytes(finish_spirv(file.read_bytes(), blob.name))


ASSEMBLER = """// Generated.
#ifdef __APPLE__
#define SECTION .const
#define SYMBOL(name) _##name
#define HIDE .private_extern
#else
#define SECTION .section .rodata
#define SYMBOL(name) name
#define HIDE .hidden
#endif
#define BLOB(name, file) \\
  .globl SYMBOL(name) ; .globl SYMBOL(name##_end) ; HIDE SYMBOL(name) ; HIDE SYMBOL(name##_end) ; \\
  .p2align 4 ; SYMBOL(name): ; .incbin file ; SYMBOL(name##_end):
SECTION
"""


def table(options):
    rows, assembler = ["// Generated from kernels.list."], [ASSEMBLER]
    entries = ["// Generated from kernels/*.slang."] + [f"SLUICE_PUBLISHED_NAME({blob.name})" for blob in published(options.kernels)]
    for target, folder in (pair.split("=", 1) for pair in options.folder):
        for blob in own_files(options, target):
            group = entry_text(options.kernels, blob.kernel).group(1, 2, 3)
            if blob.variant in MATRIX_THREADS:
                group = (MATRIX_THREADS[blob.variant], 1, 1)
            first, second = (list(blob.types) + ["F32", "F32"])[:2]
            rows.append(f"SLUICE_BLOB({BLOB_TARGETS[target]}, {blob.kernel}, {first}, {second}, {list(VARIANTS).index(blob.variant)}, "
                        f"{group[0]}, {group[1]}, {group[2]}, {blob.symbol(target)}, \"{'main' if target == 'spirv' else blob.kernel}\", "
                        f"\"{blob.name}\")")
        for blob in published(options.kernels):
            entries.append(f'SLUICE_PUBLISHED({BLOB_TARGETS[target]}, {blob.name}, {blob.symbol(target)})')
        for blob in files_of(options, target):
            file = pathlib.Path(folder) / f"{blob.name}.{EXTENSIONS[target]}"
            assembler.append(f'BLOB({blob.symbol(target)}, "{file}")')
    write(options.out / "blob_table.inc", "\n".join(rows) + "\n")
    write(options.out / "published_table.inc", "\n".join(entries) + "\n")
    options.assembler.parent.mkdir(parents=True, exist_ok=True)
    options.assembler.write_text("\n".join(assembler) + '\n#ifdef __ELF__\n.section .note.GNU-stack,"",%progbits\n#endif\n')


def slangc(options):
    folder = options.cache / f"slang-{SLANG_VERSION}"
    program = folder / "slangc"
    if not program.exists():
        with tempfile.TemporaryDirectory() as temporary:
            done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                                   "--disable-pip-version-check", "--dest", temporary, WHEEL], capture_output=True, text=True)
            wheels = list(pathlib.Path(temporary).glob("*.whl"))
            if done.returncode != 0 or len(wheels) != 1:
                sys.exit(f"error: pip cannot download {WHEEL} ({done.stderr.strip().splitlines()[-1:] or 'no wheel'}); "
                         "set SLUICE_BLOBS_DIR to ready kernels, or SLUICE_SLANGC to a slangc")
            if hashlib.sha256(wheels[0].read_bytes()).hexdigest() != WHEEL_SHA256:
                sys.exit(f"error: {wheels[0].name} is not the pinned file; set SLUICE_SLANGC to a slangc {SLANG_VERSION}")
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheels[0]) as wheel:
                # The program last: where it stands, its libraries do.
                names = [name for name in wheel.namelist() if re.fullmatch(r"slangtorch/bin/(slangc|lib[^/]*\.so[^/]*)", name)]
                for name in sorted(names, key=lambda name: name.endswith("/slangc")):
                    target = folder / pathlib.PurePath(name).name
                    target.write_bytes(wheel.read(name))
                    target.chmod(0o755)
    print(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    path = pathlib.Path

    def command(name, function, *, sources=True):
        sub = commands.add_parser(name)
        sub.set_defaults(run=function)
        if sources:
            sub.add_argument("--kernels", type=path, required=True)
            sub.add_argument("--types", type=path, required=True)
        return sub

    sub = command("plan", plan)
    sub.add_argument("--target", choices=EXTENSIONS, required=True)
    sub.add_argument("--out", type=path, required=True)
    sub.add_argument("--cmake", type=path, required=True)
    sub.add_argument("--slangc", type=path)
    sub.add_argument("--ready", action="store_true", help="the files lie in OUT already")
    sub = command("compile", compile_blob)
    sub.add_argument("--target", choices=EXTENSIONS, required=True)
    sub.add_argument("--slangc", type=path, required=True)
    sub.add_argument("--name", required=True)
    sub.add_argument("--file", type=path, required=True)
    sub = command("table", table)
    sub.add_argument("--out", type=path, required=True)
    sub.add_argument("--assembler", type=path, required=True)
    sub.add_argument("folder", nargs="*", help="TARGET=FOLDER of its blobs")
    sub = command("slangc", slangc, sources=False)
    sub.add_argument("--cache", type=path, required=True)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
