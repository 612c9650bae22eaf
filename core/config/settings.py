"""What can be configured, as records: the defaults are the program's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from core.config.models import (
    DialectName,
    ModelSettings,
    ModeSettings,
    ModeTable,
    ProviderSettings,
    RouteSettings,
    RouteTable,
)
from core.modes import Mode
from core.permissions.rules import Choice, Rule, parse_rule
from core.protocol.messages import Job

FILE_NAME = "config.toml"

CommandPolicy = Literal["confirm", "auto", "human"]
EditPolicy = Literal["review", "auto"]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
_KeyId = Annotated[str, Meta(pattern=r"^[a-z_]+\.[a-z_]+$")]
_Keys = Annotated[str, Meta(pattern=r"^\S{1,40}( *, *\S{1,40})*$")]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn may use: model calls, US dollars, tokens (prompt and answer together). 0 = no limit."""

    max_steps: Count = 100
    max_cost: Amount = 0.0
    max_tokens: Count = 0


class Commands(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`confirm` asks before each command, `auto` runs contained ones unasked, `human` leaves them to the user.

    `checks`: how further commands begin that check the code, such as "bin/verify" or "nix flake check*".
    """

    policy: CommandPolicy = "auto"
    checks: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()


class Edits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`review` waits for a verdict on every hunk, `auto` accepts them at the end of each step."""

    policy: EditPolicy = "review"


class Interface(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keymap` maps a binding's id to keys, `theme` "" = the program's own. Which of them exist the screen knows."""

    theme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,60}$")] = ""
    keymap: dict[_KeyId, _Keys] = field(default_factory=dict)


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`compact_at`: the used share of the window at which older messages are summarised; `window` 0 = the model's."""

    compact_at: Annotated[float, Meta(ge=0.1, le=0.98)] = 0.85
    window: Count = 0


class PermissionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, each `Kind(pattern)`; the strictest that speaks of a call wins."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def by_choice(self) -> tuple[tuple[Choice, tuple[str, ...]], ...]:
        return ("allow", self.allow), ("ask", self.ask), ("deny", self.deny)

    def rules(self) -> tuple[Rule, ...]:
        """Raises `ConfigError` for what is no rule; what was read from a file holds none of that."""
        return tuple(parse_rule(text, choice, FILE_NAME) for choice, texts in self.by_choice() for text in texts)


class DialectFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of the user's that replace what the program says in a dialect; relative to the configuration directory."""

    command: str = ""


SHORT_KEYS: Final[Mapping[Job, str]] = {"chat": "model", "small": "small_model", "apply": "apply_model"}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured; the defaults are the program's.

    `model`, `small_model` and `apply_model` are short for the `model` of the routes `chat`, `small` and `apply`; ask
    `route`.
    """

    model: str = ""
    small_model: str = ""
    apply_model: str = ""
    privacy: bool = False
    mode: Mode = Mode.AGENT
    limits: Limits = Limits()
    commands: Commands = Commands()
    edits: Edits = Edits()
    ui: Interface = Interface()
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    context: ContextSettings = ContextSettings()
    models: dict[str, ModelSettings] = field(default_factory=dict)
    routes: RouteTable = RouteTable()
    modes: ModeTable = ModeTable()
    dialects: DialectFiles = DialectFiles()
    permissions: PermissionSettings = PermissionSettings()

    def route(self, job: Job) -> RouteSettings:
        """What is configured for a job, in the table or by the short key. No model: the one of the conversation."""
        found: RouteSettings = getattr(self.routes, job)
        short: str = getattr(self, SHORT_KEYS[job]) if job in SHORT_KEYS else ""
        return found if found.model else replace(found, model=short)

    def mode_of(self, name: str) -> ModeSettings:
        """What is configured for a mode, by its name."""
        found: ModeSettings = getattr(self.modes, name)
        return found

    def dialect_of(self, model: str) -> DialectName:
        """How a model is spoken with, by its id."""
        return self.models.get(model, ModelSettings()).dialect or "native"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """`notices`: what of the project's file was ignored, and why; one line each. `bounds`: what it says, by section and
    key, that may be narrowed and not widened."""

    settings: Settings
    notices: tuple[str, ...] = ()
    bounds: Mapping[tuple[str, str], Any] = {}
