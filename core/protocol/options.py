"""Options of a run: a command line gives them, an engine takes them. Light, so that `--help` answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
HangupRule = Literal["ssh", "always", "never"]
ColorChoice = Literal["auto", "truecolor", "256", "16", "none"]
GlyphChoice = Literal["auto", "unicode", "ascii"]
PromptKeys = Literal["default", "vim"]


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options on top of the configuration; None = not given, so that the configuration decides. `interactive`: a user
    can be asked. `watch`: report changes on disk. `tier`: the one tier of box to use. `trust`: trust the project for
    this run. `private`: keep nothing of it. `allow`: rules of the user that allow, in this run. `preload`: a prompt is
    to come, so what it needs is made ready, and the index built beside it. `append_system_prompt`: stands at the end of
    the system prompt of sessions that begin in this run. `home`: where its sessions lie, None = the state directory.
    `program`: the argv prefix that starts this program again, () = it is not known. `add_dirs`: directories (absolute)
    that may be read beside the project."""

    mode: str | None = None
    model: str | None = None
    effort: Effort | None = None
    max_steps: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    interactive: bool = True
    watch: bool = True
    tier: str | None = None
    trust: bool = False
    private: bool | None = None
    allow: tuple[str, ...] = ()
    preload: bool = True
    append_system_prompt: str | None = None
    home: Path | None = None
    program: tuple[str, ...] = ()
    add_dirs: tuple[Path, ...] = ()
