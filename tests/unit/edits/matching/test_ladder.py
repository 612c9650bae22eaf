from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.edits.formats.str_replace import replace_string
from core.edits.matching.ladder import locate
from core.edits.matching.search_text import SearchText, find_sequences
from core.text.lines import apply_splices
from tests.support.work import counted


def applied(text: str, old: str, new: str, **options) -> tuple[str, str]:
    match = locate(SearchText(text), old, new, **options)
    return apply_splices(text, match.splices), match.rung


@pytest.mark.parametrize(
    ("text", "old", "new", "after", "rung"),
    [
        ("a\nb\n", "b", r"\1 $& \n", "a\n\\1 $& \\n\n", "exact"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n", "line_endings"),
        ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n", "exact"),
        ("a\nb\r\nc\n", "a\nb\nc", "a\nB\nc", "a\nB\r\nc\n", "line_endings"),
        ("a\nb\n", "a\r\nb\r\n", "x\r\ny\r\n", "x\ny\n", "line_endings"),
        ("a  \nb\n", "a\nb", "a\nc", "a  \nc\n", "trailing_space"),
        ("a\nb", "a\nb\n", "a\nc\n", "a\nc", "trailing_space"),
        (
            "if x:\n    y = 1\n    z = 2\n",
            "y = 1\nz = 2\n",
            "y = 3\nz = 2\n",
            "if x:\n    y = 3\n    z = 2\n",
            "indentation",
        ),
        (
            "\tif x:\n\t\ty\n",
            "if x:\n    y",
            "if x:\n    y\n    if z:\n        w",
            "\tif x:\n\t\ty\n\t\tif z:\n\t\t\tw\n",
            "indentation",
        ),
        ("    f(a,\n      b)\n", "\tf(a,\n\t  b)", "\tf(a,\n\t  c)", "    f(a,\n      c)\n", "indentation"),
        (
            "  a {\n    b;\n  }\n",
            "    a {\n        b;\n    }",
            "    a {\n        c;\n    }",
            "  a {\n    c;\n  }\n",
            "indentation",
        ),
        ("a\n\n\nb\nc\n", "a\nb\nc", "a\nb\nd", "a\n\n\nb\nd\n", "blank_lines"),
        ("a\nb\n", "\na\n\nb\n\n", "\na\n\nc\n\n", "a\nc\n", "blank_lines"),
        ("x\nfoo\n  bar\n", "     2|foo\n     3|  bar", "     2|foo\n     3|  baz", "x\nfoo\n  baz\n", "line_numbers"),
        ("s = “hi”\nt – u\n", 's = "hi"\nt - u', 's = "hi"\nt - v', "s = “hi”\nt - v\n", "look_alikes"),
        ("caf\u00e9 = 1\nb\n", "cafe\u0301 = 1\nb", "cafe\u0301 = 1\nc", "caf\u00e9 = 1\nc\n", "look_alikes"),
        (
            "def f():\n    first_value = compute(x)\n    return first_value\n",
            "def f():\n    first_valu = compute(x)\n    return first_value",
            "def f():\n    return compute(x)",
            "def f():\n    return compute(x)\n",
            "fuzzy",
        ),
    ],
)
def test_each_rung_keeps_the_files_own_bytes(text, old, new, after, rung):
    assert applied(text, old, new) == (after, rung)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("def foo1():\n    return 1\n", "def foo2():\n    return 1"),
        ("def get_user_name(x):\n    a\n    b\n", "def set_user_name(x):\n    a\n    b"),
        ("a(\n  timeout=100,\n  retries=3,\n)\n", "a(\n  timeout=200,\n  retries=3,\n)"),
        (
            "class A:\n    def run(self):\n        pass\n    x = 1\n",
            "class A:\n    def rum(self):\n        pass\n    x = 1",
        ),
        ("if x:\n  a\nb\n", "if x:\na\n    b"),
        ("x\n", "   \n"),
    ],
)
def test_what_means_something_else_is_refused(text, old):
    with pytest.raises(EditError):
        replace_string(text, old, "new")


def test_two_places_at_a_lenient_rung_are_refused_with_both_lines():
    with pytest.raises(EditError, match=r"2 times \(compared leniently: indentation\), at lines 2, 4") as caught:
        replace_string("if a:\n    run()\nif b:\n    run()\n", "\trun()", "\tstop()")
    assert "unique" in caught.value.hint


def test_all_places_can_be_replaced_on_a_lenient_rung():
    text, rung = applied("a \n\nx\na  \n", "a\n", "b\n", replace_all=True)
    assert (text, rung) == ("b\n\nx\nb\n", "trailing_space")


def test_a_near_block_twice_is_never_fuzzy_matched():
    block = "begin\n  value_{} = compute(x)\n  other = value\nend\n"
    with pytest.raises(EditError) as caught:
        replace_string(block.format("one") + block.format("two"), block.format("oni"), "x")
    assert len(caught.value.candidates) == 2


def test_whole_lines_are_not_matched_inside_of_lines():
    assert applied("xfoo\nfoo\n", "foo\n", "bar\n", whole_lines=True) == ("xfoo\nbar\n", "exact")


def test_the_places_are_counted():
    done = replace_string("a\nb\nc\nd\n", "b\nc\n", "x\n")
    assert (done.text, done.count) == ("a\nx\nd\n", 1)
    removal = replace_string("b\na\nb\nc\n", "b\n", "", replace_all=True)
    assert (removal.text, removal.count) == ("a\nc\n", 2)


def test_an_empty_text_to_find_is_refused():
    with pytest.raises(EditError, match="is empty"):
        replace_string("a", "", "b")


@pytest.mark.parametrize("old", [["same \n", "", ""], ["same \n", "other\n", "same\n"]])
def test_the_work_for_equal_lines_grows_with_their_number_and_no_faster(old):
    def work(count: int) -> int:
        block = old[0] * (count * 2 // 5) + old[1] + old[2] * (count // 10)
        with counted() as done, pytest.raises(EditError):
            replace_string("same\n" * count, block, "x")
        return done.lines

    assert work(10_000) < 5 * 1.5 * work(2_000)


def test_a_block_is_compared_at_the_places_of_its_rarest_line_only():
    class Looked(list):
        slices = 0

        def __getitem__(self, at):
            self.slices += isinstance(at, slice)
            return super().__getitem__(at)

    keys = Looked(["same"] * 5_000 + ["rare"] + ["same"] * 5_000)
    index = {"same": [*range(5_000), *range(5_001, 10_001)], "rare": [5_000]}
    assert list(find_sequences(keys, ["same"] * 4_000 + ["other"] + ["same"] * 900, index)) == []
    assert keys.slices == 0
    assert list(find_sequences(keys, ["same"] * 4_000 + ["rare"] + ["same"] * 900, index)) == [1_000]
    assert keys.slices == 1
