"""One project's trust in an engine: what was decided, what is asked, and which settings hold because of it."""

from __future__ import annotations

from pathlib import Path

from core.config import LoadedSettings, load_with_notices
from core.errors import StateError
from core.permissions.trust import Trust, is_empty, speaking
from core.protocol.events import Notice, TrustStated

HOW = "Say yes when agent-tui asks in this directory, or add --trust for one run."


class Trusting:
    """`for_now`: the command line says that the project is trusted, for this start."""

    def __init__(self, root: Path, *, for_now: bool) -> None:
        self._root = root
        self._trust = Trust(root)
        self._problem = ""
        self.trusted = for_now or self._given()

    def _given(self) -> bool:
        try:
            return self._trust.given()
        except StateError as problem:
            self._problem = problem.explained()
            return False

    def settings(self) -> LoadedSettings:
        """The settings that hold: the project's own are read only if it is trusted. Raises `ConfigError`."""
        return load_with_notices(self._root if self.trusted else None)

    def decide(self, trusted: bool) -> LoadedSettings:
        """Take the user's answer in; a yes is kept. The settings that hold then. Raises `ConfigError`, `StateError`;
        then nothing has changed."""
        loaded = load_with_notices(self._root if trusted else None)
        if trusted:
            self._trust.give()
        else:
            self._trust.withdraw()
        self.trusted = trusted
        return loaded

    def question(self) -> TrustStated | None:
        """What the user is asked; None: nothing, since the project is trusted or has nothing to say."""
        if self.trusted or is_empty(self._root):
            return None
        return TrustStated(state="asked", directory=str(self._root), holds=speaking(self._root))

    def answer(self) -> TrustStated:
        if self.trusted:
            return TrustStated(state="trusted", directory=str(self._root))
        return TrustStated(state="restricted", directory=str(self._root), holds=speaking(self._root))

    def notice(self) -> Notice | None:
        """What to say where nobody can be asked."""
        held = speaking(self._root)
        if self._problem:
            return Notice(level="warning", message=self._problem)
        if self.trusted or set(held) <= {".git"}:  # without git the agent misses little, and that in every repository
            return None
        return Notice(level="warning", message=f"This project is not trusted: {', '.join(held)} not read.", hint=HOW)
