"""Small changes of lines: which are drawn, and where none is."""

from __future__ import annotations

from ast import PyCF_ONLY_AST

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.proof.variants.mutants import list_lost_values, list_mutations, list_removals

EVERYWHERE = range(1, 1_000)


def drawn(path: str, text: str, lines=EVERYWHERE) -> list[str]:
    return [mutation.describe() for mutation in list_mutations(path, text, lines)]


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("a.py", "if a >= limit: pass\n", [">= → >"]),
        ("a.py", "if a not in b: pass\n", ["not in → in"]),
        ("a.py", "x = rows[0]\n", ["0 → 1"]),
        ("a.py", "if not ready: pass\n", ["not ready → ready"]),
        ("a.py", "x = a and b\n", ["and → or"]),
        ("a.py", "x = True\n", ["True → False"]),
        ("a.ts", "if (a === 2 && b) {}\n", ["2 → 3"]),
        ("a.ts", "if (!ready) {}\n", ["!ready → ready"]),
        ("a.go", "package a\n\nfunc f(a int) bool { return a < b }\n", ["< → <="]),
        ("a.rs", "fn f(a: u8) -> bool { a != b }\n", ["!= → =="]),
        ("a.java", "class A { boolean f(int a) { return a <= b; } }\n", ["<= → <"]),
    ],
)
def test_the_first_change_of_a_line_is_the_one_that_is_seldom_equivalent(path, text, wanted):
    assert drawn(path, text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "log.info('%d rows', 3)\n",
        "raise ValueError(3)\n",
        "def f(a: Literal[3]): ...\n",
        "@retry(3)\ndef f(): ...\n",
        "def __repr__(self):\n    return self.a + 1\n",
        "'''a < 3'''\n",
        "# a < 3\n",
        "import a\n",
        "assert a < 3\n",
        "x = (\n",
    ],
)
def test_nothing_is_drawn_where_nobody_tests(text):
    assert drawn("a.py", text) == []


def test_one_change_a_line_and_only_on_the_lines_that_are_asked_for():
    text = "if a < 3 and b == 4:\n    x = 5\ny = 6\n"
    assert drawn("a.py", text) == ["< → <=", "5 → 6", "6 → 7"]
    assert drawn("a.py", text, {2}) == ["5 → 6"]
    assert drawn("a.py", text, ()) == []


def test_a_change_is_applied_at_its_place_whatever_stands_before_it():
    text = "é = '…'; x = a >= 2\n"
    (mutation,) = list_mutations("a.py", text, EVERYWHERE)
    assert mutation.apply(text.encode()).decode() == "é = '…'; x = a > 2\n"


SHOP = """\
class Shop:
    def total(self, rows):
        "The sum."
        rows = [*rows]
        return sum(rows)

    def __repr__(self):
        return "Shop"

    def later(self):
        ...

async def rate(x):
    return x
"""


def test_the_bodies_of_several_functions_are_removed_one_by_one():
    removals = list_removals("a.py", SHOP, EVERYWHERE)
    assert [(removal.describe(), removal.line) for removal in removals] == [
        ("total() → nothing", 4),
        ("rate() → nothing", 14),
    ]
    text = removals[0].apply(SHOP.encode()).decode()
    assert text.split("\n")[2:5] == ['        "The sum."', "        pass", ""]
    assert list_removals("a.py", SHOP, range(1, 6)) == []
    script = "function f() {\n  a();\n  return 1;\n}\nclass A { g() { return 2; } }\n"
    assert [removal.apply(script.encode()).decode() for removal in list_removals("a.js", script, EVERYWHERE)] == [
        script.replace("a();\n  return 1;", ";"),
        script.replace("return 2;", ";"),
    ]


@given(st.lists(st.sampled_from(["a < 3", "not b", "c and d", "x + 1", "True", "'é' in y", "f(2)"]), min_size=1))
def test_whatever_is_changed_can_still_be_parsed(parts):
    text = SHOP + "".join(f"if {part}:\n    z = [{', '.join(parts)}]\n" for part in parts)
    changes = [*list_mutations("a.py", text, EVERYWHERE), *list_removals("a.py", text, EVERYWHERE)]
    assert changes
    assert all(compile(change.apply(text.encode()), "a", "exec", flags=PyCF_ONLY_AST) for change in changes)


def test_a_value_that_is_assigned_or_returned_is_lost():
    assert [
        change.describe() for change in list_lost_values("a.py", "x = f(1)\ny = None\nreturn g(2)\n", EVERYWHERE)
    ] == [
        "f(1) → None",
        "g(2) → None",
    ]
    script = "const x = f(1);\nx.y = g(2);\nfunction h() {\n  return x;\n}\n"
    changes = list_lost_values("a.js", script, EVERYWHERE)
    assert [change.describe() for change in changes] == ["f(1) → null", "g(2) → null", "x → null"]
    assert list_lost_values("a.py", "x = f(1)\n", {2}) == []
