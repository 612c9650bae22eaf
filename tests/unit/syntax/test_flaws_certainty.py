"""A file is called broken only where that is sure: valid code that a grammar can't read is not, a lost bracket is."""

from __future__ import annotations

import pytest

from core.syntax.flaws import breaks_syntax, describe_first_flaw, find_flaws, find_new_flaws

JSONC = (
    '{\n  // what is built\n  "files": ["a.ts", /* last */],\n  "strict": true, // to the end ]\n  // "more": [],\n}\n'
)
NEWER = [
    ("a.css", "@media (width >= 40rem) and (400px <= height < 900px) { a { color: blue } }"),
    ("a.css", "@container card (inline-size > 30em) { a { top: 0 } }"),
    ("a.css", "@layer base, more; @layer base { a { &:hover { color: red } .b & { color: blue } } }"),
    ("a.css", "@property --x { syntax: '<length>'; inherits: false; initial-value: 0px }\n@source './**/*.vue';"),
    ("a.css", "a { background: url(../b.svg#c); color: color-mix(in oklch, red 20%, blue); @apply px-2; }"),
    ("a.css", "@scope (.a) to (.b) { img { inset: 0 } } @starting-style { a { opacity: 0 } }"),
    ("a.ts", "abstract class A<in out T> { declare x: T; accessor y = 1 }"),
    ("a.ts", "export type * as T from 'm'; type A<in T> = (x: T) => void; type B<out T, const U> = T"),
    ("a.ts", "using x = f(); await using y = g(); import defer * as z from 'z'; function h<const T>(x: T) {}"),
    ("a.ts", "interface I { get x(): number; set x(v: string) } let a = <const T,>(x: T) => x satisfies T"),
    ("a.js", "export { if_block as if } from './if.js'; import source m from 'm'; class A { accessor x = 1 }"),
    ("a.jsx", "x = <div class='a'>don't (b <b.c d={e} /></div>;"),
    ("a.c", "static int __init start(void) { return 0; }\nmodule_init(start);"),
    ("a.c", "static ssize_t __cold __must_check show(struct device *d) { for_each(x, y) { f(x); } }\nEXPORT(show)"),
    ("a.cpp", "Q_OBJECT struct A { Q_SIGNALS: void f(this auto&& self); int x = [:^^int:]; };"),
    ("a.sh", "f() {\n  local -n ref=$1; [[ $2 =~ ^a(b)+$ ]] && ref=1; x=${ cmd; }; case $a in b) ;; esac\n}"),
    ("a.sh", "declare -A m=([a b]=c); { echo {{,us-}ascii,a}; } |& cat; coproc X { cat; }"),
    ("a.rs", 'fn f() { let a = str![[r#"(\n"#]]; let x = gen { yield 1 }; let r = &raw const y; }'),
    ("a.rs", "impl<'a> A for B<'a> where (): Copy, [(); N]:, { unsafe extern \"C\" { safe fn g(); } use<'a> }"),
    ("A.java", "import module java.base;\nvoid main() { IO.println(1); }"),
    ("A.java", "class A extends B { A(int i) { if (i < 0) { throw x; } super(i); } }"),
    ("a.cs", "class A { int X { get => field; set => field = value ?? 0; } void F() { int[] a = [1, ..b]; } }"),
    ("a.cs", "extension(string s) { public bool E => s.Length == 0; }"),
    ("a.php", "<?php class A { public string $x { get => 1; set(string $v) { } } } $a |> f(...);"),
    ("a.rb", "def f(*, **, &) = g(*, **, &)\ncase x in {a:} unless b then it end"),
    ("a.html", "<p>Vue & Vuex <a href={x}>"),
    ("a.go", "package a\n\nfunc f() { x := new(1 + 2); for range 3 { _ = x } }"),
    ("a.py", "def f[T: int = str, *Ts, **P](x: T) -> T: ...\nlazy import x\ntype A[T = int] = list[T]\n"),
    ("a.py", "x = f'{y['a']}'\nz = t'{y}'\ntry:\n    pass\nexcept A, B:\n    pass\n"),
    ("a.json", "{{ header }}\n"),
    ("a.json", '{"a": {{ value | tojson }}}'),
    ("tsconfig.json", JSONC),
    ("conf.json", JSONC),
    (".vscode/settings.json", JSONC),
]
SOUND = {
    "a.css": ("a { color: red; }\n", "a { color: red; \n"),
    "a.ts": ("function f(x: number) { return [x] }\n", "function f(x: number { return [x] }\n"),
    "a.js": ("function f(x) { return [x] }\n", "function f(x) { return [x }\n"),
    "b.js": ("const a = { b: 1, c: 2 };\n", "const a = { b: 1 c: 2 };\n"),
    "a.tsx": ("const a = (x) => { return <b>{x}</b> }\n", "const a = (x) => { return <b>{x}</b> \n"),
    "a.rs": ("fn f<'a>(x: &'a str) -> char { '{' }\n", "fn f<'a>(x: &'a str) -> char { '{' \n"),
    "A.java": ("class A { int f() { return 1; } }\n", "class A { int f() { return 1; }\n"),
    "a.go": ("package a\n\nfunc f() { g() }\n", "package a\n\nfunc f() { g( }\n"),
    "a.c": ("#if A\nint x;\n#endif\nint f(void) { return 0; }\n", "#if A\nint x;\n#endif\nint f(void) { return 0; \n"),
    "a.cs": ('class A { string x = "{"; }\n', 'class A { string x = "{"; \n'),
    "a.py": ("def f(x):\n    return 1\n", "def f(x:\n    return 1\n"),
    "a.json": ('{"a": 1, "b": [2]}', '{"a": 1 "b": [2]}'),
    "package.json": ('{"a": [1]}', '{"a": [1],}'),
    "tsconfig.json": ('{"a": 1, // c\n"b": 2,}', '{"a": 1 // c\n"b": 2,}'),
}
UNREAD = {
    "a.css": "@media (width > 1px) { b { top: 0 } }\n",
    "a.ts": "type A<in out T> = T\n",
    "A.java": "import module java.base;\n",
    "a.rs": 'static A: B = str![[r#"(\n"#]];\n',
}


@pytest.mark.parametrize(("path", "code"), NEWER)
@pytest.mark.parametrize("is_new", [True, False], ids=["a new file", "an edit"])
def test_valid_code_that_a_grammar_can_not_read_is_never_called_broken(path, code, is_new):
    before = "" if is_new or path.endswith(".json") or "{{" in code else {"a.php": "<?php\n"}.get(path, "\n")
    flaws = find_new_flaws(path, before, code)
    assert not flaws or not breaks_syntax(path, before, code, flaws)
    assert describe_first_flaw(path, before, code) == ""


@pytest.mark.parametrize("path", SOUND)
def test_what_is_broken_in_any_form_of_a_language_is_called_so(path):
    before, after = SOUND[path]
    assert find_flaws(path, before) == ()
    flaws = find_new_flaws(path, before, after)
    assert flaws
    assert breaks_syntax(path, before, after, flaws)
    assert describe_first_flaw(path, before, after).startswith("line ")


@pytest.mark.parametrize("path", UNREAD)
def test_an_edit_of_a_file_that_was_not_read_before_breaks_nothing(path):
    before, after = SOUND[path]
    odd = UNREAD[path]
    assert describe_first_flaw(path, odd + before, odd + after) == ""
    assert not breaks_syntax(path, odd + before, odd + after, find_flaws(path, odd + after))


def test_branches_of_a_preprocessor_may_each_open_the_same_bracket():
    before = "int f(void) { return g(); }\n"
    after = "int f(void) {\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  h() ]; }\n}\n"
    assert describe_first_flaw("a.c", before, after) == ""


def test_a_fault_of_a_parser_says_nothing(monkeypatch):
    def fail(*_: object) -> None:
        raise SystemError("of a foreign parser")

    monkeypatch.setattr("core.syntax.flaws.parse_syntax", fail)
    assert find_flaws("a.py", "x = (") is None
    assert find_new_flaws("a.py", "x = 1", "x = (") == ()
    monkeypatch.undo()
    flaws = find_flaws("a.css", "a { ")
    monkeypatch.setattr("core.syntax.flaws.is_certainly_broken", fail)
    assert not breaks_syntax("a.css", "", "a { ", flaws)
