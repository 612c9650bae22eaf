"""The class of a hunk, by pairs of texts; most are shortened from commits of public repositories."""

from __future__ import annotations

import textwrap

import pytest

from core.proof.classes.moved_blocks import is_deletion_of_definitions
from core.proof.hunk_classes import ChangedText, classify_hunks
from core.protocol.review import Change, FileState, Operation
from core.shadow.diff.hunks import compute_hunks


def changed(path: str, base: str, pending: str, operation: Operation = "edit") -> ChangedText:
    old, new = (textwrap.dedent(text).lstrip("\n").encode() for text in (base, pending))
    change = Change(
        path=path, operation=operation, base=FileState(), pending=FileState(), hunks=compute_hunks(old, new)
    )
    return ChangedText(change, old, new)


def kinds(*texts: ChangedText) -> list[str]:
    return [hunk_class.kind for hunk_class in classify_hunks(texts).values()]


@pytest.mark.parametrize(
    ("base", "pending", "wanted"),
    [
        ("x = f(1, 2)\n", "x = f(\n    1,\n    2,\n)\n", "format"),
        ("x = 1\n", "# The first.\nx = 1\n", "format"),
        ("x = 'a'\n", 'x = "a"\n', "format"),
        ("x = 'a'\n", 'x = "b"\n', "code"),
        ("def f():\n    return 1\n", 'def f():\n    """Return one."""\n    return 1\n', "docs"),
        ("def f(a, b=1):\n    return a\n", "def f(a: int, b: int = 1) -> int:\n    return a\n", "types"),
        ("def f(a, b=1):\n    return a\n", "def f(a, b=2):\n    return a\n", "code"),
        ("@app.get\ndef f(a: int): ...\n", "@app.get\ndef f(a: str): ...\n", "code"),
        ("@property\ndef f(a): return 1\n", "@property\ndef f(a) -> int: return 1\n", "types"),
        ("class A(Struct):\n    x: int = 1\n", "class A(Struct):\n    x: str = 1\n", "code"),
        ("@dataclass\nclass A:\n    x: int\n", "@dataclass\nclass A:\n    x: int\n    y: int\n", "code"),
        ("class A:\n    x: t.Any = json\n", "class A:\n    x: Json[str] = json\n", "types"),
        ("x = f(y)\n", "x = t.cast(str, f(y))\n", "types"),
        ("x = column(y)\n", "x = column.cast(str, y)\n", "code"),
        ("import os\nos.x()\n", "import base64\nimport os\nos.x()\n", "imports"),
        ("from a import f\nf()\n", "from b import f\nf()\n", "code"),
        ("from a import f\nf()\n", "from b import g as f\nf()\n", "code"),
        ("x = 1\n", "from b import open\nx = 1\n", "code"),
        ("x = 1\n", "from b import *\nx = 1\n", "code"),
        ("x = f()\n", "from __future__ import annotations\nx = f()\n", "imports"),
        ("def f(a: 'A'): ...\n", "if TYPE_CHECKING:\n    from a import A\ndef f(a: 'A'): ...\n", "types"),
        ("def f(a: 'A'): ...\n", "from a import A\n\n\ndef f(a: A): ...\n", "types"),
        ("if a:\n    f()\n", "if a:\n    pass\nf()\n", "code"),
        ("__all__ = ['f']\ndef f(): 1\ndef g(): 2\n", "__all__ = ['f', 'g']\ndef f(): 1\ndef g(): 2\n", "imports"),
        ("__all__ = ['f']\ndef f(): 1\n", "__all__ = ['f', 'g']\ndef f(): 1\n", "code"),
        ("__all__ = ['f', 'g']\ndef f(): 1\ndef g(): 2\n", "__all__ = ['f']\ndef f(): 1\ndef g(): 2\n", "code"),
        ("__all__ = ['f']\ndef f(): 1\ng = 2\n", "__all__ = ['f', g]\ndef f(): 1\ng = 2\n", "code"),
        ("x = 1\n", "x = (\n", "code"),
    ],
)
def test_what_a_hunk_of_python_changes(base, pending, wanted):
    assert set(kinds(changed("src/a.py", base, pending))) == {wanted}


@pytest.mark.parametrize(
    ("base", "pending", "unless_noticed"),
    [
        ("@app.get\ndef f(a: int): ...\n", "@app.get\ndef f(a: str): ...\n", "types"),
        ("@app.get\ndef f(a: int): ...\n", "@app.get\ndef f(a: str = 'x'): ...\n", ""),
        ("@app.get\ndef f(a: int): ...\n", "@app.post\ndef f(a: str): ...\n", ""),
        ("@app.get\ndef f(a: int): g()\n", "@app.get\ndef f(a: str): h()\n", ""),
    ],
)
def test_annotations_that_a_decorator_may_read_are_code_until_no_test_notices_them(base, pending, unless_noticed):
    assert [
        (one.kind, one.unless_noticed) for one in classify_hunks([changed("src/a.py", base, pending)]).values()
    ] == [("code", unless_noticed)]


METHOD = "class A(B):\n    def f(self, x):\n        {}\n"


@pytest.mark.parametrize(
    ("base", "pending", "wanted"),
    [
        (METHOD.format("super(A, self).f()"), METHOD.format("super().f()"), "format"),
        (METHOD.format("super(B, self).f()"), METHOD.format("super().f()"), "code"),
        (METHOD.format("super(A, x).f()"), METHOD.format("super().f()"), "code"),
        (METHOD.format("return lambda: super(A, self).f()"), METHOD.format("return lambda: super().f()"), "code"),
        ("x = [*zip(a, b)]\n", "x = [*zip(a, b, strict=False)]\n", "format"),
        ("x = [*zip(a, b)]\n", "x = [*zip(a, b, strict=True)]\n", "code"),
        ("x = [*a.zip(b)]\n", "x = [*a.zip(b, strict=False)]\n", "code"),
        ("class A(object):\n    x = 1\n", "class A:\n    x = 1\n", "format"),
        ("x = '%s: %r' % (a, b)\n", "x = f'{a!s}: {b!r}'\n", "format"),
        ("x = '%s: %r' % (a, b)\n", "x = f'{a}: {b!r}'\n", "code"),
        ("x = '%s: %r' % (a, b)\n", "x = f'{b}: {a!r}'\n", "code"),
        ("x = '%s: %d' % (a, b)\n", "x = f'{a}: {b}'\n", "code"),
        ("x = '%s' % a\n", "x = f'{a}'\n", "code"),
        ("x = '100 %% of %s' % (a,)\n", "x = f'100 % of {a!s}'\n", "format"),
        ("x = '{}, {}'.format(a, b)\n", "x = f'{a}, {b}'\n", "format"),
        ("x = '{1}, {0!r}'.format(a, b)\n", "x = f'{b}, {a!r}'\n", "format"),
        ("x = '{{{a}}}'.format(a=b)\n", "x = f'{{{b}}}'\n", "format"),
        ("x = '{:>3}'.format(a)\n", "x = f'{a}'\n", "code"),
        ("x = '{}'.format(a)\n", "x = f'{a}.'\n", "code"),
        ("x = '{}'.format(*a)\n", "x = f'{a}'\n", "code"),
        ("X = t.Union[str, t.List[int]]\n", "X = str | list[int]\n", "format"),
        ("X = t.Optional[str]\n", "X = str | None\n", "format"),
        ("X = t.Optional[str]\n", "X = str | bytes\n", "code"),
        ("class List: ...\nX = List[int]\n", "class List: ...\nX = list[int]\n", "code"),
        ("x = 1\n", "X = t.Union[str, int]\nx = 1\n", "types"),
        ("f(X)\n", "X = t.Union[str, int]\nf(X)\n", "code"),
        ("X = t.Union[str, int]\nx = 1\n", "x = 1\n", "code"),
        ("T = t.TypeVar('T', bound=A)\n", "T = t.TypeVar('T', bound='B')\n", "types"),
        ("class A(B):\n    x = 1\n", "class A(B, t.Generic[T]):\n    x = 1\n", "types"),
        ("try:\n    f()\nexcept IOError:\n    g()\n", "try:\n    f()\nexcept OSError:\n    g()\n", "format"),
        ("x = u'a'.encode('utf-8')\n", "x = 'a'.encode()\n", "format"),
        ("x = 'a'.encode('latin-1')\n", "x = 'a'.encode()\n", "code"),
        ("if not a in b:\n    f()\n", "if a not in b:\n    f()\n", "format"),
        ("if not a < b:\n    f()\n", "if a >= b:\n    f()\n", "code"),
        (
            "def f(a):\n    if a:\n        return 1\n    else:\n        return 2\n",
            "def f(a):\n    if a:\n        return 1\n    return 2\n",
            "format",
        ),
        (
            "def f(a):\n    if a:\n        g()\n    else:\n        return 2\n",
            "def f(a):\n    if a:\n        g()\n    return 2\n",
            "code",
        ),
        ("def f(a):\n    b = a + 1\n    return b\n", "def f(a):\n    c = a + 1\n    return c\n", "rename"),
        ("def f(a):\n    b = a + 1\n    return b\n", "def f(a):\n    c = a + 1\n    return b\n", "code"),
        ("def f(a):\n    b = a\n    return b\n", "def f(a):\n    a = a\n    return a\n", "code"),
        ("def f(a):\n    return a\n", "def f(b):\n    return b\n", "code"),
        ("def f():\n    b = 1\n    return locals()\n", "def f():\n    c = 1\n    return locals()\n", "code"),
        ("from typing import Callable\n", "from collections.abc import Callable\n", "imports"),
    ],
)
def test_another_spelling_is_no_code(base, pending, wanted):
    assert set(kinds(changed("src/a.py", base, pending))) == {wanted}


@pytest.mark.parametrize(
    ("path", "base", "pending", "wanted"),
    [
        ("a.ts", "const x = f(1, 2);\n", "const x = f(\n  1, 2);\n", "format"),
        ("a.pyi", "def f(a: int) -> int: ...\n", "def f(a: int, b: int = 1) -> int: ...\n", "types"),
        ("a.d.ts", "export const x: number;\n", "export const x: string;\n", "types"),
        ("a.ts", "const x = 1;\n", "// one\nconst x = 1;\n", "format"),
        ("a.js", "const x = 'a b';\n", "const x = 'a  b';\n", "code"),
        ("a.js", "return x\n", "return\nx\n", "code"),
        ("a.ts", "const x = f();\n", "const x: number = f();\n", "types"),
        ("a.ts", "let y = 1;\n", "interface A { b: string }\nlet y = 1;\n", "types"),
        ("a.ts", "@inject()\nclass A { f(b: B) {} }\n", "@inject()\nclass A { f(b: C) {} }\n", "code"),
        ("a.ts", "import {a} from 'x';\na();\n", "import {a, b} from 'x';\na();\n", "imports"),
        ("a.ts", "import {a} from 'x';\na();\n", "import {a} from 'y';\na();\n", "code"),
        ("a.ts", "a();\n", "import './side';\na();\n", "code"),
        ("a.go", "package a\n\nvar x = 1\n", 'package a\n\nimport "fmt"\n\nvar x = 1\n', "imports"),
        ("a.rs", "fn f() { g(1); }\n", "fn f() {\n    g(1);\n}\n", "format"),
        ("a.rs", "fn f() { g(1); }\n", "fn f() { g(2); }\n", "code"),
        ("README.md", "a\n", "b\n", "docs"),
        ("docs/guide.txt", "a\n", "b\n", "docs"),
        ("poetry.lock", "a\n", "b\n", "generated"),
        ("api_pb2.py", "a = 1\n", "a = 2\n", "generated"),
        ("src/gen.py", "# Code generated by x.\na = 1\n", "# Code generated by x.\na = 2\n", "generated"),
        ("src/gen.py", "a = 'do not edit'\nb = 1\n", "a = 'do not edit'\nb = 2\n", "code"),
        ("vendor/x.js", "a\n", "b\n", "vendored"),
        ("tests/test_a.py", "a = 1\n", "a = 2\n", "test"),
        ("src/a.test.ts", "a\n", "b\n", "test"),
        ("tests/conftest.py", "a = 1\n", "a = 2\n", "steering"),
        ("tests/__snapshots__/a.snap", "a\n", "b\n", "steering"),
        (".github/workflows/ci.yml", "a\n", "b\n", "steering"),
        ("Makefile", "a:\n", "b:\n", "steering"),
        ("scripts/deploy.py", "a = 1\n", "a = 2\n", "code"),
        ("data/prices.json", "[1]\n", "[2]\n", "data"),
        (".gitignore", "a\n", "b\n", "data"),
        ("docs/conf.py", "a = 1\n", "a = 2\n", "docs"),
    ],
)  # fmt: skip
def test_what_a_hunk_of_another_file_is(path, base, pending, wanted):
    assert set(kinds(changed(path, base, pending))) == {wanted}


@pytest.mark.parametrize(
    ("gone", "is_definition"),
    [
        ("def f():\n    return 1\n", True),
        ("IS_OLD = sys.version_info[:2] >= (3, 10)\n", True),
        ("IS_OLD = 1\n\n\ndef f():\n    return 1\n", True),
        ("app = register(main)\n", False),
        ("register(main)\n", False),
        ("def f():\n    return 1\n\n\nf()\n", False),
    ],
)
def test_whole_definitions_are_told_from_statements_that_are_gone(gone, is_definition):
    text = changed("a.py", f"x = 1\n{gone}y = 2\n", "x = 1\ny = 2\n")
    (hunk,) = text.change.hunks
    assert is_deletion_of_definitions("a.py", text.base.decode().split("\n"), hunk) is is_definition


def test_a_statement_in_a_function_is_no_definition_that_is_gone():
    text = changed("a.py", "def f(x):\n    y = x\n    return x\n", "def f(x):\n    return x\n")
    assert not is_deletion_of_definitions("a.py", text.base.decode().split("\n"), text.change.hunks[0])


def test_a_moved_definition_is_a_move_and_an_edited_one_is_code():
    first, second = "def a():\n    return 1\n\n\n", "def b():\n    return 2\n\n\n"
    rest = "".join(f"def c{number}():\n    return {number}\n\n\n" for number in range(3))
    assert kinds(changed("a.py", first + rest + second, rest + first + second)) == ["move", "move"]
    edited = first.replace("1", "3")
    assert kinds(changed("a.py", first + rest + second, rest + edited + second)) == ["code", "code"]


def test_the_same_renaming_in_many_places_is_judged_in_one():
    base = "".join(f"x{number} = get_price({number})\n\n\n\n" for number in range(4))
    text = changed("a.py", base, base.replace("get_price", "price_of").replace("price_of(2)", "price_of(2, 3)"))
    classes = list(classify_hunks([text]).values())
    assert [hunk_class.kind for hunk_class in classes] == ["code", "uniform", "code", "uniform"]
    assert [hunk_class.substitution for hunk_class in classes] == [
        "get_price → price_of",
        "get_price → price_of",
        "",
        "get_price → price_of",
    ]
    assert classes[1].partner == text.change.hunks[0].id
