"""Subagent definitions in the formats of several agents, read leniently and without silent omissions.

An unknown key is reported, and one that may restrict the subagent keeps it from starting: an author of `allowed-tools`
instead of `tools` must not get a subagent with every tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from core.config.rules.file_text import FrontMatter
from core.extensions.extension_files import (
    ExtensionFolder,
    ExtensionText,
    InvalidExtension,
    Scope,
    SkippedFile,
    collect_extensions,
    describe_unknown_key,
    get_line,
    looks_restricting,
    parse_bool,
    parse_names,
    read_name,
    split_known_keys,
)
from core.extensions.plugins import find_extension_folders
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck
from core.workspace import Workspace

MAX_DESCRIPTION: Final = 4_000  # characters; twice the longest in public collections
_KEYS: Final[Mapping[str, str]] = {
    "name": "name",
    "description": "description",
    "tools": "tools",
    "disallowedTools": "disallowed_tools",
    "model": "model",
    "effort": "effort",
    "readonly": "readonly",
    "is_background": "background",
    "background": "background",
    "maxTurns": "max_turns",
    "skills": "skills",
    "permissionMode": "permission_mode",
    "isolation": "isolation",
    "hooks": "hooks",
    "mcpServers": "mcp_servers",
    "memory": "memory",
    "initialPrompt": "initial_prompt",
    "argument-hint": "argument_hint",
}
_EFFORTS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh", "max"})
_UNUSED: Final = {
    "hooks": "its own hooks are not run",
    "mcp_servers": "its own MCP servers are not started; it has those of the session that its tools name",
    "memory": "it has no memory of its own",
    "initial_prompt": "`initialPrompt` is not used: the task is its prompt",
    "skills": "its `skills` are not preloaded: it opens skills of the session as needed",
}
_MODEL: Final = compile_lazily(r"(?P<id>[^\[\]]+)(?:\[(?P<options>[^\]]*)\])?")


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A user-defined subagent. `prompt` is its system prompt.

    `tools`: the tools that it may use, as the file names them ("Bash(git *)", "mcp__x__*"), None = all of its parent's;
    `disallowed_tools`: those that it may not use. `model`: as in the file, "" = its parent's. `readonly`: none of its
    changes are retained. `max_turns`: limit of model calls, 0 = none. `scope` and `source`: its origin. `problems`
    leave it usable; `refusals`, unresolved restrictions, do not.
    """

    name: str
    description: str
    prompt: str
    path: str
    scope: Scope
    source: str
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    readonly: bool = False
    background: bool = False
    max_turns: int = 0
    skills: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def can_start(self) -> bool:
        return not self.refusals


class AgentDefinitions(Struct, frozen=True, kw_only=True):
    """The definitions in order of precedence, and the skipped files with reasons."""

    agents: tuple[AgentDefinition, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()

    def find(self, name: str) -> AgentDefinition | None:
        return next((agent for agent in self.agents if agent.name == name), None)


def load_agent_definitions(workspace: Workspace, is_trusted: TrustCheck | None) -> AgentDefinitions:
    """Load the definitions of a workspace from the folders of `find_extension_folders`."""
    return load_agents(find_extension_folders(workspace, is_trusted).folders)


def load_agents(folders: Iterable[ExtensionFolder]) -> AgentDefinitions:
    """Load the definitions of these folders, strongest first."""
    agents, skipped_files = collect_extensions(
        "agent", folders, lambda folder: folder.list_files("agents", ".md"), read_agent
    )
    return AgentDefinitions(agents=agents, skipped=skipped_files)


def read_agent(folder: ExtensionFolder, path: str) -> AgentDefinition:
    """Read one definition. Raises `InvalidExtension`, `PathRefused`."""
    text = folder.read_text(path)
    display_path = folder.show(path)
    stem = display_path.rpartition("/")[2].removesuffix(".md")
    reader = _Reader(text)
    name = read_name(get_line(reader.values, "name") or stem, reader.problems)
    return AgentDefinition(
        name=folder.qualify(name),
        description=reader.read_description(),
        prompt=text.body,
        path=display_path,
        scope=folder.scope,
        source=folder.plugin or folder.word,
        tools=reader.read_tools(),
        disallowed_tools=reader.read_listed("disallowed_tools"),
        **reader.read_model(),
        readonly=reader.read_readonly(),
        background=reader.read_background(),
        max_turns=reader.read_max_turns(),
        skills=parse_names(reader.values, "skills"),
        problems=(*text.notes, *reader.problems),
        refusals=tuple(reader.refusals),
    )


class _Reader:
    """The values of one file. It collects their faults in `problems` and `refusals`."""

    def __init__(self, text: ExtensionText) -> None:
        if not text.front:
            raise InvalidExtension(text.notes[-1] if text.notes else "its front matter has no name and description")
        if not text.body:
            raise InvalidExtension("it has no text below its front matter, which would be the subagent's prompt")
        self.problems: list[str] = []
        self.refusals: list[str] = []
        self.values: FrontMatter
        self.values, unknown = split_known_keys(text.front, _KEYS)
        for key in unknown:
            problem = describe_unknown_key(key, _KEYS)
            target = self.refusals if looks_restricting(key) else self.problems
            target.append(
                f"{problem}, and it may narrow what the subagent can do" if target is self.refusals else problem
            )
        self.problems += [note for key, note in _UNUSED.items() if key in self.values]

    def read_description(self) -> str:
        description = get_line(self.values, "description")
        if not description:
            self.problems.append("it has no description, so the agent does not see it: only you can call it")
        elif len(description) > MAX_DESCRIPTION:
            self.problems.append(f"its description is cut after {MAX_DESCRIPTION:,} characters")
        return description[:MAX_DESCRIPTION]

    def read_tools(self) -> tuple[str, ...] | None:
        value = self.values.get("tools")
        if value is None:
            return None
        names = parse_names(self.values, "tools")
        if not names and value != "[]":
            self.refusals.append("`tools` is empty: remove the line for all tools, or write [] for none")
        return None if names == ("*",) or [name.lower() for name in names] == ["all"] else names

    def read_listed(self, key: str) -> tuple[str, ...]:
        names = parse_names(self.values, key)
        if key in self.values and not names and self.values[key] != "[]":
            self.refusals.append("`disallowedTools` is empty")
        return names

    def read_model(self) -> dict[str, str]:
        text = get_line(self.values, "model")
        effort = get_line(self.values, "effort").lower()
        match = _MODEL.fullmatch(text)
        model = match["id"].strip() if match else text
        for option in (match["options"] or "").split(",") if match else ():
            name, _, value = option.partition("=")
            if name.strip() == "effort":
                effort = effort or value.strip().lower()
        if effort and effort not in _EFFORTS:
            self.problems.append(f"{effort!r} is not an effort level: {', '.join(sorted(_EFFORTS))}")
            effort = ""
        return {"model": "" if model.lower() in {"inherit", "auto", "default"} else model, "effort": effort}

    def read_readonly(self) -> bool:
        readonly = self.read_flag("readonly", self.refusals)
        mode = get_line(self.values, "permission_mode")
        if mode and mode not in {"plan", "default"}:
            self.problems.append(
                f"`permissionMode: {mode}` is ignored: a subagent has at most its parent's permissions"
            )
        return readonly or mode == "plan"

    def read_flag(self, key: str, problems: list[str]) -> bool:
        if key not in self.values:
            return False
        flag = parse_bool(self.values[key])
        if flag is None:
            problems.append(f"`{key}` is neither true nor false")
        return bool(flag)

    def read_background(self) -> bool:
        is_wanted = self.read_flag("background", self.problems)
        if is_wanted:
            self.problems.append("it does not run in the background: the caller waits for its report")
        return is_wanted

    def read_max_turns(self) -> int:
        if "max_turns" not in self.values:
            return 0
        text = get_line(self.values, "max_turns")
        if not text.isdecimal() or not int(text):
            self.refusals.append(f"`maxTurns` is not a number: {text[:40]!r}")
            return 0
        return int(text)
