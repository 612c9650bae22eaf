"""The sources of a session besides its files: pending changes, branch, terminal, plans, earlier sessions and rules.

`find` only checks that a source exists, so it is fast enough while a prompt is typed; `render` reads its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from msgspec import Struct

from core.config.rules.loading import load_rule_files
from core.config.rules.rule import find_mentioned_rules
from core.errors import AgentTuiError, MentionRefused
from core.git.branch_diff import describe_branch, find_base, render_branch_diff
from core.git.repository import GitFailed
from core.permissions.trusted_files import TrustCheck
from core.plans.plan_store import PlanStore
from core.protocol.documents import TerminalCommandDocument
from core.protocol.events import CommandRan
from core.protocol.queries import ContextItem, ContextKind, SessionInfo
from core.protocol.review import ChangeDiff
from core.sandbox.results import describe_end
from core.sessions.listing import list_sessions, load_summary
from core.sessions.store import SessionStore
from core.shadow.shadow import Shadow
from core.state.session import SessionState
from core.text.counting import count
from core.text.lines import clip

AGENT_PREFIX: Final = "agent-"
MAX_OUTPUT: Final = 30_000  # characters of a command's output
MAX_PROMPTS: Final = 40  # of an earlier session
MAX_PROMPT: Final = 600  # characters
_SIGNS: Final = {"added": "+", "removed": "-", "context": " ", "gap": "…"}


async def list_no_agents() -> Sequence[str]:
    """List nothing: there are no subagents."""
    return ()


async def find_no_resource(server: str, uri: str) -> ContextItem | None:
    """Find nothing: there are no servers."""
    return None


class OpenSession(Struct, frozen=True, kw_only=True):
    """The sources of an open session. `may_show`: True for a path that the agent may read; `is_trusted_content`: checks
    the bytes of a file, None = the project is not trusted; `list_agents`: lists the kinds of subagents that can start;
    `look_up_resource`: finds a resource by its server and URI."""

    state: SessionState
    shadow: Shadow
    store: SessionStore
    plans: PlanStore
    may_show: Callable[[str], bool]
    is_trusted_content: TrustCheck | None = None
    list_agents: Callable[[], Awaitable[Sequence[str]]] = list_no_agents
    look_up_resource: Callable[[str, str], Awaitable[ContextItem | None]] = find_no_resource

    async def find(self, word: str, name: str) -> ContextItem:
        """Return the item of `@word` or `@word:name`. Raises `MentionRefused`."""
        match word:
            case "diff":
                return self._find_diff()
            case "branch":
                return await asyncio.to_thread(self._find_branch)
            case "terminal":
                return self._find_terminal()
            case "plan":
                return self._find_plan(name)
            case "session":
                return await asyncio.to_thread(self._find_session, name)
            case _:
                return await self._require(word, name)

    async def find_resource(self, server: str, uri: str) -> ContextItem | None:
        """Return a resource of an MCP server, None = no such server. Raises `MentionRefused`."""
        return await self.look_up_resource(server, uri)

    async def find_named(self, name: str) -> ContextItem | None:
        """Return the subagent of this name (after `agent-`), or the rule, whose text is sent with the other rules."""
        if name.startswith(AGENT_PREFIX) and (agent_item := await self._find_agent(name.removeprefix(AGENT_PREFIX))):
            return agent_item
        return await self._find_rule(name)

    async def _require(self, word: str, name: str) -> ContextItem:
        item = await (self._find_agent(name) if word == "agent" else self._find_rule(name))
        if item is not None:
            return item
        if word == "agent":
            message = f"there is no subagent {name!r}." if name else "name the subagent: @agent-NAME."
            raise MentionRefused(message, hint=f"There are: {', '.join(await self.list_agents())}.")
        message = f"there is no rule {name!r}." if name else "name the rule: @rule:NAME."
        raise MentionRefused(message, hint="/rules lists them.")

    async def _find_rule(self, name: str) -> ContextItem | None:
        files = await asyncio.to_thread(load_rule_files, self.shadow.workspace, self.is_trusted_content)
        return _item("rule", f"@{name} · rule", "a rule", name) if find_mentioned_rules(files, {name}) else None

    async def _find_agent(self, name: str) -> ContextItem | None:
        agent_names = {agent.lower(): agent for agent in await self.list_agents()}
        agent_name = agent_names.get(name.lower())
        return _item("agent", f"@agent-{agent_name} · subagent", "a subagent", agent_name) if agent_name else None

    async def render(self, item: ContextItem) -> str:
        """Return the text of an item for the model."""
        name, text = item.key.partition(":")[2], ""
        match item.kind:
            case "agent":
                text = f"The user wants the subagent `{name}` for this: give it the work with the tool `task`."
            case "diff":
                text = "\n".join(self._iterate_diff())
            case "branch":
                text = await asyncio.to_thread(self._render_branch)
            case "terminal":
                text = self._render_terminal()
            case "session":
                text = await asyncio.to_thread(self._render_session, name)
            case "plan":
                text = await asyncio.to_thread(self._render_plan, name)
        return text

    def _render_branch(self) -> str:
        try:
            return render_branch_diff(self.shadow.workspace.root, self.may_show)
        except GitFailed as failed:
            return f"(not available: {failed.message})"

    def _find_diff(self) -> ContextItem:
        if not self.state.changes:
            raise MentionRefused(
                "nothing is pending.", hint="@diff is your pending changes; @branch is what is committed."
            )
        return _item("diff", f"@diff · {count('file', len(self.state.changes))}", "what is pending")

    def _iterate_diff(self) -> Iterator[str]:
        for change in self.shadow.list_changes():
            if not self.may_show(change.path):
                continue
            with suppress(AgentTuiError):
                yield from _render_change(self.shadow.diff(change.path, 3), change.path)

    def _find_branch(self) -> ContextItem:
        if self.is_trusted_content is None:
            raise MentionRefused("git is used only in a project that you trust.")
        try:
            base = find_base(self.shadow.workspace.root)
        except (GitFailed, OSError) as failed:
            raise MentionRefused(str(failed)) from failed
        if base is None:
            raise MentionRefused("there is no main branch to compare with (main, master, develop, or origin's).")
        return _item("branch", f"@branch · {describe_branch(base)}", "what this branch changes")

    def _find_terminal(self) -> ContextItem:
        ran = self.state.last_run
        if ran is None:
            raise MentionRefused("no command has run in this session.", hint="Run one with !command.")
        return _item("terminal", f"@terminal · {_get_command(ran)[:40]}", "the output of the last command")

    def _render_terminal(self) -> str:
        match self.state.last_run:
            case CommandRan() as ran:
                end, output = describe_end(ran.exit_code, ran.ended), ran.output
            case TerminalCommandDocument(metadata=run) as document:
                end = "still running, or did not run" if run.exit_code is None else f"exit code {run.exit_code}"
                output = run.output or document.content or ""
            case None:
                return ""
        clipped_output = output if len(output) <= MAX_OUTPUT else f"…\n{output[-MAX_OUTPUT:]}"
        return f"$ {_get_command(self.state.last_run)}\n{clipped_output.rstrip()}\n({end})"

    def _find_plan(self, name: str) -> ContextItem:
        if not name:
            path = self.state.current_plan_path or self.state.todos_plan_path
            if not path:
                raise MentionRefused("there is no plan in this session.", hint="Name one: @plan:NAME.")
            return _build_plan_item(path)
        plan_paths = [plan.path for plan in self.plans.list_plans().plans]
        matches = [path for path in plan_paths if name.lower() in path.rpartition("/")[2].lower()]
        exact = [path for path in matches if path.rpartition("/")[2].removesuffix(".plan.md").lower() == name.lower()]
        if len(exact or matches) == 1:
            return _build_plan_item((exact or matches)[0])
        names = ", ".join(path.rpartition("/")[2].removesuffix(".plan.md") for path in (matches or plan_paths)[:6])
        problem = f"several plans are called {name!r}" if matches else f"there is no plan {name!r}"
        raise MentionRefused(f"{problem}.", hint=f"The plans are: {names}." if names else "There are no plans.")

    def _render_plan(self, path: str) -> str:
        try:
            return self.plans.read_text(path)
        except AgentTuiError as problem:
            return f"(it can't be read: {problem.message})"

    def _find_session(self, name: str) -> ContextItem:
        session_id = self.state.session_id
        others = [
            session for session in list_sessions(self.store, limit=50) if session.id != session_id and session.turns
        ]
        words = name.lower().replace("-", " ")
        sessions = [session for session in others if not name or session.id == name or words in session.title.lower()]
        if not sessions:
            raise MentionRefused(
                f"there is no session {name!r}." if name else "there is no earlier session.",
                hint="`agent-tui sessions` lists them." if others else "",
            )
        return _item(
            "session", f"@session · {sessions[0].title or sessions[0].id}", "an earlier session", sessions[0].id
        )

    def _render_session(self, name: str) -> str:
        directory = self.store.get_path(name)
        info = next((session for session in list_sessions(self.store, limit=200) if session.id == name), None)
        summary = load_summary(directory, growing=True)
        prompts = [prompt.text for prompt in summary.prompts] if summary is not None else []
        return "\n".join(_describe_session(info, prompts)) if info is not None else ""


def _item(kind: ContextKind, label: str, reason: str, name: str = "") -> ContextItem:
    return ContextItem(key=f"{kind}:{name}" if name else kind, kind=kind, label=label, reason=f"mentioned: {reason}")


def _build_plan_item(path: str) -> ContextItem:
    name = path.rpartition("/")[2].removesuffix(".plan.md")
    if path.startswith("/"):  # Files outside the project are not read by their paths.
        return _item("plan", f"@plan · {name}", "a plan", path)
    return ContextItem(key=f"file:{path}", kind="file", label=f"@plan · {name}", path=path, reason="mentioned: a plan")


def _get_command(ran: CommandRan | TerminalCommandDocument | None) -> str:
    match ran:
        case CommandRan(command=command):
            return command
        case TerminalCommandDocument(metadata=run):
            return run.command
        case None:
            return ""


def _render_change(change_diff: ChangeDiff | None, path: str) -> Iterator[str]:
    if change_diff is None:
        return
    yield f"--- {path} ({change_diff.change.operation}{', binary' if change_diff.change.binary else ''})"
    yield from (f"{_SIGNS[line.kind]}{line.text}" for line in change_diff.lines)
    if change_diff.truncated:
        yield "… there is more"


def _describe_session(info: SessionInfo, prompts: list[str]) -> Iterator[str]:
    updated = datetime.fromtimestamp(info.updated / 1000).astimezone()
    yield f"{info.title or info.id}: {count('turn', info.turns)}, {info.mode} mode, last on {updated:%Y-%m-%d %H:%M}"
    yield (
        f"{count('change', info.pending)} of it {'is' if info.pending == 1 else 'are'} pending review."
        if info.pending
        else "Nothing of it is pending."
    )
    yield "What the user asked, in order:"
    for number, prompt in enumerate(prompts[-MAX_PROMPTS:], max(len(prompts) - MAX_PROMPTS, 0) + 1):
        yield f"{number}. {clip(' '.join(prompt.split()), MAX_PROMPT)}"
