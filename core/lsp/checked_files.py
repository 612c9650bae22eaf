"""The files of a session as one language server sees them: their pending texts, and the diagnostics of the user's own
texts.

A user's own text is diagnosed together with all other files in the user's version, so that an error which an edit
causes elsewhere is not mistaken for an old one. That happens once per text; afterwards a check is one change and one
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from core.edits.text_file import decode_text
from core.errors import AgentTuiError
from core.lsp.diagnostics import find_new_diagnostics
from core.protocol.language import Diagnostic
from core.protocol.review import FileState
from core.shadow.shadow import Shadow
from core.text.lines import split_lines

if TYPE_CHECKING:  # it imports the protocol, which the first server loads
    from core.lsp.connection import ServerConnection

MAX_BYTES: Final = 2_000_000  # bytes of a file that a server gets
MAX_BASES: Final = 50  # cached texts of the user
CHECK_LIMIT: Final = 20.0  # seconds for the diagnostics of one file
MAX_UNANSWERED: Final = 3  # consecutive timeouts
MAX_FILES: Final = 20  # files that are checked again after an edit of one of them


class TextPair(Struct, frozen=True):
    """The pending text of a file and the user's own; `base` None: the user has no such file."""

    text: str
    base: str | None


class ProjectTexts(Struct, eq=False):
    """The texts of a session's project."""

    shadow: Shadow
    _bases: dict[str, str] = field(default_factory=dict)

    def load_pair(self, path: str) -> TextPair | None:
        """Return both texts of a file; None: it is missing, binary, too large, or hidden from the agent."""
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
            data = self.shadow.read(path, MAX_BYTES + 1)
        except AgentTuiError:
            return None
        file = decode_text(data) if data is not None and len(data) <= MAX_BYTES else None
        return file.text if file else None

    def _load(self, state: FileState) -> str:
        if state.blob not in self._bases:
            if len(self._bases) >= MAX_BASES:
                self._bases.clear()
            file = decode_text(self.shadow.blobs.get(state.blob)) if state.blob else None
            self._bases[state.blob] = file.text if file else ""
        return self._bases[state.blob]

    def exists(self, path: str) -> bool:
        """True if the agent sees anything at a path."""
        try:
            return self.shadow.stat(path) is not None
        except AgentTuiError:
            return False

    def read_beginning(self, path: str) -> bytes | None:
        """Return the first megabyte of a file; None if there is none."""
        try:
            return self.shadow.read(path, 1_000_000)
        except AgentTuiError:
            return None

    def compute_stamp(self, marks: frozenset[str], *, is_linter: bool) -> object:
        """Return the state that a running server can't see change: layers of commands, added and removed files, and
        pending versions of configuration files (`marks`, by name). A linter, which reads no other file, needs only the
        last."""
        presence_changes, config_blobs = set(), set()
        for path, change in self.shadow.state.changes.items():
            if not is_linter and "absent" in (change.base.kind, change.pending.kind):
                presence_changes.add((path, change.pending.kind))
            if path.rpartition("/")[2] in marks:
                config_blobs.add((path, change.pending.blob))
        uppers = () if is_linter else self.shadow.layers.list_uppers()
        return uppers, frozenset(presence_changes), frozenset(config_blobs)


class Baseline(Struct, frozen=True):
    """The diagnostics of the user's own text."""

    text: str
    lines: Sequence[str]
    diagnostics: tuple[Diagnostic, ...]


class CheckedFiles(Struct, eq=False):
    """The files that a server got, by path. `unanswered`: the number of consecutive timeouts."""

    pairs: dict[str, TextPair] = field(default_factory=dict)
    baselines: dict[str, Baseline] = field(default_factory=dict)
    unanswered: int = 0

    @property
    def is_silent(self) -> bool:
        """True if the server timed out too often to wait for it any longer."""
        return self.unanswered >= MAX_UNANSWERED

    async def update(self, server: ServerConnection, text_pairs: Mapping[str, TextPair | None]) -> None:
        """Send the server the current files (None = removed), and diagnose the user's versions that are new."""
        for path, pair in text_pairs.items():
            if pair is None:
                self.forget(server, path)
            else:
                self.pairs[path] = pair
        if unknown := [path for path in text_pairs if not self._is_base_known(path)]:
            await self._diagnose_bases(server, unknown)
        for path, pair in self.pairs.items():
            server.set_text(path, pair.text)

    def forget(self, server: ServerConnection, path: str) -> None:
        """Close a file."""
        self.pairs.pop(path, None)
        server.close_document(path)

    def _is_base_known(self, path: str) -> bool:
        pair, baseline = self.pairs.get(path), self.baselines.get(path)
        return pair is None or pair.base is None or (baseline is not None and baseline.text == pair.base)

    async def _diagnose_bases(self, server: ServerConnection, unknown: Iterable[str]) -> None:
        for path, pair in self.pairs.items():
            if pair.base is not None:
                server.set_text(path, pair.base)
        for path in unknown:
            base = self.pairs[path].base
            diagnostics = await self._diagnose(server, path) if base is not None else ()
            if base is not None and diagnostics is not None:
                self.baselines[path] = Baseline(base, split_lines(base).bodies, diagnostics)

    async def check(self, server: ServerConnection, changed_paths: Iterable[str], *, alone: bool) -> None:
        """Diagnose the changed files, and the other ones unless files are independent (`alone`)."""
        paths = [path for path in changed_paths if path in self.pairs]
        others = [] if alone else [path for path in reversed(self.pairs) if path not in paths]
        for path in (*paths, *others[: MAX_FILES - len(paths)]):
            await self._diagnose(server, path)

    async def _diagnose(self, server: ServerConnection, path: str) -> tuple[Diagnostic, ...] | None:
        if self.is_silent:
            return None
        diagnostics = await server.diagnose(path, seconds=CHECK_LIMIT)
        self.unanswered = 0 if diagnostics is not None else self.unanswered + 1
        return diagnostics

    def find_new(self, server: ServerConnection, path: str) -> list[Diagnostic] | None:
        """Return the diagnostics of the pending text that the user's text does not have; None: not known yet."""
        document, pair = server.documents.get(path), self.pairs.get(path)
        if document is None or pair is None or document.diagnostics is None or document.text != pair.text:
            return None
        if pair.base is None or not document.diagnostics:
            return list(document.diagnostics)
        base = self.baselines.get(path)
        if base is None or base.text != pair.base:
            return None
        return find_new_diagnostics(document.diagnostics, base.diagnostics, document.lines.list_lines(), base.lines)
