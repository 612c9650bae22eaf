from __future__ import annotations

import tomllib
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.file_edits import format_value, remove_value, set_value
from core.errors import ConfigError

BEFORE = """\
# mine
model = "a/b"  # the one "at work" # really

[limits]  # of a turn
max_steps = 3

[commands]
checks = [  # ours
  "bin/verify",
  # policy = "human"
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
        (("commands", "checks"), ["x", "#"], '  "#",'),
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
    assert {each for each in BEFORE.splitlines() if each.startswith(("#", "["))} <= {*after.splitlines()}


@pytest.mark.parametrize(
    "path", [("model",), ("limits", "max_steps"), ("commands", "checks"), ("models", "x/y-1.5", "edits"), ("privacy",)]
)
def test_a_key_is_taken_out_with_all_of_its_lines_and_nothing_else(path):
    after = remove_value(BEFORE, path)
    wanted = deepcopy(tomllib.loads(BEFORE))
    table = wanted
    for key in path[:-1]:
        table = table[key]
    table.pop(path[-1], None)
    assert tomllib.loads(after) == wanted
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
    ],
)
def test_a_key_finds_its_table_however_that_is_written(text):
    after = set_value(text, ("limits", "max_steps"), 7)
    assert tomllib.loads(after)["limits"]["max_steps"] == 7
    assert tomllib.loads(after) == {
        **tomllib.loads(text),
        "limits": {**tomllib.loads(text).get("limits", {}), "max_steps": 7},
    }
    assert tomllib.loads(remove_value(after, ("limits", "max_steps"))).get("limits", {}).keys() <= {"max_cost"}


@pytest.mark.parametrize(
    "text", ["limits = { max_steps = 3 }\n", "ui = { keymap = {} }\nlimits = { max_cost = 1.0 }\n"]
)
def test_a_table_in_one_line_is_left_to_the_user(text):
    with pytest.raises(ConfigError, match="can't be changed here"):
        set_value(text, ("limits", "max_steps"), 7)
    if "max_steps" in text:
        with pytest.raises(ConfigError, match="can't be changed here"):
            remove_value(text, ("limits", "max_steps"))


LISTS = """\
[permissions]
  allow   =   [ # mine
    "Shell(a # b)",  # first
    # about c
    "Shell(c)", 'Shell(d)'  # two
  ]\t# end
deny = [ "x",
         "y" ]
"""


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        (["Shell(a # b)", "Shell(c)", "Shell(d)"], ['    "Shell(a # b)",  # first', "    # about c", None]),
        (["Shell(c)", "Shell(d)", "é"], ["    # about c", None, '    "é",']),
        (["Shell(a # b)"], ['    "Shell(a # b)",  # first', "    # about c"]),
        (["Shell(d)", "Shell(a # b)"], ["    # about c", '    "Shell(d)",', '    "Shell(a # b)",']),
        ([], ["    # about c"]),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_list_in_several_lines_keeps_its_form_and_the_comments_of_what_stays(items, lines, ending):
    after = set_value(LISTS.replace("\n", ending), ("permissions", "allow"), items)
    assert tomllib.loads(after)["permissions"] == {"allow": items, "deny": ["x", "y"]}
    inner = [line or "    \"Shell(c)\", 'Shell(d)',  # two" for line in lines]
    assert after.split(ending)[1:-3] == ["  allow   =   [ # mine", *inner, "  ]\t# end"]


def test_a_list_whose_comments_would_be_lost_is_left_to_the_user():
    text = 'checks = ["a",  # first\n  "b"]\n'
    with pytest.raises(ConfigError, match="has comments between its values"):
        set_value(text, ("checks",), ["b"])
    assert set_value('checks = ["a",\n  "b"]  # both\n', ("checks",), ["b"]) == 'checks = ["b"]  # both\n'


@given(st.lists(st.sampled_from("abc#"), max_size=5), st.lists(st.sampled_from("abc#"), max_size=5))
def test_any_list_becomes_any_other_without_a_comment_lost_that_stands_alone(before, wanted):
    inner = "".join(f'  # {number}\n  "{item}",  # of {item}\n' for number, item in enumerate(before))
    after = set_value(f"x = [\n{inner}]\n", ("x",), wanted)
    assert tomllib.loads(after)["x"] == wanted
    assert [line for line in after.splitlines() if line.startswith("  #")] == [
        f"  # {number}" for number in range(len(before))
    ]


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ("[limits]\nmax_steps   =   3 # mine\n", ("limits", "max_steps"), "[limits]\nmax_steps   =   7 # mine\n"),
        ("x=1\n", ("x",), "x=7\n"),
        ("'a=b' = 1\n", ("a=b",), "'a=b' = 7\n"),
        ("[limits]\n  max_cost = 1.0\n", ("limits", "y"), "[limits]\n  max_cost = 1.0\n  y = 7\n"),
        ("# mine\n# all\n\n[limits]\n", ("x",), "# mine\n# all\n\nx = 7\n\n[limits]\n"),
        ("# about limits\n[limits]\n", ("x",), "x = 7\n\n# about limits\n[limits]\n"),
    ],
)
def test_spaces_indents_and_the_comment_at_the_top_stay_where_they_are(text, path, after):
    assert set_value(text, path, 7) == after


def test_what_is_not_there_is_taken_out_without_a_change():
    assert remove_value("x = 1", ("y",)) == "x = 1"


def test_the_ends_of_lines_stay_as_they_are():
    after = set_value(BEFORE.replace("\n", "\r\n"), ("ui", "plain"), True)
    assert "\n" not in after.replace("\r\n", "")
    assert tomllib.loads(after)["ui"]["plain"] is True


def test_what_no_file_can_hold_is_refused():
    with pytest.raises(ConfigError):
        set_value("", ("model",), "\ud800")


@given(VALUES)
def test_any_value_is_read_back_as_it_was(value):
    assert tomllib.loads(f"x = {format_value(value)}")["x"] == value
    assert tomllib.loads(set_value(BEFORE, ("browser", "x"), value))["browser"]["x"] == value
