"""The errors of edits that were not applied, with candidates for the intended position."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from core.errors import ToolInputInvalid


class MatchCandidate(Struct, frozen=True, kw_only=True):
    """A candidate for the intended position; lines are 1-indexed and inclusive."""

    start_line: int
    end_line: int
    similarity: float
    text: str


class EditError(ToolInputInvalid):
    """An edit that was not applied; the file is unchanged. `candidates` are ordered, best first."""

    code = "edit_not_applied"

    def __init__(
        self, message: str, *, hint: str = "", candidates: Sequence[MatchCandidate] = (), ambiguous: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)
        self.is_ambiguous = ambiguous

    def name_part(self, part: str) -> EditError:
        """Return the same error, with the part of the edit that it belongs to "Block 2 of 3"; "" = the edit has only
        one."""
        message = f"{part}: {self.message}" if part else self.message
        return EditError(message, hint=self.hint, candidates=self.candidates, ambiguous=self.is_ambiguous)


def format_part(kind: str, number: int, count: int) -> str:
    """Format the name of one of `count` parts "Block 2 of 3", counted from 1; "" = there is only one."""
    return f"{kind} {number} of {count}" if count > 1 else ""


class UndecidedEdit(EditError):
    """A draft with more than one possible meaning for its file; the model that applies edits can still resolve it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The edit can't be matched to the file: {reason}.",
            hint="Nothing was changed. Give a line of the file before and after each change, mark "
            "every part you leave out with ... existing code ..., or use search_replace.",
        )
