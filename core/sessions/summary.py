"""The summary of a session for lists, kept beside its log so that the log need not be read for it.

A convenience only: it names the size of the log it was made from, and one that does not fit is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.filesystem.atomic_write import replace_file
from core.protocol.queries import SessionInfo
from core.protocol.renames import list_changes
from core.records import decode_json
from core.state.session import SessionState

FILE_NAME = "summary.json"
MAX_PROMPT_CHARS = 100_000  # characters; longer ones are left out of the history of prompts
MAX_TOTAL_CHARS = 1_000_000  # characters of the latest ones together


class PromptEntry(Struct, frozen=True, array_like=True):
    """One prompt of the user; `at` in ms."""

    at: int
    text: str


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The summary of a session; `size`: bytes of the log that it was made from."""

    size: int
    info: SessionInfo
    prompts: tuple[PromptEntry, ...] = ()


def build_summary(state: SessionState, *, name: str, size: int) -> SessionSummary:
    """Build the summary of the session `name` in this state."""
    bulks = state.review.bulks
    info = SessionInfo(
        id=name,
        title=state.title,
        started=state.started,
        updated=state.updated,
        model=state.model,
        mode=state.mode,
        turns=len(state.turns),
        pending=len(list_changes(state.changes)) + sum(bulk.needs_verdict for bulk in bulks),
        kept=sum(not bulk.needs_verdict for bulk in bulks),
        asked=len(state.approvals) + len(state.questions),
        running=state.current_turn is not None,
        branch=state.branch,
        tags=state.tags,
        unattended=state.is_unattended,
        forked_from=state.forked_from,
        draft=bool(state.draft),
    )
    return SessionSummary(size=size, info=info, prompts=tuple(reversed(list(_iterate_latest(state)))))


def _iterate_latest(state: SessionState) -> Iterator[PromptEntry]:
    room = MAX_TOTAL_CHARS
    for turn in reversed(state.turns):
        room -= len(turn.prompt)
        if room < 0:
            return
        if len(turn.prompt) <= MAX_PROMPT_CHARS:
            yield PromptEntry(turn.started, turn.prompt)


def load_summary(directory: Path, *, growing: bool = False) -> SessionSummary | None:
    """Load the summary beside a log if it fits; of a log that is `growing`, one of an earlier part fits too."""
    try:
        summary = decode_json((directory / FILE_NAME).read_bytes(), SessionSummary)
        size = (directory / "log.jsonl").stat().st_size
        return summary if summary.size == size or (growing and summary.size < size) else None
    except (OSError, msgspec.MsgspecError):
        return None


def save_summary(directory: Path, summary: SessionSummary) -> None:
    """Save a summary, whole or not at all; without it the list only takes longer."""
    with suppress(OSError):
        replace_file(directory / FILE_NAME, msgspec.json.encode(summary), durable=False)
