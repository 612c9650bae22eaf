"""Notes about a project that outlive a session: the agent proposes them, and only the user's acceptance makes them
rules.

They are in the state directory, out of reach of the project and of sandboxed commands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.config.rules.file_text import strip_invisible
from core.config.rules.rule import AgentRule
from core.errors import CommandRejected
from core.ids import new_id
from core.permissions.state_file import StateFile
from core.protocol.queries import MemoryNote
from core.secrets import redact

FILE_NAME: Final = "memory.json"
MAX_NOTES: Final = 100
MAX_WAITING: Final = 20
MAX_NOTE: Final = 1_000  # characters
_SEE: Final = "/memory and `agent-tui memory` list the notes."

Notes = tuple[MemoryNote, ...]


class _NotesOfProjects(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, Notes] = field(default_factory=dict)


class ProjectNotes:
    """The notes of one project, oldest first. Every method raises `StateError` if the file can't be used."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace)
        self._file = StateFile(FILE_NAME, _NotesOfProjects)

    def load(self) -> Notes:
        return self._file.read().workspaces.get(self._workspace, ())

    def add(self, text: str, reason: str = "", *, is_kept: bool) -> MemoryNote:
        """Add a note, accepted or pending. Raises `CommandRejected` for an empty or existing one, and at the limit."""
        note = MemoryNote(id=new_id("note"), text=_clean(text), why=_clean(reason), at=now_ms(), is_kept=is_kept)

        def append(notes: Notes) -> Notes:
            same = next((memory_note for memory_note in notes if memory_note.text == note.text), None)
            if same is not None and (same.is_kept or not is_kept):
                state = "is kept" if same.is_kept else "is waiting for your decision"
                raise CommandRejected(f"this note is {state} already.", hint=_SEE, code="note_known")
            if sum(memory_note.is_kept == is_kept for memory_note in notes) >= (MAX_NOTES if is_kept else MAX_WAITING):
                status = "kept" if is_kept else "waiting"
                raise CommandRejected(f"the limit of {status} notes is reached.", hint=_SEE, code="notes_full")
            return (*(memory_note for memory_note in notes if memory_note is not same), note)

        if not note.text:
            raise CommandRejected("the note is empty.", code="note_empty")
        self._change(append)
        return note

    def accept(self, identity: str, text: str = "") -> None:
        """Accept a note, optionally with other words. Raises `CommandRejected` for an unknown id."""
        words = _clean(text)

        def keep(notes: Notes) -> Notes:
            self._find(notes, identity)
            return tuple(
                replace(note, text=words or note.text, is_kept=True) if note.id == identity else note for note in notes
            )

        self._change(keep)

    def reject(self, identity: str) -> None:
        """Remove a note, accepted or pending. Raises `CommandRejected` for an unknown id."""

        def drop(notes: Notes) -> Notes:
            self._find(notes, identity)
            return tuple(note for note in notes if note.id != identity)

        self._change(drop)

    def build_rules(self) -> tuple[AgentRule, ...]:
        """Build rules of the accepted notes."""
        notes = (note for note in self.load() if note.is_kept)
        return tuple(AgentRule(path=f"memory/{note.id}", kind="memory", text=note.text) for note in notes)

    @staticmethod
    def _find(notes: Notes, identity: str) -> None:
        if not any(note.id == identity for note in notes):
            raise CommandRejected(f"there is no note {identity!r}.", hint=_SEE, code="note_unknown")

    def _change(self, change: Callable[[Notes], Notes]) -> None:
        def replace_notes(record: _NotesOfProjects) -> _NotesOfProjects:
            now = change(record.workspaces.get(self._workspace, ()))
            rest = {name: notes for name, notes in record.workspaces.items() if name != self._workspace}
            return _NotesOfProjects(workspaces=rest | ({self._workspace: now} if now else {}))

        self._file.update(replace_notes)


def _clean(text: str) -> str:
    """Return a note's text on one line, without invisible characters and secrets."""
    return " ".join(redact(strip_invisible(text)[0]).split())[:MAX_NOTE]
