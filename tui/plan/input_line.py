"""The input at the foot of the plan panel: todos, dependencies, proofs, filters and comments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tui.widgets.input_line import InputLine, InputPurpose
from tui.widgets.key_hints import Hint

DONE_HINTS: Final[tuple[Hint, ...]] = (("reason.submit", "done"), ("reason.cancel", "back"))
FILTER_HINTS: Final[tuple[Hint, ...]] = (("reason.submit", "stay with it"), ("reason.cancel", "show all"))
COMMENT_HINTS: Final[tuple[Hint, ...]] = (("reason.submit", "keep"), ("reason.cancel", "back"))


class PlanInput(InputLine):
    """Asks for what a todo says, waits for or is proved by, for words to filter by, or for a comment."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "add": InputPurpose("What is to be done. Enter adds it below the marked todo", DONE_HINTS),
        "edit": InputPurpose("What is to be done. Enter changes it", DONE_HINTS),
        "needs": InputPurpose(
            "Ids that it waits for, with commas between them; empty: it waits for nothing", DONE_HINTS
        ),
        "verify": InputPurpose("A command that has to pass before it is completed; empty: none", DONE_HINTS),
        "filter": InputPurpose("Words, or ready, doing, blocked, done; esc: all", FILTER_HINTS),
        "comment": InputPurpose("Your comment. Enter keeps it for S, empty removes it", COMMENT_HINTS),
    }
