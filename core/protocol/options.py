"""Options of a run, from a command line to an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.protocol.choices import Effort


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options that override the configuration; None = the configuration decides. `interactive`: a user can be asked.
    `watch`: report changes on disk. `tier`: the only tier of box to use. `i_know`: the user says that this machine is a
    container, whatever it looks like. `trust`: trust the project for this run.
    `private`: store nothing of it. `allow`: the user's additional allowing rules for this run. `preload`: a prompt will
    come, so its resources are prepared and the index is built in the background. `append_system_prompt`: the end of the
    system prompt of sessions that begin in this run. `home`: the directory of its sessions, None = the state directory.
    `program`: the argv prefix that starts this program again, () = unknown. `add_dirs`: directories (absolute) that may
    be read in addition to the project. `is_background`: it runs a background agent. `wakes`: its client shows turns
    that begin without a prompt."""

    mode: str | None = None
    model: str | None = None
    effort: Effort | None = None
    max_steps: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    interactive: bool = True
    watch: bool = True
    tier: str | None = None
    i_know: bool = False
    trust: bool = False
    private: bool | None = None
    allow: tuple[str, ...] = ()
    preload: bool = True
    append_system_prompt: str | None = None
    home: Path | None = None
    program: tuple[str, ...] = ()
    add_dirs: tuple[Path, ...] = ()
    is_background: bool = False
    wakes: bool = True
