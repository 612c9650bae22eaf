"""The command line as records: what the front ends, the engine and its child processes are started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from core.protocol.choices import OutputFormat
from core.protocol.options import EngineOptions

if TYPE_CHECKING:
    from core.protocol.tools import ToolSettings

Front = Literal[
    "acp",
    "screen",
    "print",
    "engine",
    "agents",
    "sessions",
    "doctor",
    "clean",
    "config",
    "report",
    "box",
    "review",
    "commit",
    "pr",
    "diff",
    "proof",
    "permissions",
    "plan",
    "models",
    "help",
    "hooks",
    "image",
    "index",
    "mcp",
    "memory",
    "rules",
    "serve",
    "skills",
    "import",
    "update",
    "commands",
    "completion",
    "_complete",
    "attach",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A checked command line. `front`: the front end that runs it; `directory` is absolute and exists."""

    front: ClassVar[Front]
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArguments(Arguments, EngineOptions):
    """A command line about a session: the engine's options, and the session to resume."""

    continue_last: bool = False
    resume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenArguments(SessionArguments):
    """`pane`: the pane that is open at the start, at `place`; `program`: the argv prefix that starts the engine."""

    front: ClassVar[Front] = "screen"
    demo: bool = False
    pane: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintArguments(SessionArguments):
    """`prompt` None: read it from stdin. `images`: files to send with it, "-" = stdin. `best`: the models that the
    prompt is tried with in parallel, "" = the session's; () = it is answered once. `tools`: limits of tools by name.
    `accept`: "all", "verified", "proven", and patterns of paths to accept at the end; `proof`: the check is run over
    each hunk before. `json_schema`: the file of the schema that the answer must match. `time_limit`: seconds of the
    run, None = no limit. `exit_zero`: a limit, a refusal and what is left pending are no failure. `trajectory`: a file
    that the session is written to at the end, None = none. `goal`: a condition until which the run goes on, with the
    command `check` that tells, in at most `rounds` checks. `loop`: seconds after which the prompt is sent again, 0 =
    it is sent once; at most `runs` times (0 = as usual), and only when the command `when` prints a line with
    `prints`."""

    front: ClassVar[Front] = "print"
    interactive: bool = False
    watch: bool = False
    prompt: str | None = None
    output_format: OutputFormat = "text"
    accept: tuple[str, ...] = ()
    proof: bool = False
    images: tuple[str, ...] = ()
    best: tuple[str, ...] = ()
    tools: Mapping[str, ToolSettings] = field(default_factory=dict)
    json_schema: Path | None = None
    time_limit: int | None = None
    exit_zero: bool = False
    trajectory: Path | None = None
    goal: str = ""
    check: str = ""
    rounds: int = 0
    loop: int = 0
    when: str = ""
    prints: str = ""
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArguments(SessionArguments):
    """The engine of a screen, which communicates over standard input and output."""

    front: ClassVar[Front] = "engine"
