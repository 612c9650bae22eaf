"""What is put right in new lines, what is meant and stays, and that it is told."""

from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.edits.formats.str_replace import replace_string
from core.edits.matching.new_lines import mend_new_lines
from core.edits.matching.search_text import SearchText

CODE = "def f():\n    return 1\n\ndef g():\n    return 2\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after", "slips"),
    [
        ("x = 1\n", "x = 1", "x = “a”", 'x = "a"\n', ("quotes",)),
        ("x = 1\n", "x = 1", "f(‘a’, “b”)", "f('a', \"b\")\n", ("quotes",)),
        ('{\n  "a": 1\n}\n', '  "a": 1', '  "a": 1,\n  “b”: 2', '{\n  "a": 1,\n  "b": 2\n}\n', ("quotes",)),
        ("x = 1\n", "x = 1", 'x = "he said “a”"', 'x = "he said “a”"\n', ()),
        ("x = 1\n", "x = 1", "x = 1  # it’s (“so”)", "x = 1  # it’s (“so”)\n", ()),
        ("Words.\n", "Words.", "Words, “quoted” ones.", "Words, “quoted” ones.\n", ()),
        ("x = 1\ny = “z”\n", "x = 1", "x = “a”", "x = “a”\ny = “z”\n", ()),
        ("if a:\n", "if a:", "if a &gt; b &amp;&amp; c:", "if a > b && c:\n", ("entities",)),
        ("return s\n", "return s", 'return s.replace("<", "&lt;")', 'return s.replace("<", "&lt;")\n', ()),
        ("<p>a</p>\n", "<p>a</p>", "<p>a &lt; b</p>", "<p>a &lt; b</p>\n", ()),
        ("int a;\n", "int a;", "// a List&lt;T&gt;\nint a;", "// a List&lt;T&gt;\nint a;\n", ()),
    ],
)
def test_a_slip_in_new_lines_is_put_right_where_it_can_only_be_one(text, old, new, after, slips):
    done = replace_string(text, old, new)
    assert (done.text, done.slips) == (after, slips)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 | def f():\n2 |     return 1\n", "1 | def f():\n2 |     return 9\n"),
        ("1 | def f():\n2 |     return 1\n", "1 | def f():\n    return 9\n"),
        ("1 | def f():\n2 |     return 1\n", "def f():\n2 |     return 9\n"),
        ("1→def f():\n2→    return 1\n", "1→def f():\n    return 9\n"),
        ("def f():\n    return 1\n", "1 | def f():\n2 |     return 9\n"),
        ("def f():\n    return 1\n", "1 | def f():\n    return 9\n"),
        ("    return 1\n", "2 |     return 9\n"),
    ],
)
def test_numbers_of_a_listing_go_wherever_they_are(old, new):
    assert replace_string(CODE, old, new).text == CODE.replace("1", "9")


def test_new_lines_with_numbers_that_fit_nothing_are_refused():
    with pytest.raises(EditError, match="numbers"):
        replace_string(CODE, "1 | def f():\n2 |     return 1\n", "7 | def f():\n    return 9\n")


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("m {\n    2 => a,\n}\n", "    2 => a,\n", "    1 | 2 => a,\n", "m {\n    1 | 2 => a,\n}\n"),
        ("m {\n    2 => a,\n}\n", "2 => a", "1 | 2 => a", "m {\n    1 | 2 => a,\n}\n"),
        ("m {\n    2 => a,\n}\n", "2|    2 => a,", "2|    1 | 2 => a,", "m {\n    1 | 2 => a,\n}\n"),
        ("a | b\n", "a | b\n", "a | b\n1 | c\n", "a | b\n1 | c\n"),
        ("{\n  a: 1,\n}\n", "2|  a: 1,", "  404: 1,", "{\n  404: 1,\n}\n"),
    ],
)
def test_a_number_that_belongs_to_the_line_stays(text, old, new, after):
    assert replace_string(text, old, new).text == after


def test_given_lines_are_left_alone():
    assert mend_new_lines(SearchText("x\n"), ["f(“a”)"], ["f(“a”)"]) == (["f(“a”)"], ())


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        (
            "const MaxRetries = 3;\nfoo(MaxRetries);\n",
            "const maxRetries = 3;\nfoo(maxRetries);",
            "const maxRetries = 5;\nfoo(maxRetries);\nbar(maxRetries);",
            "const MaxRetries = 5;\nfoo(MaxRetries);\nbar(MaxRetries);\n",
        ),
        (
            "SELECT id FROM Users\n",
            "select id from users",
            "select id, name from users",
            "SELECT id, name FROM Users\n",
        ),
    ],
)
def test_capitals_of_what_stays_are_those_of_the_file(text, old, new, after):
    assert replace_string(text, old, new).text == after
