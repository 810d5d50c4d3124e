#!/usr/bin/env python3
"""Draws what a terminal showed as an SVG picture.

    terminal_svg.py --out docs/images/terminal.svg './sluicew run "Once upon a time" -s 7' './sluicew devices'
    terminal_svg.py --out picture.svg --text captured.txt

Runs each command in a pseudo terminal, in the current folder, and draws the commands with their output; or draws a
captured text. Understands colours, bold, dim, carriage returns and wiping of lines: what a progress bar needs.
"""
import argparse
import os
import pathlib
import pty
import re
import struct
import sys
import unicodedata
from xml.sax.saxutils import escape

PALETTE = ["#2e3440", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9",
           "#5c6370", "#ff7b86", "#b5e890", "#ffd98a", "#82c7ff", "#e29bf2", "#7fd6e0", "#ffffff"]
FOREGROUND, BACKGROUND, PROMPT = "#d8dee9", "#1e2227", "#98c379"
CELL_W, CELL_H, FONT, MARGIN, BAR = 8.4, 18, 14, 16, 34


def colour_256(n):
    if n < 16:
        return PALETTE[n]
    if n >= 232:
        return "#" + f"{8 + (n - 232) * 10:02x}" * 3
    levels = [0, 95, 135, 175, 215, 255]
    n -= 16
    return "#" + "".join(f"{levels[i]:02x}" for i in (n // 36, n // 6 % 6, n % 6))


class Screen:
    """Lines of (character, style); a style is (foreground, background, bold, dim)."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column = columns, [[]], 0, 0
        self.style = (None, None, False, False)

    def put(self, character):
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.column + width > self.columns:
            self.newline()
        line = self.lines[self.row]
        line.extend([(" ", (None, None, False, False))] * (self.column + width - len(line)))
        line[self.column] = (character, self.style)
        if width == 2:
            line[self.column + 1] = ("", self.style)
        self.column += width

    def newline(self):
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.lines):
            self.lines.append([])

    def select(self, codes):
        foreground, background, bold, dim = self.style
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                foreground, background, bold, dim = None, None, False, False
            elif code in (1, 2, 22):
                bold, dim = code == 1, code == 2
            elif code in (38, 48) and codes[:1] == [5] and len(codes) > 1:
                value, codes = colour_256(codes[1]), codes[2:]
                foreground, background = (value, background) if code == 38 else (foreground, value)
            elif code in (38, 48) and codes[:1] == [2] and len(codes) > 3:
                value, codes = "#%02x%02x%02x" % tuple(codes[1:4]), codes[4:]
                foreground, background = (value, background) if code == 38 else (foreground, value)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                foreground = PALETTE[code - 30 if code < 40 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                background = PALETTE[code - 40 if code < 50 else code - 92]
            elif code == 39:
                foreground = None
            elif code == 49:
                background = None
        self.style = (foreground, background, bold, dim)

    def feed(self, text):
        for found in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.|(.)", text, re.S):
            codes, command, character = found[1], found[2], found[3]
            if command == "m":
                self.select(codes)
            elif command == "K":
                del self.lines[self.row][0 if codes == "2" else self.column:]
            elif command == "A":
                self.row = max(0, self.row - int(codes or 1))
            elif character == "\n":
                self.newline()
            elif character == "\r":
                self.column = 0
            elif character == "\t":
                self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
            elif character and character >= " ":
                self.put(character)


def capture(command, columns):
    """What `command` writes to a terminal of that width."""
    child, handle = pty.fork()
    if child == 0:
        import fcntl
        import termios
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp("bash", ["bash", "-c", command])
    pieces = []
    while True:
        try:
            piece = os.read(handle, 65536)
        except OSError:  # the end, on Linux
            break
        if not piece:
            break
        pieces.append(piece)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        print(f"warning: '{command}' ended with {status}", file=sys.stderr)
    return b"".join(pieces).decode("utf-8", "replace")


def runs(line):
    """The line as (column, text, style), cut where the style changes."""
    start, text, style = 0, "", None
    for column, (character, cell_style) in enumerate(line):
        if cell_style != style and text:
            yield start, text, style
            text = ""
        if not text:
            start, style = column, cell_style
        text += character
    if text:
        yield start, text, style


def svg(screen, title):
    while screen.lines and not "".join(character for character, _ in screen.lines[-1]).strip():
        screen.lines.pop()
    width = round(screen.columns * CELL_W + 2 * MARGIN)
    height = BAR + len(screen.lines) * CELL_H + MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
             f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>']
    parts += [f'<circle cx="{20 + 18 * i}" cy="17" r="5.5" fill="{fill}"/>' for i, fill in enumerate(("#e06c75", "#e5c07b", "#98c379"))]
    parts.append(f'<text x="{width // 2}" y="21" fill="#8b93a1" font-size="12" text-anchor="middle" '
                 f'font-family="sans-serif">{escape(title)}</text>')
    parts.append(f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{FONT}" xml:space="preserve">')
    for row, line in enumerate(screen.lines):
        y = BAR + row * CELL_H
        for column, text, (foreground, background, bold, dim) in runs(line):
            x = MARGIN + column * CELL_W
            length = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text) * CELL_W
            if background:
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{CELL_H}" fill="{background}"/>')
            if text.strip():
                more = (' font-weight="bold"' if bold else "") + (' opacity="0.6"' if dim else "")
                # The length is fixed, so that any monospaced font keeps the columns.
                parts.append(f'<text x="{x:.1f}" y="{y + 14}" fill="{foreground or FOREGROUND}"{more} textLength="{length:.1f}" '
                             f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')
    return "\n".join(parts + ["</g>", "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--columns", type=int, default=96)
    parser.add_argument("--title", default="sluice")
    parser.add_argument("--text", type=pathlib.Path, help="draw this captured text instead of running commands")
    parser.add_argument("commands", nargs="*")
    options = parser.parse_args()
    screen = Screen(options.columns)
    if options.text:
        screen.feed(options.text.read_text(encoding="utf-8"))
    for command in options.commands:
        screen.style = (PROMPT, None, True, False)
        screen.feed("$ ")
        screen.style = (None, None, True, False)
        screen.feed(command + "\n")
        screen.style = (None, None, False, False)
        screen.feed(capture(command, options.columns).rstrip("\r\n") + "\n")
        screen.style = (None, None, False, False)
        screen.newline()
    if not any(screen.lines):
        parser.error("nothing to draw: give commands or --text")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(svg(screen, options.title), encoding="utf-8")


if __name__ == "__main__":
    main()
