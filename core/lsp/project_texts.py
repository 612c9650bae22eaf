"""The texts that language servers are given: as they are pending, and as the user has them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from core.edits.text_file import decode_text
from core.errors import AgentTuiError
from core.protocol.review import FileState
from core.shadow.shadow import Shadow

LARGEST: Final = 2_000_000  # bytes of a file that a server is given
MOST_BASES: Final = 50  # texts of the user's that are held


class TextPair(Struct, frozen=True):
    """A file as it is pending, and as the user has it; `base` None: they have no such file."""

    text: str
    base: str | None


class ProjectTexts(Struct, eq=False):
    """The texts of a session's project."""

    shadow: Shadow
    _bases: dict[str, str] = field(default_factory=dict)

    def load_pair(self, path: str) -> TextPair | None:
        """Return both texts of a file; None: it is gone, no text, too large, or kept from the agent."""
        change = self.shadow.state.changes.get(path)
        text = self.read(path)
        if text is None:
            return None
        if change is None:
            return TextPair(text, text)
        base = change.counted_state
        return TextPair(text, self._load(base) if base.kind == "file" else None)

    def read(self, path: str) -> str | None:
        """Return a file as the agent sees it; None as in `load_pair`."""
        try:
            data = self.shadow.read(path, LARGEST + 1)
        except AgentTuiError:
            return None
        file = decode_text(data) if data is not None and len(data) <= LARGEST else None
        return file.text if file else None

    def _load(self, state: FileState) -> str:
        if state.blob not in self._bases:
            if len(self._bases) >= MOST_BASES:
                self._bases.clear()
            file = decode_text(self.shadow.blobs.get(state.blob)) if state.blob else None
            self._bases[state.blob] = file.text if file else ""
        return self._bases[state.blob]

    def exists(self, path: str) -> bool:
        """True if the agent sees something at a path."""
        try:
            return self.shadow.stat(path) is not None
        except AgentTuiError:
            return False

    def read_beginning(self, path: str) -> bytes | None:
        """Return the first part of a file; None if there is none."""
        try:
            return self.shadow.read(path, 1_000_000)
        except AgentTuiError:
            return None

    def compute_stamp(self, marks: frozenset[str], *, is_linter: bool) -> object:
        """Return what a server that runs can't see change: layers of commands, files that came and went, and pending
        versions of files that configure it (`marks`, by name); for a linter, which looks at no other file, the last."""
        presence_changes, config_blobs = set(), set()
        for path, change in self.shadow.state.changes.items():
            if not is_linter and "absent" in (change.base.kind, change.pending.kind):
                presence_changes.add((path, change.pending.kind))
            if path.rpartition("/")[2] in marks:
                config_blobs.add((path, change.pending.blob))
        uppers = () if is_linter else self.shadow.layers.list_uppers()
        return uppers, frozenset(presence_changes), frozenset(config_blobs)
