"""The checks of the source tree. Each takes a Tree and returns problems, one line each; none means passed.

A check that cannot run here (a tool is missing) raises Skipped. tools/checks/selftest.py proves that each can fail.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Lower folders first; a folder may include itself and any before it, except where FEWER says less.
ORDER = ["kernels", "base", "quant", "gguf", "backend", "ops", "text", "models", "engine", "hub", "cli", "server"]
FEWER = {"text": {"base", "quant", "gguf"}, "hub": {"base"}, "cli": {"base"}, "server": {"base"}}

OS_HEADERS = re.compile(
    r"^(unistd|sched|pthread|fcntl|poll|signal|termios|dirent|pwd|dlfcn|spawn|grp|ucontext|aio|semaphore|link|elf|windows|"
    r"sys/\w+|linux/\w+|mach/\w+|mach-o/\w+|netinet/\w+|arpa/\w+|netdb)\.h$")
SOURCE = {".h", ".cpp", ".c", ".inc", ".py", ".sh", ".cmake", ".slang", ".txt", ".md", ".json", ".yml", ".list", ".in", ".map", ""}
CODE = {".h", ".cpp", ".c", ".py", ".sh", ".cmake", ".slang"}
MAX_LINES = 600
DATA = ("assets/", "tests/fixtures/", "tests/fuzz/corpus/")


class Skipped(Exception):
    pass


class Tree:
    """The files of a checkout: those that git tracks or would track, or all of them where there is no git."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True) if (self.root / ".git").exists() and shutil.which("git") else None
        if listed and listed.returncode == 0:
            names = [name for name in listed.stdout.decode().split("\0") if name]
        else:
            names = [str(path.relative_to(root)) for path in self.root.rglob("*")
                     if not {"build", ".git", "__pycache__"} & set(path.relative_to(root).parts[:-1])]
        self.files = sorted(name for name in set(names) if (self.root / name).is_file())

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def pick(self, *suffixes, under=""):
        return [name for name in self.files if name.startswith(under) and pathlib.Path(name).suffix in suffixes]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def lines_of(text, limit=8):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[:limit] + ([f"... and {len(lines) - limit} lines more"] if len(lines) > limit else [])


def check_format(tree):
    """clang-format 14 changes nothing"""
    tool = next((tool for tool in ("clang-format-14", "clang-format") if shutil.which(tool)), None)
    version = run([tool, "--version"]).stdout if tool else "none"
    if "version 14." not in version:
        raise Skipped(f"clang-format 14 is not installed ({version.strip()})")
    files = tree.pick(".h", ".cpp", ".c")
    problems = {}
    for start in range(0, len(files), 50):
        part = run([tool, "--dry-run", "-Werror", *files[start:start + 50]], cwd=tree.root)
        for line in part.stderr.splitlines():
            found = re.match(r"(.+?):(\d+):\d+: error", line)
            if found:
                problems.setdefault(found[1], found[2])
    return [f"{name}:{number}: not formatted; run {tool} -i {name}" for name, number in problems.items()]


def includes(tree, name):
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found[1], found[2]


def folder_of(tree, name, header):
    """The folder that an include names: one of ORDER, "public", or None for a library from outside."""
    if header.startswith("sluice/"):
        return "public"
    first = header.split("/")[0]
    if first in ORDER and "/" in header:
        return first
    if (tree.root / "kernels" / header).exists():
        return "kernels"
    if ((tree.root / name).parent / header).exists():
        return "self"
    return None


def check_includes(tree):
    """folders include only those below them; the command line and the server only base and the public headers"""
    problems = []
    for name in tree.pick(".h", ".cpp", ".inc"):
        parts = name.split("/")
        own = {"src": parts[1] if len(parts) > 2 else "", "kernels": "kernels", "include": "public"}.get(parts[0])
        if own is None:
            continue
        if own not in ORDER and own != "public":
            problems.append(f"{name}: '{own}' is no folder of the design")
            continue
        below = {"public"} if own == "public" else FEWER.get(own, set(ORDER[:ORDER.index(own)]))
        allowed = below | {own, "self", None} | (set() if own == "kernels" else {"public"})
        for number, _, header in includes(tree, name):
            target = folder_of(tree, name, header)
            if target not in allowed:
                problems.append(f"{name}:{number}: {own} must not include {target} ({header})")
            elif ".." in header.split("/"):
                problems.append(f"{name}:{number}: name the file from the root of src, not with .. ({header})")
    return problems


def check_os_headers(tree):
    """headers of the operating system appear in src/base alone"""
    return [f"{name}:{number}: {header} belongs into src/base"
            for top in ("src/", "include/", "kernels/") for name in tree.pick(".h", ".cpp", ".inc", under=top)
            if not name.startswith("src/base/") for number, _, header in includes(tree, name) if OS_HEADERS.match(header)]


def check_printing(tree):
    """below the command line nothing prints, exits or reads the environment"""
    word = re.compile(r"\b(std::(cout|cerr|clog|exit|abort|getenv)|f?printf\s*\(|puts\s*\(|getenv\s*\(|exit\s*\(|abort\s*\(|"
                      r"fmt::print\b)")
    allowed = re.compile(r"_exit\s*\(")  # the second Ctrl-C
    problems = []
    for name in tree.pick(".h", ".cpp", under="src/") + tree.pick(".h", under="include/"):
        if name.startswith(("src/cli/", "src/server/")):
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            code = allowed.sub("", line.split("//")[0])
            if word.search(code):
                problems.append(f"{name}:{number}: {word.search(code)[0].strip('( ')} belongs into src/cli; return an Error or log")
    return problems


def check_kernels(tree):
    """every kernel has its reference and its test"""
    script = tree.root / "tools/check_kernels.py"
    if not script.exists():
        raise Skipped("tools/check_kernels.py is not there")
    result = run([sys.executable, str(script)], cwd=tree.root)
    return [] if result.returncode == 0 else lines_of(result.stdout + result.stderr) or ["failed and said nothing"]


def check_support(tree):
    """docs/support.md has a row for every architecture and type, and a column for every backend"""
    name = "docs/support.md"
    if name not in tree.files:
        raise Skipped(f"{name} is not there")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import support  # pylint: disable=import-outside-toplevel

    text = tree.text(name)
    wanted = [support.header(tree.root)]
    wanted += [f"| {architecture} | {kind} | " for architecture in support.architectures(tree.root) for kind in support.types(tree.root)]
    wanted += [f"| {tier} | {', '.join(support.slow_types(tree.root)) or 'none'} |" for tier in support.tiers(tree.root)]
    problems = [f"{name}: lacks '{row.strip()}'; run tools/support.py" for row in wanted if "\n" + row not in text]
    n_rows = len(re.findall(r"^\| \w+ \| \w+ \| ", text, re.MULTILINE)) - 1
    if n_rows > len(support.architectures(tree.root)) * len(support.types(tree.root)):
        problems.append(f"{name}: has rows of what is no more; run tools/support.py")
    return problems


def check_length(tree):
    """no source file is longer than 600 lines"""
    return [f"{name}: {count} lines; {MAX_LINES} are the most: split it" for name in tree.files
            if pathlib.Path(name).suffix in CODE and (count := tree.text(name).count("\n")) > MAX_LINES]


def check_paths(tree):
    """no file names a folder of somebody's machine"""
    # Put together here, so that this file does not name them itself.
    machine = re.compile(r"(?<![\w.$}])/(" + "|".join(["wor" + "k/", "hom" + r"e/\w", "Use" + r"rs/\w", "roo" + r"t/[\w.]"]) + ")")
    problems = []
    for name in tree.files:
        if name.startswith(DATA) or pathlib.Path(name).suffix not in SOURCE:
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if machine.search(line):
                problems.append(f"{name}:{number}: names a folder of one machine: {machine.search(line)[0]}...")
    return problems


def check_newlines(tree):
    """text files end with one newline, and have no carriage returns or trailing blanks"""
    problems = []
    for name in tree.files:
        if name.startswith(DATA) or pathlib.Path(name).suffix not in SOURCE:
            continue
        data = (tree.root / name).read_bytes()
        if b"\0" in data:
            continue
        if data and (not data.endswith(b"\n") or data.endswith(b"\n\n")):
            problems.append(f"{name}: must end with exactly one newline")
        if b"\r" in data:
            problems.append(f"{name}: has carriage returns")
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.endswith((b" ", b"\t")) and not name.endswith(".md"):
                problems.append(f"{name}:{number}: blanks at the end of the line")
    return problems


def check_public_headers(tree):
    """each public header compiles on its own, sluice.h as C11 too"""
    compilers = [(shutil.which("g++") or shutil.which("c++"), "c++", "-std=c++20"), (shutil.which("gcc") or shutil.which("cc"), "c", "-std=c11")]
    problems = []
    headers = tree.pick(".h", under="include/sluice/")
    if not headers:
        return ["include/sluice has no header"]
    with tempfile.TemporaryDirectory() as folder:
        for name in headers:
            header = name.removeprefix("include/")
            for compiler, language, standard in compilers if header == "sluice/sluice.h" else compilers[:1]:
                if not compiler:
                    raise Skipped("there is no compiler")
                source = pathlib.Path(folder, "header." + language)
                source.write_text(f'#include "{header}"\n#include "{header}"\n')  # twice: the guard works
                # __extension__ covers TRY(), so even -pedantic is silent.
                result = run([compiler, "-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                              "-I", str(tree.root / "include"), str(source)])
                if result.returncode != 0:
                    problems += [f"{name} as {standard}: {line}" for line in lines_of(result.stderr, 3)]
    return problems


def check_links(tree):
    """links between the documents lead somewhere"""
    problems = []
    for name in tree.pick(".md"):
        text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), tree.text(name), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not ((tree.root / name).parent / target).exists():
                    problems.append(f"{name}:{number}: links to {target}, which does not exist")
    return problems


def check_scripts(tree):
    """shell scripts and Python programs have no syntax error"""
    problems = []
    for name in tree.files:
        first = (tree.root / name).open("rb").readline() if pathlib.Path(name).suffix in (".sh", ".py", "") else b""
        if name.endswith(".py"):
            try:
                compile(tree.text(name), name, "exec")
            except SyntaxError as error:
                problems.append(f"{name}:{error.lineno}: {error.msg}")
        elif name.endswith(".sh") or (first.startswith(b"#!") and b"bash" in first):
            result = run(["bash", "-n", str(tree.root / name)])
            problems += [f"{name}: {line}" for line in lines_of(result.stderr, 2)] if result.returncode else []
    return problems


ALL = {name.removeprefix("check_"): function for name, function in list(globals().items()) if name.startswith("check_")}
