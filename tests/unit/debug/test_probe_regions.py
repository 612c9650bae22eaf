from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.debug.probe_regions import (
    REGION_NAME,
    anchor_probe,
    check_probe_code,
    find_region_comments,
    has_regions,
    insert_probes,
    locate_probe,
    remove_probes,
)
from core.errors import ToolInputInvalid
from core.protocol.debug import Probe

CODE = "log(1)\nlog(2)"
FUNCTION = "def f(x):\n    y = x\n    return y\n"
ENDINGS = st.sampled_from(["\n", "\r\n"])
BODY = st.text(alphabet=st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=12).filter(
    lambda body: "region" not in body
)
TEXTS = st.builds(
    lambda lines, last: "".join(body + ending for body, ending in lines) + last,
    st.lists(
        st.tuples(st.one_of(BODY, st.sampled_from(["", "x", "  y", "\tz", "\x0c", "a\rb"])), ENDINGS), max_size=12
    ),
    st.one_of(st.just(""), BODY),
)


def probe(line: int, *, name: str = "p1", path: str = "a.py", code: str = "log()") -> Probe:
    return Probe(id=name, path=path, line=line, code=code, hypothesis="H1")


@given(TEXTS, st.lists(st.integers(min_value=0, max_value=12), max_size=5), st.sampled_from(["a.py", "b.js", "c.html"]))
def test_what_was_laid_is_taken_out_exact_to_the_byte(text, gaps, path):
    count = len(text.split("\n")) - (not text.rpartition("\n")[2])
    probes = [
        anchor_probe(text, probe(min(gap, count) + 1, name=f"p{number}", path=path, code=CODE))
        for number, gap in enumerate(gaps)
    ]
    laid = insert_probes(text, probes, "r1")
    assert laid.lost == ()
    assert laid.text.count(f"region {REGION_NAME}") == 2 * len(probes)
    assert remove_probes(laid.text) == text
    assert has_regions(laid.text.encode("utf-8", "surrogatepass")) is bool(probes)
    assert len(find_region_comments(laid.text)) == 2 * len(probes)
    assert remove_probes(text) == text


@given(TEXTS, st.integers(min_value=0, max_value=12), st.lists(BODY, max_size=4), st.booleans())
def test_a_probe_finds_its_place_again_when_lines_are_put_above_or_below_it(text, gap, more, above):
    lines = text.count("\n") + bool(text.rpartition("\n")[2])
    placed = anchor_probe(text, probe(min(gap, lines) + 1))
    added = "".join(f"new {line} line\n" for line in more)
    moved = added + text if above else text
    assert remove_probes(insert_probes(moved, [placed]).text) == moved
    assert locate_probe(text, placed) is not None


def test_a_probe_gets_the_indentation_of_the_line_that_it_runs_before():
    laid = insert_probes(FUNCTION, [anchor_probe(FUNCTION, probe(3, code="  log(y)\n  if y:\n    log(2)"))], "r2").text
    assert laid == (
        "def f(x):\n    y = x\n"
        f"    # region {REGION_NAME} p1 hypothesis=H1 run=r2\n"
        f"    log(y)\n    if y:\n      log(2)\n    # endregion {REGION_NAME} p1\n"
        "    return y\n"
    )
    ast.parse(laid)


def test_a_last_line_without_an_ending_gets_none():
    text = "a = 1\r\nb = 2"
    laid = insert_probes(text, [anchor_probe(text, probe(3)), anchor_probe(text, probe(3, name="p2"))]).text
    assert laid.startswith("a = 1\r\nb = 2\r\n# region")
    assert laid.endswith(f"# endregion {REGION_NAME} p2")
    assert remove_probes(laid) == text


def test_a_probe_follows_its_line_when_the_code_above_changes():
    placed = anchor_probe(FUNCTION, probe(3))
    moved = '"""Says."""\n\n\ndef f(x, z):\n    y = x + z\n    return y\n'
    assert locate_probe(moved, placed) == 6
    assert locate_probe(moved.replace("    return y", "    return z"), placed) is None
    assert insert_probes("x = 1\n", [placed]).lost == ("p1",)


@pytest.mark.parametrize(
    ("path", "opening"),
    [("a.py", "# region"), ("a.ts", "// region"), ("a.lua", "-- region"), ("a.css", "/* region"), ("a.html", "<!-- ")],
)
def test_a_mark_is_a_comment_of_the_language(path, opening):
    assert insert_probes("x\n", [anchor_probe("x\n", probe(1, path=path))]).text.startswith(opening)


@pytest.mark.parametrize(
    ("path", "code"),
    [("a.json", "log()"), ("a.py", "  \n"), ("a.py", f"# region {REGION_NAME} p9"), ("noname", "log()")],
)
def test_what_can_not_be_a_probe_is_refused(path, code):
    with pytest.raises(ToolInputInvalid):
        check_probe_code(path, code)


def test_a_line_that_the_file_does_not_have_is_refused():
    with pytest.raises(ToolInputInvalid, match="3 lines"):
        anchor_probe(FUNCTION, probe(5))


def test_marks_of_others_are_found_and_not_touched():
    text = f"a\n# region {REGION_NAME} p1\nb\n# endregion {REGION_NAME} p2\n"
    assert remove_probes(text) == text
    assert [region_comment.line for region_comment in find_region_comments(text)] == [2, 4]
    with pytest.raises(ToolInputInvalid):
        insert_probes(text, [replace(probe(1), above=None, below="a")])
    assert find_region_comments("# region of interest\n") == ()
