"""Agents of other vendors that speak ACP and can answer in place of a model; the model id is `acp/NAME`.

An agent brings its login, prompts, tools and modes. This module defines how every agent is started, which of the user's
files and variables it may see, and which of its modes corresponds to which of ours. The engine runs it in the box over
the shadow. Sources: the documentation of the agents and of their adapters, see docs/agents.md.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from core.config.settings import AgentServerSettings, Settings
from core.errors import ConfigError, ProviderError
from core.patterns import compile_lazily
from core.providers.base import Delta, ModelInfo, ModelRequest, StreamEnd

ACP: Final = "acp"


class HostedAgent(Struct, frozen=True, kw_only=True):
    """An agent, and the way to start it.

    `commands`: command lines to try; the first one whose program exists is used. `package`: the package to install.
    `login`: directories below the home (`~/…`), of which the agent gets a copy; `tokens`: files in them that are copied
    back after a change. `env`: the user's variables that it gets; `fixed`: variables that are always set. `hosts`:
    hosts that it may reach. `keys`: by the id of a login method, the variables that make it work without the user.
    `session_meta`: metadata of the request for a session. `mode`: the id of the mode that the user configured, "" =
    chosen from those that it offers. `confines_itself`: it has a sandbox of its own, which can't be built inside the
    box.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    package: str = ""
    login: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    fixed: Mapping[str, str] = {}
    keys: Mapping[str, tuple[str, ...]] = {}
    session_meta: Mapping[str, Any] = {}
    mode: str = ""
    confines_itself: bool = False

    def find_command(self) -> tuple[str, ...] | None:
        """Return the command line with the absolute path of its program; None: it is not installed."""
        for program, *rest in self.commands:
            if (path := shutil.which(program)) is not None:
                return (path, *rest)
        return None

    def list_login_directories(self) -> tuple[Path, ...]:
        """Return the login directories that exist."""
        paths = (Path(directory).expanduser() for directory in self.login)
        return tuple(path.resolve() for path in paths if path.is_dir())

    def find_login(self, methods: Sequence[Any], environment: Mapping[str, str]) -> str:
        """Return the id of the first login method that needs no user, because its key is in the agent's environment; ""
        = there is none."""
        for method in methods:
            if isinstance(method, dict) and isinstance(method.get("id"), str):
                key_names = self._list_key_names(method)
                if key_names and all(any(environment.get(name) for name in names) for names in key_names):
                    return str(method["id"])
        return ""

    def _list_key_names(self, method: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return the variables that a login method needs, each as a tuple of alternatives; [] = it needs the user."""
        variables, identity = method.get("vars"), str(method["id"])
        if isinstance(variables, list):
            return [(str(var.get("name")),) for var in variables if isinstance(var, dict) and not var.get("optional")]
        if identity in self.keys:
            return [self.keys[identity]]
        if identity == "api-key":
            return [tuple(name for name in self.env if name.endswith("_API_KEY"))]
        return [(identity.upper().replace("-", "_"),)] if identity.endswith("api-key") else []


_CLAUDE: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL")


_OPENAI: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


_GEMINI: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL")


KNOWN_AGENTS: Final[Mapping[str, HostedAgent]] = {
    agent.name: agent
    for agent in (
        HostedAgent(
            name="claude",
            commands=(("claude-agent-acp",), ("claude-code-acp",)),
            package="@agentclientprotocol/claude-agent-acp",
            login=("~/.claude",),
            tokens=(".credentials.json",),
            env=(*_CLAUDE, "CLAUDE_CODE_OAUTH_TOKEN"),
            hosts=("api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"),
            # Its other file is in the home directory itself, which no mount can make writable without the rest.
            # Without this its own classifier approves commands in some modes, above all plan, past the user's rules.
            session_meta={"claudeCode": {"options": {"settings": {"disableAutoMode": "disable"}}}},
            fixed={"CLAUDE_CONFIG_DIR": "~/.claude", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"},
        ),
        HostedAgent(
            name="codex",
            commands=(("codex-acp",),),
            package="@agentclientprotocol/codex-acp",
            login=("~/.codex",),
            tokens=("auth.json",),
            env=(*_OPENAI, "CODEX_API_KEY"),
            hosts=("api.openai.com", "auth.openai.com", "chatgpt.com"),
            confines_itself=True,
        ),
        HostedAgent(
            name="gemini",
            commands=(("gemini", "--experimental-acp"),),
            package="@google/gemini-cli",
            login=("~/.gemini",),
            tokens=("oauth_creds.json",),
            env=_GEMINI,
            keys={"vertex-ai": ("GOOGLE_API_KEY",)},
            hosts=("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"),
        ),
        HostedAgent(
            name="opencode",
            commands=(("opencode", "acp"),),
            package="opencode-ai",
            login=("~/.local/share/opencode", "~/.local/state/opencode", "~/.config/opencode"),
            tokens=("auth.json",),
            env=(*_CLAUDE, *_OPENAI),
            # None of its modes asks before a command, so the user's rules would never apply.
            fixed={"OPENCODE_PERMISSION": '{"bash":"ask"}'},
            hosts=("opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com"),
        ),
    )
}


def find_agent(name: str, settings: Settings) -> HostedAgent:
    """Return an agent by its name, or one for a command line. Raises `ConfigError`."""
    known_agent, server_settings = KNOWN_AGENTS.get(name), settings.agent_servers.get(name)
    if server_settings is not None:
        return _configure(name, known_agent, server_settings)
    if known_agent is not None:
        return known_agent
    words = _split(name)
    if len(words) > 1 or "/" in name:
        program = Path(words[0]).name
        return HostedAgent(name=program, commands=(tuple(words),), confines_itself=_confines_itself(program))
    names = ", ".join((*KNOWN_AGENTS, *(agent for agent in settings.agent_servers if agent not in KNOWN_AGENTS)))
    raise ConfigError(
        f"there is no agent {name!r}.",
        hint=(
            f"Known: {names}. For another one, give its command line, or set [agent_servers.{name}] "
            "in your config.toml."
        ),
        code="agent_unknown",
    )


def _confines_itself(program: str) -> bool:
    """Return True for the program of a known agent with a sandbox of its own."""
    agents = (agent for agent in KNOWN_AGENTS.values() if agent.confines_itself)
    return any(program == command[0] for agent in agents for command in agent.commands)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text) or [text]
    except ValueError as problem:
        raise ConfigError(f"{text!r} is not a command line: {problem}.", code="agent_unknown") from None


def _configure(name: str, known_agent: HostedAgent | None, server_settings: AgentServerSettings) -> HostedAgent:
    if known_agent is None and not server_settings.command:
        raise ConfigError(f"[agent_servers.{name}] has no command.", hint='Set command = ["…"].')
    base = known_agent or HostedAgent(name=name, commands=())
    return HostedAgent(
        name=name,
        commands=(server_settings.command,) if server_settings.command else base.commands,
        package=base.package,
        login=(*base.login, *server_settings.login),
        tokens=(*base.tokens, *server_settings.tokens),
        env=(*base.env, *server_settings.env),
        hosts=(*base.hosts, *server_settings.hosts),
        fixed=base.fixed,
        keys=base.keys,
        session_meta=base.session_meta,
        mode=server_settings.mode,
        confines_itself=base.confines_itself
        or bool(server_settings.command and _confines_itself(Path(server_settings.command[0]).name)),
    )


class HostedAgentProvider:
    """A stand-in for a provider where an agent answers: the engine passes it whole turns, never a single request."""

    def __init__(self, agent: HostedAgent) -> None:
        self.name, self.agent = ACP, agent

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Refuse the request, since an agent takes whole turns. Raises `ProviderError`."""
        for _ in request.messages:
            raise ProviderError(
                f"{self.agent.name} is an agent: it takes only prompts.",
                hint="Choose a model for this: /model",
            )
        yield StreamEnd("stop")

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return the one model that represents the agent."""
        return (ModelInfo(name=self.agent.name),)

    async def close(self) -> None:
        """Do nothing: the process belongs to a session."""


class HostedModeKind(StrEnum):
    """Kinds of modes. UNCONFINED: the agent leaves containment to its host; ASKING: it asks before it runs a command;
    READING: it changes nothing; CONFINED: it builds a sandbox of its own, which fails inside a box."""

    UNCONFINED = "unconfined"
    ASKING = "asking"
    READING = "reading"
    CONFINED = "confined"


# Ids, and names for modes without a known id, in lower case without spaces and dashes.
_NAMES: Final[Mapping[HostedModeKind, tuple[str, ...]]] = {
    HostedModeKind.UNCONFINED: ("agentfullaccess", "fullaccess", "dangerfullaccess"),
    HostedModeKind.ASKING: ("default", "manual", "build", "code", "agent", "act", "write", "normal", "approve"),
    HostedModeKind.READING: ("plan", "readonly", "ask", "architect", "chat"),
    HostedModeKind.CONFINED: ("workspacewrite",),
}


_NO_WORD: Final = compile_lazily(r"[^a-z0-9]+")


class ModeOffer(Struct, frozen=True, kw_only=True):
    """The modes that an agent offers for a session, as (id, name), and the `current` one. `option`: the id of the
    configuration option that holds them, "" = they are modes of the protocol."""

    modes: tuple[tuple[str, str], ...]
    current: str = ""
    option: str = ""

    def choose(self, *, only_reads: bool, configured_mode: str = "", confines_itself: bool = False) -> str | None:
        """Return the id of the mode to set, None = none fits. `only_reads`: the work is discarded, so a reading mode is
        preferred. `configured_mode`: the mode of the user's configuration. `confines_itself`: the agent builds a
        sandbox in all modes but the unconfined one."""
        unconfined_mode = self._find_first(HostedModeKind.UNCONFINED)
        has_sandbox = (
            confines_itself or unconfined_mode is not None or self._find_first(HostedModeKind.CONFINED) is not None
        )
        reading = None if has_sandbox or not only_reads else self._find_first(HostedModeKind.READING)
        if reading is not None:
            return reading
        if configured_mode:
            return configured_mode if any(configured_mode == identity for identity, _ in self.modes) else None
        return unconfined_mode if has_sandbox else self._find_first(HostedModeKind.ASKING)

    def is_reading(self, mode: str) -> bool:
        """Return True if the mode is known to change nothing."""
        names = dict(self.modes)
        return not {_simplify(mode), _simplify(names.get(mode, ""))}.isdisjoint(_NAMES[HostedModeKind.READING])

    def _find_first(self, kind: HostedModeKind) -> str | None:
        """Return the first mode of a kind in the order of the table, matched by its id, else by its name."""
        for index in (0, 1):
            for name in _NAMES[kind]:
                for mode in self.modes:
                    if _simplify(mode[index]) == name:
                        return mode[0]
        return None

    def describe(self) -> str:
        """Return the modes for display."""
        return ", ".join(identity for identity, _ in self.modes)


def read_mode_offer(response: Mapping[str, Any]) -> ModeOffer | None:
    """Return the modes in the response to a new session, or in an update of its options; None: the agent
    offers none."""
    state = response.get("modes")
    if isinstance(state, dict):
        modes = tuple(_iterate_modes(state.get("availableModes"), "id"))
        if modes:
            return ModeOffer(modes=modes, current=str(state.get("currentModeId") or ""))
    options = response.get("configOptions")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("category") == "mode" and isinstance(option.get("id"), str):
            modes = tuple(_iterate_modes(option.get("options"), "value"))
            if modes:
                return ModeOffer(modes=modes, current=str(option.get("currentValue") or ""), option=option["id"])
    return None


def _iterate_modes(raw_entries: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield id and name of every mode; configuration options may be nested in groups."""
    entries: Sequence[Any] = raw_entries if isinstance(raw_entries, list) else ()
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            yield entry[key], str(entry.get("name") or "")
        elif isinstance(entry, dict) and "options" in entry:
            yield from _iterate_modes(entry["options"], key)


def _simplify(name: str) -> str:
    """Return a name as the table spells it. Some agents use URLs as ids, whose last part is the name."""
    return _NO_WORD.sub("", name.rpartition("#")[2].lower())
