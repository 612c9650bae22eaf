"""The settings as records, with the defaults of the program; where several settings of a tool apply, the stricter
wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from core.edit_formats import EditFormat
from core.modes import Mode
from core.permissions.rules import PermissionChoice, PermissionRule, matches_host, parse_rule
from core.protocol.choices import ColorChoice, GlyphChoice, HangupRule, PromptKeys, SandboxChoice
from core.protocol.messages import Effort, ModelJob, TierChoice, Usage
from core.protocol.paths import is_named_by
from core.protocol.queries.sessions import NotificationSettings
from core.protocol.tools import ToolSettings

DialectName = Literal["native", "tags", "command"]
ModelId = Annotated[str, Meta(pattern=r"^([^/\s]+/\S.*)?$")]
PrivateHost = Annotated[
    str,
    Meta(pattern=r"^(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$|^[0-9a-f:]+:[0-9a-f:.]*$"),
]
_WILD: Final = frozenset("*?[")
FILE_NAME = "config.toml"
CommandPolicy = Literal["confirm", "auto", "human"]
EditPolicy = Literal["review", "auto"]
CHOICES: Final[tuple[PermissionChoice, ...]] = get_args(PermissionChoice)
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
_KeyId = Annotated[str, Meta(pattern=r"^[a-z_]+\.[a-z_]+$")]
_KeyNames = Annotated[str, Meta(pattern=r"^\S{1,40}( *, *\S{1,40})*$")]


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model API. `kind`: its protocol; "" = by its name, else OpenAI's.

    `{model}` in `base_url` stands for the model's name. `api_key_env` names the environment variable of the key,
    `key_command` prints the key; a configuration file never contains a key. `key_header`: the header of the key, "" =
    the protocol's own. `query`: parameters of every request. `wire`: which of OpenAI's two protocols, "" = responses at
    OpenAI's own host, chat completions elsewhere. `timeout`: seconds in which a server may send nothing, 0 = by where
    it is.
    """

    base_url: str = ""
    api_key_env: str = ""
    key_command: str = ""
    key_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,60}$")] = ""
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    kind: Literal["", "openai", "anthropic"] = ""
    wire: Literal["", "chat", "responses"] = ""
    timeout: Amount = 0.0


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens. `cached`: for cached prompt tokens, None = the price of `input`."""

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    cached: Annotated[float, Meta(ge=0)] | None = None

    def compute_cost(self, usage: Usage) -> float:
        """Return the cost of one call in US dollars; prompt tokens include the cached ones."""
        cached_price = self.input if self.cached is None else self.cached
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached_price + usage.completion_tokens * self.output) / 1e6


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, by its id `provider/name`. `dialect`: the form of its tool calls; "" = native function calls, unless
    the model is known to have none. `edits`: the edit format it is offered; "" = the best one for models of its name.
    `price`: None = from the program's price list. `max_answer`: the most tokens of one answer, 0 = the program's choice
    for a server of the user's own, and the API's for all others."""

    dialect: DialectName | Literal[""] = ""
    edits: EditFormat | Literal[""] = ""
    price: Price | None = None
    max_answer: Count = 0


class RouteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model of a job, its effort ("" = the default) and service tier; `fallback`: models to try next, in order."""

    model: ModelId = ""
    effort: Effort | Literal[""] = ""
    tier: TierChoice = ""
    fallback: tuple[Annotated[str, Meta(pattern=r"^[^/\s]+/\S.*$")], ...] = ()


class RouteTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs of models: conversation, application of edits, small tasks, embeddings, subagents, advice."""

    chat: RouteSettings = RouteSettings()
    apply: RouteSettings = RouteSettings()
    small: RouteSettings = RouteSettings()
    embed: RouteSettings = RouteSettings()
    subagent: RouteSettings = RouteSettings()
    advisor: RouteSettings = RouteSettings()


class ModeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model and effort of a mode; "" = as in the other modes. `tools`: restrictions of tools in it."""

    model: ModelId = ""
    effort: Effort | Literal[""] = ""
    tools: dict[str, ToolSettings] = field(default_factory=dict)


class ModeTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: ModeSettings = ModeSettings()
    plan: ModeSettings = ModeSettings()
    ask: ModeSettings = ModeSettings()
    debug: ModeSettings = ModeSettings()


class TurnLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one turn: model calls, US dollars, tokens of prompts and answers. 0 = no limit."""

    max_steps: Count = 100
    max_cost: Amount = 0.0
    max_tokens: Count = 0


class CommandSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`confirm` asks before every command, `auto` runs sandboxed ones without asking, `human` leaves them to the user.
    `checks`: prefixes of further commands that verify the code, such as "bin/verify" or "nix flake check*". `sandbox`:
    the strongest sandbox of this machine, or the container that the machine itself is ("in-place": without a copy).
    `wake`: the agent goes on when a background command has ended, without a prompt."""

    policy: CommandPolicy = "auto"
    sandbox: SandboxChoice = "auto"
    wake: bool = True
    checks: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()


class ProofSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`off`: the check is not run over each hunk at the end of a turn, only when you ask. `seconds`: the limit of one
    proof after the first run of the check."""

    off: bool = False
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class EditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`review` waits for a verdict on every hunk, `auto` accepts them at the end of every step."""

    policy: EditPolicy = "review"


class InterfaceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keymap` maps the id of a binding to keys; `theme` "" = the program's own; `syntax`: a style of Pygments, "" =
    the theme's. The screen validates these names. `plain`: for screen readers. `prompt_keys`: the editing keys of the
    prompt."""

    theme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,60}$")] = ""
    syntax: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,60}$")] = ""
    colors: ColorChoice = "auto"
    glyphs: GlyphChoice = "auto"
    plain: bool = False
    prompt_keys: PromptKeys = "default"
    keymap: dict[_KeyId, _KeyNames] = field(default_factory=dict)


class PlanSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`directory`: where plans are written, relative to the project, absolute, or below `~`."""

    directory: Annotated[str, Meta(pattern=r"^[^\0\n]{1,1000}$")] = ".cursor/plans"


class DetachSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`on_hangup`: whether work continues after its terminal has gone, "ssh" = only over SSH. `idle_minutes`: a
    detached session ends after so long without work; 0 = at the end of the current work."""

    on_hangup: HangupRule = "ssh"
    idle_minutes: Count = 30


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of days without use after which a session, or a run of `-p`, is deleted (0 = never). Sessions with a
    tag, or in which anything waits for the user, are never deleted."""

    keep_days: Count = 0
    keep_runs_days: Count = 30


Compactor = Literal["session", "small", "server"]


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`compact_at`: when older messages are summarised: at this share of the window, or of what a prompt may have
    before it costs more, or at this number of tokens. `compactor`: who does it, the session's model, the `small` one,
    or the model's API where it can. `prewarm`: the API reads a resumed conversation into its cache before you write.
    `window` 0 = the model's."""

    compactor: Compactor = "session"
    prewarm: bool = False
    compact_at: Annotated[int, Meta(ge=1_000)] | Annotated[float, Meta(ge=0.1, le=0.98)] = 0.85
    window: Count = 0


class IndexSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`enabled`: the project is indexed, in the state directory."""

    enabled: bool = True


class SearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web search engine, "" = none, "model" = that of the model's API. `base_url` "" = the engine's own. The key
    comes from `api_key_env` or `key_command`, as with providers."""

    provider: Literal["", "searxng", "brave", "tavily", "exa", "model"] = ""
    base_url: str = ""
    api_key_env: str = ""
    key_command: str = ""

    def explain_absence(self) -> str | None:
        """Explain why no engine can be queried, as part of a sentence; None: there is one."""
        if not self.provider:
            return "no search engine is configured"
        lacks_address = self.provider == "searxng" and not self.base_url
        return "`web.search.base_url` does not name your SearXNG" if lacks_address else None


class WebSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`enabled`: the agent may fetch pages of granted hosts; `robots`: robots.txt is respected."""

    enabled: bool = True
    robots: bool = True
    search: SearchSettings = SearchSettings()


class NetworkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`private_hosts`: hosts that may have addresses of a private network, `*.host` for all below one. They need a
    grant like any other host."""

    private_hosts: tuple[PrivateHost, ...] = ()

    def is_private_host(self, host: str) -> bool:
        """True if the host is one of these."""
        return any(matches_host(pattern, host) for pattern in self.private_hosts)


class BrowserSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The browser of the subagent `browser-use`. `executable`: a Chromium, "" = the first on this machine; `command`:
    starts Playwright's MCP server, () = the installed one."""

    executable: str = ""
    command: tuple[Annotated[str, Meta(min_length=1)], ...] = ()


class PermissionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, each `Kind(pattern)`; the strictest matching rule wins."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def parse_rules(self) -> tuple[PermissionRule, ...]:
        """Parse the rules. Raises `ConfigError` for an invalid one, which a loaded file does not have."""
        return tuple(parse_rule(text, choice, FILE_NAME) for choice in CHOICES for text in getattr(self, choice))


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a known language server, or a new one. `settings` answer its configuration requests."""

    enabled: bool = True
    command: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    languages: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    roots: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


class AgentServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a known ACP agent, or a new one. `login`: directories of the user with its credentials; `tokens`:
    files in them that it may change; `env`: names of variables that it gets; `hosts`: those that it may reach; `mode`:
    the id of its own mode to use, "" = chosen automatically."""

    command: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    login: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    tokens: tuple[Annotated[str, Meta(pattern=r"^[^/]{1,200}$")], ...] = ()
    env: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    hosts: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    mode: str = ""


class BackgroundSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`database`: address of a team's PostgreSQL database, "" = agents are stored on this machine; `blobs`: address of
    an object store for their files, "" = the database. `tier`: the service tier of the agents' models, "" = that of
    conversations."""

    database: str = ""
    blobs: str = ""
    tier: TierChoice = ""


class DialectFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's replacements of the program's texts in a dialect, relative to the configuration directory."""

    command: str = ""


SHORT_KEYS: Final[Mapping[ModelJob, str]] = {"chat": "model", "small": "small_model", "apply": "apply_model"}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration; the defaults are the program's. `model`, `small_model` and `apply_model` are short for
    the `model` of the routes `chat`, `small` and `apply`; use `resolve_route`."""

    model: str = ""
    small_model: str = ""
    apply_model: str = ""
    privacy: bool = False
    mode: Mode = Mode.AGENT
    limits: TurnLimits = TurnLimits()
    commands: CommandSettings = CommandSettings()
    proof: ProofSettings = ProofSettings()
    edits: EditSettings = EditSettings()
    ui: InterfaceSettings = InterfaceSettings()
    notify: NotificationSettings = NotificationSettings()
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    plans: PlanSettings = PlanSettings()
    detach: DetachSettings = DetachSettings()
    sessions: SessionSettings = SessionSettings()
    context: ContextSettings = ContextSettings()
    index: IndexSettings = IndexSettings()
    web: WebSettings = WebSettings()
    network: NetworkSettings = NetworkSettings()
    browser: BrowserSettings = BrowserSettings()
    models: dict[str, ModelSettings] = field(default_factory=dict)
    routes: RouteTable = RouteTable()
    modes: ModeTable = ModeTable()
    dialects: DialectFiles = DialectFiles()
    permissions: PermissionSettings = PermissionSettings()
    lsp: dict[str, ServerSettings] = field(default_factory=dict)
    background: BackgroundSettings = BackgroundSettings()
    agent_servers: dict[str, AgentServerSettings] = field(default_factory=dict)
    tools: dict[str, ToolSettings] = field(default_factory=dict)

    def resolve_route(self, job: ModelJob) -> RouteSettings:
        """Return the settings of a job from the table or its short key. Without a model: that of the conversation."""
        route: RouteSettings = getattr(self.routes, job)
        short: str = getattr(self, SHORT_KEYS[job]) if job in SHORT_KEYS else ""
        return route if route.model else replace(route, model=short)

    def get_mode_settings(self, name: str) -> ModeSettings:
        """Return the settings of a mode, by its name."""
        mode_settings: ModeSettings = getattr(self.modes, name)
        return mode_settings

    def get_tool_settings(self, name: str, mode: str = "") -> ToolSettings:
        """Return the settings of a tool by its own name in a mode ("" = any)."""
        mode_tools = self.get_mode_settings(mode).tools if mode else {}
        return find_tool_settings(name, (self.tools, mode_tools))

    def list_tool_keys(self) -> dict[str, str]:
        """Return the names of configured tools with the keys of their tables."""
        tool_keys = {name: f"tools.{name}" for name in self.tools}
        for mode in Mode:
            tool_keys |= {
                name: f"modes.{mode}.tools.{name}"
                for name in self.get_mode_settings(mode).tools
                if name not in tool_keys
            }
        return tool_keys

    def list_disabled_tools(self) -> frozenset[str]:
        """Return the names of disabled tools."""
        return frozenset(name for name, tool in self.tools.items() if not tool.enabled)

    def list_model_settings(self) -> tuple[object, ...]:
        """Return all settings that the connections to models depend on."""
        short = (self.model, self.small_model, self.apply_model, self.privacy)
        return (*short, self.providers, self.models, self.routes, self.modes, self.context)

    def get_dialect(self, model: str) -> DialectName:
        """Return the dialect of a model, by its id."""
        return self.models.get(model, ModelSettings()).dialect or "native"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """The settings of a workspace. `notices`: ignored lines of the project's file, one sentence each. `bounds`: the
    project's values by section and key, which the user may narrow and not widen."""

    settings: Settings
    notices: tuple[str, ...] = ()
    bounds: Mapping[tuple[str, str], Any] = {}


def narrow_tool(settings: ToolSettings, other: ToolSettings) -> ToolSettings:
    """Return the intersection of two settings of a tool. Disjoint paths disable it."""
    both = bool(settings.allowed_paths and other.allowed_paths)
    paths = (
        _intersect(settings.allowed_paths, other.allowed_paths)
        if both
        else settings.allowed_paths or other.allowed_paths
    )
    return ToolSettings(
        enabled=settings.enabled and other.enabled and not (both and not paths),
        scope="changed" if "changed" in {settings.scope, other.scope} else "workspace",
        allowed_paths=paths,
        require_approval=settings.require_approval or other.require_approval,
    )


def find_tool_settings(name: str, tables: Sequence[Mapping[str, ToolSettings]]) -> ToolSettings:
    """Return the intersection of a tool's settings in these tables."""
    tool_settings = ToolSettings()
    for table in tables:
        if name in table:
            tool_settings = narrow_tool(tool_settings, table[name])
    return tool_settings


def _intersect(paths: Sequence[str], other_paths: Sequence[str]) -> tuple[str, ...]:
    """Return the entries of either list that are inside of the other's."""
    inner = [path for path in paths if is_path_allowed(path.rstrip("/"), other_paths, with_parents=False)]
    inner += [path for path in other_paths if is_path_allowed(path.rstrip("/"), paths, with_parents=False)]
    return tuple(dict.fromkeys(inner))


def is_path_allowed(path: str, allowed_paths: Collection[str], *, with_parents: bool = True) -> bool:
    """Return True if a workspace-relative path is in `allowed_paths` or below an entry; with `with_parents`, also for a
    directory above an entry, whose list leads there."""
    return any(_matches_path(path, entry, with_parents=with_parents) for entry in allowed_paths)


def _matches_path(path: str, entry: str, *, with_parents: bool) -> bool:
    pattern = entry.removeprefix("./").rstrip("/") or "."
    if is_named_by(path, pattern):
        return True
    literal = next((pattern[:index] for index, letter in enumerate(pattern) if letter in _WILD), pattern)
    return with_parents and (path == "." or literal.startswith(f"{path}/"))
