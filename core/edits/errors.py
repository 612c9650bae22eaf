"""The error of an edit that was not applied, with the places that may have been meant."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from core.errors import ToolInputInvalid


class MatchCandidate(Struct, frozen=True, kw_only=True):
    """A place that may have been meant; lines are 1-indexed and inclusive."""

    start_line: int
    end_line: int
    similarity: float
    text: str


class EditError(ToolInputInvalid):
    """An edit that was not applied: nothing was changed. `candidates` are ordered, best first."""

    code = "edit_not_applied"

    def __init__(
        self, message: str, *, hint: str = "", candidates: Sequence[MatchCandidate] = (), ambiguous: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)
        self.is_ambiguous = ambiguous

    def name_part(self, part: str) -> EditError:
        """Return the same error said of one part of an edit ("Block 2 of 3"); "" = the edit has only one."""
        message = f"{part}: {self.message}" if part else self.message
        return EditError(message, hint=self.hint, candidates=self.candidates, ambiguous=self.is_ambiguous)


def format_part(kind: str, number: int, count: int) -> str:
    """Format which of `count` parts is meant ("Block 2 of 3"), from 1; "" where there is only one."""
    return f"{kind} {number} of {count}" if count > 1 else ""


class UndecidedEdit(EditError):
    """A draft that has no one meaning for its file; whoever understands it can still make it into an edit."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The edit does not tell how it fits the file: {reason}.",
            hint="Nothing was changed. Put a line of the file before and after each change, mark every part that you "
            "leave out with ... existing code ..., or use search_replace.",
        )
