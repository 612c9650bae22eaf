from __future__ import annotations

import pytest

from core.edits.drafts.checks import find_unmentioned_change
from core.syntax.flaws import describe_first_flaw, find_new_flaws

FILE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(8))
DRAFT = "# ... existing code ...\ndef f3():\n    return 33\n\n\ndef extra():\n    pass\n# ... existing code ...\n"
LOADED = "def load(path):\n    check(path)\n    rows = read(path)\n    return rows\n"
LOADED_DRAFT = "def load(path):\n    check(path)\n    rows = read(path, 1)\n    # ... existing code ...\n"


@pytest.mark.parametrize(
    "edit",
    [
        ("    return 3\n", "    return 33\n"),
        ("    return 3\n", "    return 33\n\n\ndef extra():\n    pass\n"),
        ("def f2():\n    return 2\n\n\n", ""),
    ],
    ids=["a line", "with what is new", "gone next to what is named"],
)
def test_what_the_draft_speaks_of_may_change(edit):
    assert find_unmentioned_change(FILE, FILE.replace(*edit), DRAFT) is None
    assert find_unmentioned_change(FILE, FILE, DRAFT) is None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("return 7", "return 33"), "speaks of nothing near"),
        (("return 3\n", "return 34\n"), "'return 34' is neither in the file nor a line of code in the draft"),
        (("def f7():\n    return 7\n", ""), "speaks of nothing near"),
        (("def f0():\n", "def f0():\n    return 7\n"), "speaks of nothing near"),
        (("    return 3\n", "    # ... existing code ...\n"), "neither in the file nor"),
    ],
    ids=["elsewhere", "another line", "gone elsewhere", "doubled elsewhere", "a marker"],
)
def test_what_the_draft_does_not_speak_of_may_not(edit, words):
    assert words in find_unmentioned_change(FILE, FILE.replace(*edit, 1), DRAFT)


def test_a_whole_file_of_change_is_more_than_can_be_checked():
    assert "more than can be checked" in find_unmentioned_change("a\n" * 9_000, "b\n" * 9_000, "b\n")


def test_flaws_that_were_there_are_not_new_wherever_they_stand():
    before = "def f(:\n    pass\n"
    assert find_new_flaws("a.py", before, f"import os\n{before}") == ()
    assert [flaw.line for flaw in find_new_flaws("a.py", before, f"{before}x = (\n")] != []
    assert describe_first_flaw("a.py", before, f"{before}x = (\n") == ""
    assert describe_first_flaw("a.py", "x = 1\n", "x = (1\n").startswith("line 1: ")
    assert describe_first_flaw("a.txt", "x = 1\n", "x = (1\n") == ""


def test_n7_an_edit_that_was_worked_out_keeps_every_line_that_its_draft_repeats():
    after = LOADED.replace("read(path)", "read(path, 1)")
    assert find_unmentioned_change(LOADED, after, LOADED_DRAFT) is None
    without = after.replace("    check(path)\n", "")
    assert "check(path)" in find_unmentioned_change(LOADED, without, LOADED_DRAFT)


def test_n7_a_line_that_is_there_twice_stays_as_often_as_the_draft_has_it():
    before = LOADED + "\n\ndef save(path):\n    check(path)\n    write(path)\n"
    draft = "# ... existing code ...\ndef save(path):\n    check(path)\n    write(path, 1)\n"
    after = before.replace("write(path)", "write(path, 1)")
    assert find_unmentioned_change(before, after, draft) is None
    assert "check(path)" in find_unmentioned_change(before, after.replace("    check(path)\n", ""), draft)


@pytest.mark.parametrize(("place", "is_near"), [(3, True), (4, False)])
def test_what_goes_stands_within_three_lines_of_one_that_the_draft_has(place, is_near):
    lines = ["anchor()\n", *(f"step_{number}()\n" for number in range(1, 9))]
    after = "".join(lines[:place] + lines[place + 1 :])
    problem = find_unmentioned_change("".join(lines), after, "anchor()\n")
    assert ("speaks of nothing near" in (problem or "")) is not is_near
