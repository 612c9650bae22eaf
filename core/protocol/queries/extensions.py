"""Extensions of the agent: skills, and the user's commands and snippets, with the reason for their state."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.base import Answer, Query
from core.protocol.tools import ToolRow

ExtensionScope = Literal["project", "user"]


class SkippedExtension(Struct, frozen=True, kw_only=True):
    """A file that makes no extension, with the reason."""

    path: str
    reason: str


class PromptCommand(Struct, frozen=True, kw_only=True):
    """A thing that `/name` calls in a prompt. `hint`: the words that it takes; `source`: the folder or the MCP server
    that it comes from."""

    name: str
    description: str
    kind: Literal["skill", "command", "prompt"]
    scope: ExtensionScope
    source: str
    path: str
    hint: str = ""
    problems: tuple[str, ...] = ()


class CommandsQuery(Query, frozen=True, kw_only=True, tag="commands"):
    """Everything that a prompt can call by name, beside the commands of the program itself."""


class CommandsAnswer(Answer, frozen=True, kw_only=True, tag="commands"):
    """`is_trusted` False: nothing of the project is among them."""

    commands: tuple[PromptCommand, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True


class Snippet(Struct, frozen=True, kw_only=True):
    """A text that `;name` puts into a prompt. `$0` in it is where the cursor goes."""

    name: str
    description: str
    text: str
    scope: ExtensionScope
    path: str
    problems: tuple[str, ...] = ()


class SnippetsQuery(Query, frozen=True, kw_only=True, tag="snippets"):
    """Every text that can be put into a prompt by name."""


class SnippetsAnswer(Answer, frozen=True, kw_only=True, tag="snippets"):
    """`is_trusted` False: none of the project's."""

    snippets: tuple[Snippet, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True


class CommandPreviewQuery(Query, frozen=True, kw_only=True, tag="command.preview"):
    """The prompt that `text` ("/name arguments") would send. Nothing runs for it."""

    text: str


class CommandPreviewAnswer(Answer, frozen=True, kw_only=True, tag="command.preview"):
    """`text`: with `!` before each of the `runs` that would put their output there when it is sent."""

    path: str
    text: str
    runs: tuple[str, ...] = ()


class LoadedSkill(Struct, frozen=True, kw_only=True):
    """A skill. `state`: the model is told its description, its name alone, or nothing, or has its text already;
    `reason` says why. `note`: what the user should know of it."""

    name: str
    description: str
    path: str
    scope: ExtensionScope
    source: str
    state: Literal["open", "offered", "named", "hidden"]
    reason: str
    note: str = ""


class SkillsQuery(Query, frozen=True, kw_only=True, tag="skills"):
    """Every skill of the user and the project, and why the model is told of it or not."""


class SkillsAnswer(Answer, frozen=True, kw_only=True, tag="skills"):
    """`is_trusted` False: none of the project's."""

    skills: tuple[LoadedSkill, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True


ServerState = Literal["unasked", "refused", "off", "idle", "starting", "running", "failed"]


class ServerToolRow(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server by its own name. `tokens`: that its description takes; `is_reading`: the server says that
    it changes nothing. `text`: what the model is told of it; one that `is_held` said otherwise `before` ("" = that is
    not known), and is off until it is switched on. `flags`: what is odd about its own words."""

    name: str
    description: str = ""
    tokens: int = 0
    is_on: bool = True
    is_reading: bool = False
    is_held: bool = False
    text: str = ""
    before: str = ""
    flags: tuple[str, ...] = ()


class ServerRow(Struct, frozen=True, kw_only=True):
    """An MCP server. `state`: `unasked` and `refused` have no yes of the user's, an `idle` one is started when it is
    wanted. `entry`: all that decides what it is, a thing a line, and `digest` its digest; `variables`: the names of
    those of the user's that it is given; `log`: the end of its standard error."""

    name: str
    source: str
    state: ServerState
    is_project: bool = False
    is_remote: bool = False
    problem: str = ""
    entry: str = ""
    digest: str = ""
    variables: tuple[str, ...] = ()
    tools: tuple[ServerToolRow, ...] = ()
    log: str = ""


class ServersQuery(Query, frozen=True, kw_only=True, tag="mcp"):
    """The MCP servers of a session. None is started for it."""


class ServersAnswer(Answer, frozen=True, kw_only=True, tag="mcp"):
    """`problems`: entries that make no server, a line each. `is_trusted` False: none of the project's."""

    servers: tuple[ServerRow, ...] = ()
    problems: tuple[str, ...] = ()
    is_trusted: bool = True


class LoadedAgent(Struct, frozen=True, kw_only=True):
    """A kind of subagent. `tools`: those that it has, None = all of the session's; `model`: "" = that of the session,
    which is also taken for `other_model`, the name of another agent's model that its file says ("" = none).
    `problem`: what of its file is not used; `refusal`: why it does not start, "" = it does. `path`: "" = built in."""

    name: str
    description: str
    source: str
    path: str = ""
    model: str = ""
    other_model: str = ""
    is_readonly: bool = False
    tools: tuple[str, ...] | None = None
    problem: str = ""
    refusal: str = ""


class AgentsQuery(Query, frozen=True, kw_only=True, tag="agents"):
    """Every kind of subagent that a task can be given to."""


class AgentsAnswer(Answer, frozen=True, kw_only=True, tag="agents"):
    """`is_trusted` False: none of the project's."""

    agents: tuple[LoadedAgent, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True


class ToolsQuery(Query, frozen=True, kw_only=True, tag="tools"):
    """The tools of a session as the next request would have them."""


class ToolsAnswer(Answer, frozen=True, kw_only=True, tag="tools"):
    """`mode`: the one that they are listed for."""

    tools: tuple[ToolRow, ...] = ()
    mode: str = ""
