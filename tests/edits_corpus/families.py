"""Edits of small files in eight languages, each written exactly and then as models miswrite them."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.edits_corpus.case import Case, Kind, angled, dashed, strings


class Edit(NamedTuple):
    path: str
    text: str
    old: str
    new: str

    @property
    def after(self) -> str:
        assert self.text.count(self.old) == 1
        return self.text.replace(self.old, self.new)


PYTHON = '''"""Prices."""

from decimal import Decimal


class Cart:
    def __init__(self, owner):
        self.owner = owner
        self.lines = []

    def add(self, name, price, count=1):
        if count < 1:
            raise ValueError("count is less than one")
        self.lines.append((name, Decimal(price), count))

    def total(self):
        result = Decimal(0)
        for name, price, count in self.lines:
            result += price * count
        return result
'''
SCRIPT = """import { read } from "./io";

const LIMIT = 40;

export function load(path) {
  const rows = read(path).split("\\n");
  if (rows.length > LIMIT) {
    throw new Error(`too long: ${rows.length}`);
  }
  return rows.map((row) => row.trim());
}

export function save(path, rows) {
  return write(path, rows.join("\\n"));
}
"""
GO = """package store

import "errors"

var ErrGone = errors.New("gone")

func (s *Store) Get(key string) (string, error) {
\ts.mu.Lock()
\tdefer s.mu.Unlock()
\tvalue, ok := s.items[key]
\tif !ok {
\t\treturn "", ErrGone
\t}
\treturn value, nil
}

func (s *Store) Len() int {
\treturn len(s.items)
}
"""
RUST = """pub struct Meter {
    ticks: u64,
}

impl Meter {
    pub fn new() -> Self {
        Meter { ticks: 0 }
    }

    pub fn tick(&mut self, by: u64) -> u64 {
        self.ticks = self.ticks.saturating_add(by);
        self.ticks
    }
}
"""
PAGE = """<!doctype html>
<html>
  <body>
    <h1>Orders</h1>
    <ul id="orders">
      <li class="open">First</li>
      <li class="done">Second</li>
    </ul>
    <footer>Made here</footer>
  </body>
</html>
"""
STYLE = """.card {
  color: #222;
  padding: 4px 8px;
}

.card > .title {
  font-weight: bold;
}

@media print {
  .card {
    border: none;
  }
}
"""
QUERY = """CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    placed_at TEXT NOT NULL,
    total NUMERIC NOT NULL
);

CREATE INDEX orders_by_day
    ON orders (placed_at);
"""
SETTINGS = """name: shop
jobs:
  build:
    steps:
      - run: make build
      - run: make check
  deploy:
    needs: build
    steps:
      - run: make deploy
"""

EDITS = (
    Edit(
        "cart.py",
        PYTHON,
        '            raise ValueError("count is less than one")\n        self.lines.append((name, Decimal(price), count))\n',
        '            raise ValueError(f"count is {count}")\n        self.lines.append((name, Decimal(price), count))\n        self.changed = True\n',
    ),
    Edit(
        "cart.py",
        PYTHON,
        "    def total(self):\n        result = Decimal(0)\n        for name, price, count in self.lines:\n            result += price * count\n        return result\n",
        "    def total(self):\n        return sum((price * count for _, price, count in self.lines), Decimal(0))\n",
    ),
    Edit(
        "cart.py",
        PYTHON,
        "        self.owner = owner\n        self.lines = []\n",
        "        self.owner = owner\n        self.closed = False\n        self.lines = []\n",
    ),
    Edit(
        "io.js",
        SCRIPT,
        "  if (rows.length > LIMIT) {\n    throw new Error(`too long: ${rows.length}`);\n  }\n",
        "  if (rows.length > LIMIT) {\n    return rows.slice(0, LIMIT);\n  }\n",
    ),
    Edit(
        "io.js",
        SCRIPT,
        'export function save(path, rows) {\n  return write(path, rows.join("\\n"));\n}\n',
        'export function save(path, rows) {\n  const text = rows.join("\\n");\n  return write(path, text);\n}\n',
    ),
    Edit(
        "get.go",
        GO,
        '\tvalue, ok := s.items[key]\n\tif !ok {\n\t\treturn "", ErrGone\n\t}\n',
        '\tvalue, ok := s.items[key]\n\tif !ok {\n\t\ts.misses++\n\t\treturn "", ErrGone\n\t}\n',
    ),
    Edit(
        "get.go",
        GO,
        "func (s *Store) Len() int {\n\treturn len(s.items)\n}\n",
        "func (s *Store) Len() int {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\treturn len(s.items)\n}\n",
    ),
    Edit(
        "meter.rs",
        RUST,
        "        self.ticks = self.ticks.saturating_add(by);\n        self.ticks\n",
        "        self.ticks = self.ticks.wrapping_add(by);\n        self.ticks\n",
    ),
    Edit(
        "page.html",
        PAGE,
        '      <li class="open">First</li>\n      <li class="done">Second</li>\n',
        '      <li class="done">First</li>\n      <li class="done">Second</li>\n      <li class="open">Third</li>\n',
    ),
    Edit(
        "card.css",
        STYLE,
        ".card > .title {\n  font-weight: bold;\n}\n",
        ".card > .title {\n  font-weight: 600;\n  margin: 0;\n}\n",
    ),
    Edit(
        "orders.sql",
        QUERY,
        "    placed_at TEXT NOT NULL,\n    total NUMERIC NOT NULL\n",
        "    placed_at TEXT NOT NULL,\n    note TEXT,\n    total NUMERIC NOT NULL\n",
    ),
    Edit(
        "ci.yml",
        SETTINGS,
        "  deploy:\n    needs: build\n    steps:\n      - run: make deploy\n",
        "  deploy:\n    needs: [build, check]\n    steps:\n      - run: make deploy\n",
    ),
)

Written = tuple[str, str, str, str]  # original, old, new, expected


def _each_line(text: str, change: Callable[[str], str]) -> str:
    return "".join(f"{change(line)}\n" for line in text.splitlines())


def _margin(text: str) -> int:
    return min(len(line) - len(line.lstrip(" \t")) for line in text.splitlines() if line.strip())


def _taken_out(edit: Edit) -> Written:
    cut = _margin(edit.old)
    return (
        edit.text,
        _each_line(edit.old, lambda line: line[cut:]),
        _each_line(edit.new, lambda line: line[cut:]),
        edit.after,
    )


def _retabbed(line: str) -> str:
    body = line.lstrip(" \t")
    indent = line[: len(line) - len(body)]
    unit = "\t" if "\t" in indent else "    "
    return indent.replace("\t", "    ") + body if unit == "\t" else indent.replace("    ", "\t") + body


def _numbered(text: str, first: int, form: str) -> str:
    return "".join(form.format(number, line) for number, line in enumerate(text.splitlines(keepends=True), start=first))


def _with_numbers(edit: Edit, form: str) -> Written:
    first = edit.text[: edit.text.index(edit.old)].count("\n") + 1
    return edit.text, _numbered(edit.old, first, form), _numbered(edit.new, first, form), edit.after


def _crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def _mixed(text: str) -> str:
    return "".join(_crlf(line) if number % 2 else line for number, line in enumerate(text.splitlines(keepends=True)))


def _open(text: str) -> str:
    return text.removesuffix("\n")


EXACT: dict[str, Callable[[Edit], Written]] = {
    "as it is": lambda edit: (edit.text, edit.old, edit.new, edit.after),
    "of a CRLF file": lambda edit: (_crlf(edit.text), _crlf(edit.old), _crlf(edit.new), _crlf(edit.after)),
    "without the final newline of the file": lambda edit: (_open(edit.text), edit.old, edit.new, _open(edit.after)),
}
MISWRITTEN: dict[str, Callable[[Edit], Written]] = {
    "LF for CRLF": lambda edit: (_crlf(edit.text), edit.old, edit.new, _crlf(edit.after)),
    "CRLF for LF": lambda edit: (edit.text, _crlf(edit.old), _crlf(edit.new), edit.after),
    "white space added at line ends": lambda edit: (
        edit.text,
        _each_line(edit.old, lambda s: s + "  "),
        edit.new,
        edit.after,
    ),
    "taken out of the indentation": _taken_out,
    "indented by two more": lambda edit: (
        edit.text,
        _each_line(edit.old, lambda s: f"  {s}" if s else s),
        _each_line(edit.new, lambda s: f"  {s}" if s else s),
        edit.after,
    ),
    "blank lines around": lambda edit: (edit.text, f"\n{edit.old}\n", f"\n{edit.new}\n", edit.after),
    "a blank line within": lambda edit: (
        edit.text,
        edit.old.replace("\n", "\n\n", 1),
        edit.new.replace("\n", "\n\n", 1) if edit.old.split("\n")[0] == edit.new.split("\n")[0] else edit.new,
        edit.after,
    ),
    "listing with pipes": lambda edit: _with_numbers(edit, "{:6}|{}"),
    "listing with spaced pipes": lambda edit: _with_numbers(edit, "{} | {}"),
    "listing with tabs": lambda edit: _with_numbers(edit, "{:>6}\t{}"),
    "spaces doubled within lines": lambda edit: (edit.text, _each_line(edit.old, _doubled), edit.new, edit.after),
    "no-break spaces": lambda edit: (
        edit.text,
        _each_line(edit.old, lambda s: s[: len(s) - len(s.lstrip())] + s.lstrip().replace(" ", "\u00a0", 1)),
        edit.new,
        edit.after,
    ),
}


def _doubled(line: str) -> str:
    body = line.lstrip(" \t")
    head, space, rest = body.partition(" ")
    quoted = any(mark in head for mark in "\"'`")
    return line[: len(line) - len(body)] + (body if quoted else f"{head}{space * 3}{rest}")


def cases() -> Iterator[Case]:
    for number, edit in enumerate(EDITS):
        for group, kind in ((EXACT, "ordinary"), (MISWRITTEN, "tolerance")):
            for name, write in group.items():
                yield from _in_each_format(f"{edit.path} {number}, {name}", kind, edit.path, write(edit))


def _in_each_format(name: str, kind: Kind, path: str, written: Written) -> Iterator[Case]:
    original, old, new, expected = written
    yield Case(f"{name}, dashes", kind, "search_replace", original, dashed((old, new)), expected, path)
    fenced = f"Here it is:\n\n{path}\n```\n{angled((old, new))}```\n"
    yield Case(f"{name}, angles", kind, "search_replace", original, fenced, expected, path)
    if old.endswith("\n") and new.endswith("\n"):
        old, new = (text.removesuffix("\n").removesuffix("\r") for text in (old, new))
    yield Case(f"{name}, strings", kind, "str_replace", original, strings(old, new), expected, path)
