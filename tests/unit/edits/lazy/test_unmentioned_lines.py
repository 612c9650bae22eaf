from __future__ import annotations

from core.edits.lazy.unmentioned_changes import find_unmentioned_change

BEFORE = "def load(path):\n    check(path)\n    rows = read(path)\n    return rows\n"
DRAFT = "def load(path):\n    check(path)\n    rows = read(path, 1)\n    # ... existing code ...\n"


def test_n7_an_edit_that_was_worked_out_keeps_every_line_that_its_draft_repeats():
    after = BEFORE.replace("read(path)", "read(path, 1)")
    assert find_unmentioned_change(BEFORE, after, DRAFT) == ""
    without = after.replace("    check(path)\n", "")
    assert "check(path)" in find_unmentioned_change(BEFORE, without, DRAFT)


def test_n7_a_line_that_is_there_twice_stays_as_often_as_the_draft_has_it():
    before = BEFORE + "\n\ndef save(path):\n    check(path)\n    write(path)\n"
    draft = "# ... existing code ...\ndef save(path):\n    check(path)\n    write(path, 1)\n"
    after = before.replace("write(path)", "write(path, 1)")
    assert find_unmentioned_change(before, after, draft) == ""
    assert "check(path)" in find_unmentioned_change(before, after.replace("    check(path)\n", ""), draft)
