"""How the models of a session are addressed: with the whole prompts or, for a small window, short ones with few tools;
by function calls or, where a model takes none, by tags in the text.

It is settled once for each model of a session and kept beside the log: what is known of a model may change later, and
the bytes that every request begins with must not.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from core.agent.prefix import keep

SHORT_BELOW = 16_000  # tokens of a window
FILE = "prefix-variants.json"


class _Settled(Struct, kw_only=True):
    """By the model's id: whether its prompts are short; and those that take no function calls."""

    short: dict[str, bool] = field(default_factory=dict)
    toolless: list[str] = field(default_factory=list)


def hand_on(source: Path, target: Path) -> None:
    """Let the session of directory `target` begin with what was settled in that of `source`."""
    with suppress(OSError):
        keep(target, FILE, (source / FILE).read_bytes())


class Variants:
    """Those of one session, whose own directory is `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._settled = _Settled()
        with suppress(OSError, msgspec.MsgspecError):
            self._settled = msgspec.json.decode((directory / FILE).read_bytes(), type=_Settled)

    def settle(self, model: str, *, window: int, tools: bool) -> bool:
        """Settle how a model is addressed, by its window (tokens, 0 = not known) and whether it takes function calls.
        False: that was done before, and stays."""
        if model in self._settled.short:
            return False
        self._settled.short[model] = 0 < window < SHORT_BELOW
        if not tools and model not in self._settled.toolless:
            self._settled.toolless.append(model)
        self._keep()
        return True

    def is_short(self, model: str) -> bool:
        """Whether a model has the short prompts."""
        return self._settled.short.get(model, False)

    def is_toolless(self, model: str) -> bool:
        """Whether it turned out that the model takes no function calls."""
        return model in self._settled.toolless

    def note_toolless(self, model: str) -> None:
        """It has just refused them."""
        if model not in self._settled.toolless:
            self._settled.toolless.append(model)
            self._keep()

    def _keep(self) -> None:
        keep(self._directory, FILE, msgspec.json.encode(self._settled))
