from __future__ import annotations

from collections.abc import Callable

import pytest

from core.edits.errors import EditError
from core.edits.formats.str_replace import replace_string

TEXT = """def load(path):
    if not path:
        raise ValueError("no path")
    with open(path) as file:
        rows = file.read()

    return rows


def save(path, rows):
    return len(rows)
"""
OLD = """    if not path:
        raise ValueError("no path")
    with open(path) as file:
        rows = file.read()"""
NEW = """    if not path or not path.strip():
        raise ValueError("no path")
    with open(path, "rb") as file:
        log("open")
        rows = file.read()"""
WANTED = TEXT.replace(OLD, NEW)
Miswritten = Callable[[str], str]


def lines(change: Callable[[int, str], str]) -> Miswritten:
    return lambda text: "\n".join(change(number, row) for number, row in enumerate(text.split("\n"), start=2))


BOTH: dict[str, Miswritten] = {
    "deeper": lines(lambda _, row: f"    {row}"),
    "at the margin": lines(lambda _, row: row[4:]),
    "tabs": lambda text: text.replace("    ", "\t"),
    "white space at the ends": lines(lambda _, row: f"{row}  "),
    "newlines around": lambda text: f"\n{text}\n",
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "newlines as two signs": lambda text: text.replace("\n", "\\n"),
    "escaped quotes": lambda text: text.replace('"', '\\"'),
    "typographic quotes": lambda text: text.replace('("', "(“").replace(', "', ", “").replace('")', "”)"),
    "spaces that do not break": lambda text: text.replace("    ", "  \u00a0 "),
    "entities": lambda text: text.replace('"', "&quot;"),
    "a fence": lambda text: f"```python\n{text}\n```",
    "numbers and arrows": lines(lambda number, row: f"{number:6}→{row}"),
}
OLD_ALONE: dict[str, Miswritten] = {
    "numbers and bars": lines(lambda number, row: f"{number:4}| {row}"),
    "numbers and tabs": lines(lambda number, row: f"{number:6}\t{row}"),
    "a letter left out": lambda text: text.replace("ValueError", "ValuError"),
}


@pytest.mark.parametrize("how", BOTH)
def test_n7_what_is_miswritten_in_both_strings_lands_as_the_file_writes_it(how: str):
    assert replace_string(TEXT, BOTH[how](OLD), BOTH[how](NEW)).text == WANTED


@pytest.mark.parametrize("how", OLD_ALONE)
def test_n7_what_is_miswritten_in_the_old_string_alone_leaves_the_new_one_as_it_is(how: str):
    assert replace_string(TEXT, OLD_ALONE[how](OLD), NEW).text == WANTED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows = file.read()\nreturn rows", "rows = file.read()\nrows.sort()\nreturn rows"),
        ("if not path:\nraise ValueError()", "if not path:\nreturn\nraise ValueError()"),
        ('raise ValueError(\\"no path\\")', 'raise ValueError(\\"a\\\\b\\")'),
        ("    return len(row)", "    return 0"),
    ],
    ids=["a blank line that is not known", "indentation that is lost", "backslashes", "another name"],
)
def test_n7_a_near_miss_that_may_mean_two_things_is_refused(old: str, new: str):
    with pytest.raises(EditError):
        replace_string(TEXT, old, new)


def test_n7_a_blank_line_after_a_replaced_one_that_the_model_did_not_know_stays():
    old = "        rows = file.read()\n    return rows"
    new = "        rows = file.read().lower()\n    return rows"
    assert replace_string(TEXT, old, new).text == TEXT.replace("file.read()", "file.read().lower()")


@pytest.mark.parametrize(("text", "ends"), [("a\nb\n", "\n"), ("a\r\nb\r\n", "\r\n")])
@pytest.mark.parametrize("given", ["\n", "\r\n"])
def test_n7_new_lines_end_as_those_of_the_file_do(text: str, ends: str, given: str):
    assert replace_string(text, "a", f"x{given}y{given}a").text == f"x{ends}y{ends}a{ends}b{ends}"
