"""One project's trust in an engine: what was decided, what is asked, and which settings hold because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from core.config import PROJECT_FILE, LoadedSettings, bytes_of, load_with_notices
from core.errors import AgentTuiError, PathRefused, StateError
from core.permissions.trust import Trust, is_empty, speaking
from core.permissions.voices import Voices, digest
from core.protocol.events import AnyEvent, FileWritten, Notice, TrustStated
from core.rules import AGENTS_FILE, rule_bytes, rule_files, speaks
from core.workspace import Workspace

HOW = "Say yes when agent-tui asks in this directory, or add --trust for one run."
CONFIGURATION = PROJECT_FILE.as_posix()
MAX_DIRECTORIES = 20_000  # that are looked through for rules when a project is trusted
_NOBODYS = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})


class Trusting:
    """`for_now`: the command line says that the project is trusted, for this start."""

    def __init__(self, workspace: Workspace, *, for_now: bool) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._trust = Trust(self._root)
        self._problem = ""
        self._tell: Callable[[], object] | None = None
        self.trusted = for_now or self._given()
        self.voices = Voices(None, lambda _: None) if for_now else self._voices()
        if self.trusted:
            self.look(self.places())

    def _given(self) -> bool:
        try:
            return self._trust.given()
        except (StateError, OSError) as problem:
            self._problem = problem.explained() if isinstance(problem, StateError) else str(problem)
            return False

    def _voices(self) -> Voices:
        return self._trust.voices() if self.trusted else Voices({}, lambda _: None)

    def hears(self, path: str, data: bytes) -> bool:
        """Whether these bytes of a file of the project may be interpreted."""
        return self.trusted and self.voices.hears(path, data)

    def listen(self, tell: Callable[[], object]) -> None:
        """Call `tell`, in any thread, when there is more to ask about."""
        self._tell = self.voices.tell = tell

    def settings(self) -> LoadedSettings:
        """The settings that hold: the project's own are read only if it is trusted. Raises `ConfigError`."""
        return load_with_notices(self._root if self.trusted else None, self.voices.hears)

    def places(self) -> list[str]:
        """Where the project speaks to begin with."""
        return [CONFIGURATION, AGENTS_FILE, *rule_files(self._workspace)]

    def look(self, paths: Iterable[str]) -> None:
        """Compare what speaks among these paths with what was trusted."""
        for path in paths:
            if self.trusted and (path == CONFIGURATION or speaks(path)) and (data := self._read(path)) is not None:
                self.voices.hears(path, data)

    def decide(self, trusted: bool) -> LoadedSettings:
        """Take the user's answer in; a yes is kept. The settings that hold then. Raises `ConfigError`, `StateError`;
        then nothing has changed."""
        if self.trusted and self.voices.refused:
            return self._decide_on_changes(trusted)
        loaded = load_with_notices(self._root if trusted else None)
        if trusted:
            self._trust.give({path: digest(data) for path, data in self._spoken()})
        else:
            self._trust.withdraw()
        self.trusted = trusted
        self.voices = self._voices()
        self.voices.tell = self._tell or self.voices.tell
        return loaded

    def _decide_on_changes(self, trusted: bool) -> LoadedSettings:
        """A no leaves the project trusted, and what was changed unheard."""
        asked = dict(self.voices.refused)
        if not trusted:
            self.voices.put_off()
            return self.settings()
        loaded = load_with_notices(
            self._root, lambda path, data: digest(data) == asked.get(path) or self.voices.hears(path, data)
        )
        self.voices.trust(asked)
        return loaded

    def note(self, event: AnyEvent) -> None:
        """What the user accepted in the review they have seen: it is no change from outside."""
        if self.trusted and isinstance(event, FileWritten) and (event.path == CONFIGURATION or speaks(event.path)):
            before, data = event.before, self._read(event.path)
            if data is not None and digest(data) == event.state.blob:
                with suppress(StateError):  # then it is asked about
                    self.voices.accepted(event.path, before.blob if before else "", event.state.blob)

    def _spoken(self) -> Iterator[tuple[str, bytes]]:
        """Everything in the project that speaks, with its bytes."""
        for path in [CONFIGURATION, *rule_files(self._workspace), *self._agents_files()]:
            if (data := self._read(path)) is not None:
                yield path, data

    def _agents_files(self) -> Iterator[str]:
        waiting, seen = [""], 0
        while waiting and seen < MAX_DIRECTORIES:
            above, seen = waiting.pop(0), seen + 1
            try:
                entries = self._workspace.list_dir(above or ".")
            except PathRefused:
                continue
            for entry in entries:
                path = f"{above}/{entry.name}" if above else entry.name
                if entry.kind == "directory" and entry.name not in _NOBODYS:
                    waiting.append(path)
                elif entry.name == AGENTS_FILE:
                    yield path

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes_of(self._root / PROJECT_FILE) if path == CONFIGURATION else rule_bytes(self._workspace, path)
        except AgentTuiError:
            return None

    def question(self) -> TrustStated | None:
        """What the user is asked; None: nothing, since the project is trusted or has nothing to say."""
        if self.trusted and self.voices.refused:
            return TrustStated(state="asked", directory=str(self._root), changed=tuple(sorted(self.voices.refused)))
        if self.trusted or is_empty(self._root):
            return None
        return TrustStated(state="asked", directory=str(self._root), holds=speaking(self._root))

    def answer(self) -> TrustStated:
        if self.trusted:
            return TrustStated(state="trusted", directory=str(self._root))
        return TrustStated(state="restricted", directory=str(self._root), holds=speaking(self._root))

    def notice(self) -> Notice | None:
        """What to say where nobody can be asked."""
        if self._problem:
            return Notice(level="warning", message=self._problem)
        if self.trusted and self.voices.refused:
            names = ", ".join(sorted(self.voices.refused))
            told = f"Changed since you trusted this project, so not read: {names}."
            return Notice(level="warning", message=told, hint=HOW)
        held = speaking(self._root)
        if self.trusted or set(held) <= {".git"}:  # without git the agent misses little, and that in every repository
            return None
        return Notice(level="warning", message=f"This project is not trusted: {', '.join(held)} not read.", hint=HOW)
