"""Prompt variants of a session's models: whole prompts or short ones, function calls or tags in the text.

Short prompts with few tools are for a small window; tags are for a model that takes no function calls. The variant is
chosen once for each model of a session and saved beside the log: what is known of a model may change later, and the
bytes that every request begins with must not.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from core.agent.context.prefix import save_state_file
from core.records import decode_json

SHORT_BELOW = 16_000  # tokens of a window
VARIANTS_FILE = "prefix-variants.json"


class _VariantsFile(Struct, kw_only=True):
    """The choices by model id: whether its prompts are short; and those that take no function calls."""

    short: dict[str, bool] = field(default_factory=dict)
    toolless: list[str] = field(default_factory=list)


def copy_variants(source: Path, target: Path) -> None:
    """Let the session of directory `target` begin with the choices of the one of `source`."""
    with suppress(OSError):
        save_state_file(target, VARIANTS_FILE, (source / VARIANTS_FILE).read_bytes())


class PromptVariants:
    """The prompt variants of one session, saved in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._chosen = _VariantsFile()
        with suppress(OSError, msgspec.MsgspecError):
            self._chosen = decode_json((directory / VARIANTS_FILE).read_bytes(), _VariantsFile)

    def choose_variant(self, model: str, *, window: int, tools: bool) -> bool:
        """Choose how a model is addressed; `window`: 0 = not known. Returns False if that was chosen before."""
        if model in self._chosen.short:
            return False
        self._chosen.short[model] = 0 < window < SHORT_BELOW
        if not tools and model not in self._chosen.toolless:
            self._chosen.toolless.append(model)
        self._save()
        return True

    def is_short(self, model: str) -> bool:
        """True if a model has the short prompts."""
        return self._chosen.short.get(model, False)

    def is_toolless(self, model: str) -> bool:
        """True if the model takes no function calls."""
        return model in self._chosen.toolless

    def mark_toolless(self, model: str) -> None:
        """Record that the model has just refused function calls."""
        if model not in self._chosen.toolless:
            self._chosen.toolless.append(model)
            self._save()

    def _save(self) -> None:
        save_state_file(self._directory, VARIANTS_FILE, msgspec.json.encode(self._chosen))
