"""Symbols of a file: every name that it defines, by language."""

from __future__ import annotations

import pytest

from core.syntax.symbols import MOST_NESTED, find_symbols, match_symbol

CASES = {
    "a.py": (
        "LIMIT = 3\n\n@cached\ndef load(path):\n    def inner(): ...\n\nclass Model:\n    async def save(self): ...\n",
        ["LIMIT constant 1-1", "load function 3-5", "load.inner function 5-5", "Model class 7-8",
         "Model.save method 8-8"],
    ),
    "a.ts": (
        "export const add = (a: number, b: number): number => {\n  return a + b;\n};\n"
        "export type Pair = [number, number];\ninterface Shape { area(): number }\n"
        "class Box implements Shape {\n  area() { return 1; }\n  grow = () => { this.area(); };\n}\nenum Kind { A }\n",
        ["add function 1-3", "Pair type 4-4", "Shape interface 5-5", "Box class 6-9", "Box.area method 7-7",
         "Box.grow method 8-8", "Kind enum 10-10"],
    ),
    "a.js": (
        "exports.handle = function handle(req) {\n  return req;\n};\napp.use = function () {};\nconst x = 1;\n",
        ["handle function 1-3", "use function 4-4", "x constant 5-5"],
    ),
    "a.go": (
        "package a\n\ntype Engine struct {\n\tx int\n}\n\n"
        "func (e *Engine) Run() error {\n\treturn nil\n}\n\nfunc New() {}\n",
        ["Engine type 3-5", "Engine.Run method 7-9", "New function 11-11"],
    ),
    "a.rs": (
        "pub struct P { x: u8 }\n\nimpl P {\n    pub fn new() -> P { P { x: 1 } }\n}\n\ntrait T { fn go(&self); }\n",
        ["P class 1-1", "P.new method 4-4", "T interface 7-7", "T.go method 7-7"],
    ),
    "a.c": (
        "struct dict { int n; };\n\nstatic int *find(struct dict *d) {\n    return 0;\n}\n",
        ["dict class 1-1", "find function 3-5"],
    ),
    "A.java": ("class A {\n  int size() { return 1; }\n}\n", ["A class 1-3", "A.size method 2-2"]),
}  # fmt: skip


@pytest.mark.parametrize("path", CASES)
def test_the_names_that_a_file_defines_are_found_with_their_lines(path):
    text, expected = CASES[path]
    symbols = find_symbols(path, text)
    assert [f"{symbol.qualified} {symbol.kind} {symbol.first + 1}-{symbol.last + 1}" for symbol in symbols] == expected


def test_a_language_that_is_not_known_has_no_symbols_and_an_empty_file_has_none():
    assert find_symbols("a.xyz", "def f(): ...") is None
    assert find_symbols("a.py", "") == ()


@pytest.mark.parametrize("name", ["save", "Model.save", "Model::save", "Model#save"])
def test_a_symbol_is_matched_by_its_name_and_by_what_it_stands_in(name):
    [_, save] = find_symbols("a.py", "class Model:\n    def save(self): ...\n")
    assert match_symbol(save, name)
    assert not match_symbol(save, "Other.save")
    assert not match_symbol(save, "ave")


def test_definitions_that_stand_in_each_other_without_end_are_none_from_some_depth_on():
    symbols = find_symbols("a.js", "function f(){\n" * 1_000 + "}\n" * 1_000)
    assert len(symbols) == MOST_NESTED
    assert symbols[-1].qualified.count(".") == MOST_NESTED - 1


def test_what_is_exported_and_decorated_counts_from_its_outermost_line():
    text = "@one\n@two\nexport class A {\n  m() {}\n}\nexport const a = 1;\n{ const c = 3; var d = () => 1; }\n"
    assert [f"{symbol.name} {symbol.first + 1}-{symbol.last + 1}" for symbol in find_symbols("a.ts", text)] == [
        "A 1-5",
        "m 4-4",
        "a 6-6",
        "d 7-7",
    ]
