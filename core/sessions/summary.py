"""What a list of sessions shows of one, kept beside its log so that the log need not be read for it.

Only a convenience: it names the size of the log it was made from, and one that does not fit is as good as none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.ids import new_id
from core.protocol.moves import listed
from core.protocol.queries import SessionInfo
from core.protocol.review import Bulk
from core.sessions.fold import SessionState

FILE = "summary.json"
LONGEST_PROMPT = 100_000  # characters; longer ones are left out of the history of prompts
ALL_PROMPTS = 1_000_000  # characters of the latest ones together


class Prompt(Struct, frozen=True, array_like=True):
    """What the user typed; `at` in ms."""

    at: int
    text: str


class Summary(Struct, frozen=True, kw_only=True):
    """`size`: bytes of the log that this was made from."""

    size: int
    info: SessionInfo
    prompts: tuple[Prompt, ...] = ()


def summary_of(state: SessionState, *, name: str, size: int) -> Summary:
    """The summary of the session `name` in this state."""
    bulks: tuple[Bulk, ...] = getattr(state.review, "bulks", ())
    info = SessionInfo(
        id=name,
        title=state.title,
        started=state.started,
        updated=state.updated,
        model=state.model,
        mode=state.mode,
        turns=len(state.turns),
        pending=len(listed(state.pending)) + sum(each.waits for each in bulks),
        kept=sum(not each.waits for each in bulks),
    )
    return Summary(size=size, info=info, prompts=tuple(reversed(list(_latest(state)))))


def _latest(state: SessionState) -> Iterator[Prompt]:
    """The prompts, the last one first."""
    room = ALL_PROMPTS
    for turn in reversed(state.turns):
        room -= len(turn.prompt)
        if room < 0:
            return
        if len(turn.prompt) <= LONGEST_PROMPT:
            yield Prompt(turn.started, turn.prompt)


def kept(directory: Path, *, growing: bool = False) -> Summary | None:
    """The summary beside a log, if it was made from just this log; of one that is `growing`, from a part of it."""
    try:
        found = msgspec.json.decode((directory / FILE).read_bytes(), type=Summary)
        size = (directory / "log.jsonl").stat().st_size
        return found if found.size == size or (growing and found.size < size) else None
    except (OSError, msgspec.MsgspecError):
        return None


def keep(directory: Path, summary: Summary) -> None:
    """Whole or not at all; without it the list only takes longer."""
    draft = directory / f".{new_id('summary')}"
    with suppress(OSError):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(summary))
            draft.replace(directory / FILE)
        except OSError:
            draft.unlink(missing_ok=True)
