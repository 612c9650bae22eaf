from __future__ import annotations

import pytest

from core.edits.errors import UndecidedEdit
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy

FORMATS = pytest.mark.parametrize("format_", ["lazy", "draft"])


def file_with(steps: int) -> str:
    body = "".join(f"    step_{number}(rows, {number})\n" for number in range(steps))
    load = f"def load(rows):\n    check(rows)\n{body}    return rows\n"
    return f"import os\n\n\n{load}\n\ndef save(rows):\n    write(rows)\n"


def shortened(format_: str, steps: int, added: int) -> str:
    """The file after a draft that leaves out all of a body without a word and has `added` lines in its place."""
    new = "".join(f"    fresh_{number} = {number}\n" for number in range(added - 1)) + "    return list(rows)\n"
    draft = f"# ... existing code ...\n\ndef load(rows):\n{new}\n# ... existing code ...\n"
    if format_ == "lazy":
        return apply_lazy(file_with(steps), draft, "a.py")
    return apply_drafts(file_with(steps), f'<file_edit path="a.py">\n{draft}</file_edit>', "a.py")


@FORMATS
def test_a_draft_may_drop_twelve_lines_that_it_does_not_mention(format_):
    text = shortened(format_, steps=10, added=1)
    assert "step_" not in text
    assert "    return list(rows)" in text


@FORMATS
def test_a_draft_that_drops_thirteen_lines_without_a_word_is_refused(format_):
    with pytest.raises(UndecidedEdit, match="would delete 13 lines that it does not mention"):
        shortened(format_, steps=11, added=1)


@FORMATS
def test_a_draft_may_drop_more_when_what_it_adds_is_a_third_of_that(format_):
    with pytest.raises(UndecidedEdit, match="would delete 13 lines"):
        shortened(format_, steps=11, added=4)
    assert "step_" not in shortened(format_, steps=11, added=5)


@pytest.mark.parametrize(("steps", "is_taken"), [(15, True), (16, False)])
def test_a_definition_is_replaced_by_one_that_is_at_most_twelve_lines_short_of_a_third(steps, is_taken):
    draft = "def load(rows):\n    return list(rows)\n"  # for a definition of 18 lines, and of 19
    if is_taken:
        assert "step_" not in apply_lazy(file_with(steps), draft, "a.py")
    else:
        with pytest.raises(UndecidedEdit):
            apply_lazy(file_with(steps), draft, "a.py")
