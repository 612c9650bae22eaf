from __future__ import annotations

import tomllib
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.file_edits import remove_value, set_value
from core.errors import ConfigError

BEFORE = """\
# mine
model = "a/b"  # the one "at work" # really

[limits]  # of a turn
max_steps = 3

[commands]
checks = [
  "bin/verify",
  "a # b",
]  # all of them
policy = "confirm"

[models."x/y-1.5"]
edits = 'patch'

[ui.keymap]
"review.accept" = "space"
"""
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",))), st.booleans(), st.integers(), st.lists(st.text('ab"\\\n#é😀'))
)


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("model",), "c/d", 'model = "c/d"  # the one "at work" # really'),
        (("limits", "max_steps"), 7, "max_steps = 7"),
        (("limits", "max_cost"), 2.5, "max_cost = 2.5"),
        (("commands", "checks"), ["x", "#"], '    "#",'),
        (("commands", "checks"), [], "checks = []  # all of them"),
        (("commands", "policy"), "human", 'policy = "human"'),
        (("models", "x/y-1.5", "edits"), "lazy", 'edits = "lazy"'),
        (("models", "x/y-1.5", "dialect"), "tags", 'dialect = "tags"'),
        (("ui", "keymap", "review.accept"), "a", '"review.accept" = "a"'),
        (("ui", "plain"), True, "plain = true"),
        (("privacy",), False, "privacy = false"),
    ],
)
def test_one_key_is_set_and_every_line_that_is_not_its_own_stays(path, value, line):
    after = set_value(BEFORE, path, value)
    table = tomllib.loads(after)
    for key in path:
        table = table[key]
    assert table == value
    assert line in after.splitlines()
    assert {row for row in BEFORE.splitlines() if row.startswith(("#", "["))} <= {*after.splitlines()}


@pytest.mark.parametrize(
    "path", [("model",), ("limits", "max_steps"), ("commands", "checks"), ("models", "x/y-1.5", "edits"), ("privacy",)]
)
def test_a_key_is_taken_out_with_all_of_its_lines_and_nothing_else(path):
    after = remove_value(BEFORE, path)
    expected_settings = deepcopy(tomllib.loads(BEFORE))
    table = expected_settings
    for key in path[:-1]:
        table = table[key]
    table.pop(path[-1], None)
    assert tomllib.loads(after) == expected_settings
    assert {*after.splitlines()} <= {*BEFORE.splitlines()}


@pytest.mark.parametrize(
    "text",
    [
        "limits.max_cost = 1.0\n",
        "limits.max_steps = 3\n[ui]\ntheme = 'x'\n",
        "[limits]\n",
        "[limits]\nmax_steps = 3",
        "",
        "# only a word\n",
        "[limits] # no value\n[ui]\n",
        'note = """\n[limits]\nmax_steps = 9\n"""\n',
        "limits = { max_steps = 3 }  # mine\n",
        "ui = { keymap = {} }\nlimits = { max_cost = 1.0 }\n",
    ],
)
def test_a_key_finds_its_table_however_that_is_written(text):
    after = set_value(text, ("limits", "max_steps"), 7)
    assert tomllib.loads(after)["limits"]["max_steps"] == 7
    assert tomllib.loads(after) == {
        **tomllib.loads(text),
        "limits": {**tomllib.loads(text).get("limits", {}), "max_steps": 7},
    }
    assert "# mine" in after or "# mine" not in text
    assert tomllib.loads(remove_value(after, ("limits", "max_steps"))).get("limits", {}).keys() <= {"max_cost"}


@pytest.mark.parametrize(
    "text",
    ['checks = ["a",  # first\n  "b"]\n', 'checks = [ # all\n  "a",\n]\n', 'checks = [\n  # about a\n  "a # b",\n]\n'],
)
def test_a_list_whose_comments_would_be_lost_is_left_to_the_user(text):
    with pytest.raises(ConfigError, match="has comments between its values"):
        set_value(text, ("checks",), ["c"])


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ("[limits]\nmax_steps   =   3 # mine\n", ("limits", "max_steps"), "[limits]\nmax_steps   =   7 # mine\n"),
        ("x=1\n", ("x",), "x=7\n"),
        ("'a=b' = 1\n", ("a=b",), "'a=b' = 7\n"),
        ("# mine\ny = 1 # y\n\n[limits]\n", ("x",), "# mine\ny = 1 # y\nx = 7\n\n[limits]\n"),
        ("# about limits\n[limits]\n", ("x",), "x = 7\n\n# about limits\n[limits]\n"),
    ],
)
def test_spaces_and_comments_stay_where_they_are(text, path, after):
    assert set_value(text, path, 7) == after


def test_what_is_not_there_is_taken_out_without_a_change():
    assert remove_value("x = 1", ("y",)) == "x = 1"


@pytest.mark.parametrize("path", [("ui", "plain"), ("privacy",), ("browser", "x"), ("limits", "max_steps")])
def test_the_ends_of_lines_stay_as_they_are(path):
    after = set_value(BEFORE.replace("\n", "\r\n"), path, True)
    assert "\n" not in after.replace("\r\n", "")
    assert after.replace("\r\n", "\n") == set_value(BEFORE, path, True)


def test_what_no_file_can_hold_is_refused():
    with pytest.raises(ConfigError):
        set_value("", ("model",), "\ud800")


def test_a_key_below_something_that_is_no_table_is_refused():
    with pytest.raises(ConfigError, match="can't be changed here"):
        set_value("limits = 3\nx = 1\n", ("limits", "max_steps"), 7)


@given(VALUES)
def test_any_value_is_read_back_as_it_was(value):
    assert tomllib.loads(set_value(BEFORE, ("browser", "x"), value))["browser"]["x"] == value
    assert tomllib.loads(set_value(BEFORE, ("commands", "checks"), value))["commands"]["checks"] == value
