"""Subagents that the model of a session gives tasks to: several at once, and what each changed is merged when it is
done. One that did not finish keeps what it has, and can be resumed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.budget import SubagentLimits
from core.agent.base.call_lease import CallLease
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.turn_context import TurnContext
from core.engine.session.session import Session
from core.engine.subagents.agent_types import SMALL_MODELS, AgentType, find_agent_type, load_agent_types
from core.engine.subagents.browser import TOOLS, open_browser
from core.engine.subagents.grants import is_granted_below
from core.engine.subagents.merging import merge_subagent
from core.engine.subagents.runner import SubagentEnd, choose_model
from core.engine.subagents.sessions import create_subagent_session, open_subagent_session, prune_subagent_sessions
from core.engine.subagents.task_runner import TaskRunner
from core.errors import AgentTuiError, StateError, ToolFailed, ToolInputInvalid
from core.modes import Access, Mode
from core.prompts import render
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.events import MessageAppended, Notice, SubagentMerged, ToolOutput
from core.protocol.review import Origin
from core.tools.base import SubagentReport, SubagentTask

MAX_DESCRIBED: Final = 12_000  # characters of descriptions that every session is told: some 3,000 tokens
FULL: Final = f"{MAX_SUBAGENTS} subagents are at work; it begins when one of them has ended."


class TaskAgents:
    """The subagents of one session. At most `MAX_SUBAGENTS` work at once; they are merged one after the other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(MAX_SUBAGENTS)
        self._merge_lock = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._running = 0

    def open(self, origin: Origin, lease: CallLease) -> TaskSpawner:
        """Open what one call of `task` may do."""
        return TaskSpawner(self, origin.call, lease)

    async def describe(self) -> str:
        """Describe to the model whom it can give tasks to."""
        context = self._session.context
        if context is None or context.dialect == "command":  # it has no tool to give one by
            return ""
        usable = [
            agent_type
            for agent_type in await self._list_types(context)
            if agent_type.description and not agent_type.refusals
        ]
        described_names, room = set[str](), MAX_DESCRIBED
        for agent_type in sorted(usable, key=lambda agent_type: bool(agent_type.path)):  # ours are always described
            room -= len(agent_type.description)
            if room >= 0:
                described_names.add(agent_type.name)
        descriptions = [
            f"{agent_type.name}: {escape_tags(agent_type.description)}"
            for agent_type in usable
            if agent_type.name in described_names
        ]
        others = [agent_type.name for agent_type in usable if agent_type.name not in described_names]
        return render(
            "agents", agents=descriptions, others=others, in_text=context.dialect == "tags", most=MAX_SUBAGENTS
        )

    async def _list_types(self, context: TurnContext) -> tuple[AgentType, ...]:
        check, browser = context.permissions.rule_check, context.settings.browser
        load = partial(load_agent_types, self._session.workspace, check, context.tools, browser)
        async with self._loading:  # whoever asks first goes on first
            return (await asyncio.to_thread(load)).types

    async def run(self, task: SubagentTask, call: str) -> SubagentReport:
        """Run a task to its end. Raises `ToolInputInvalid`, `ToolFailed`."""
        context = self._session.context
        if context is None:
            raise ToolFailed("No turn runs.")
        agent = find_agent_type(await self._list_types(context), task.agent)
        if not self._running:  # later one that is begun just now would be taken for one that nobody knows
            prune_subagent_sessions(self._session)
        if self._slots.locked():
            self._session.emit(ToolOutput(call=call, text=f"{FULL}\n"))
        self._running += 1
        try:
            async with self._slots:
                async with self._opening:  # they begin, and stand in the roster, in the order of the calls
                    child = await self._open_child(context, agent, task)
                return await self._run_child(context, child, agent, task, call)
        except StateError as problem:
            raise ToolFailed(problem.message, hint=problem.hint) from problem
        finally:
            self._running -= 1

    async def _run_child(
        self, context: TurnContext, child: Session, agent: AgentType, task: SubagentTask, call: str
    ) -> SubagentReport:
        keeps_effects = child.state.mode != "ask"
        grants = partial(is_granted_below, context, keeps_effects=keeps_effects)
        limits = SubagentLimits(
            parent_grants=grants, budget=context.budget, tools=agent.tools, denied=agent.denied, kind=agent.name
        )
        if agent.has_browser:
            child.outward[Access.EXTERNAL] = open_browser(child, context.settings.browser)
            limits = replace(limits, tools=(agent.tools or frozenset()) | {TOOLS})
        choose_model(child, self._find_model(task.model or agent.model), agent.effort)
        runner = TaskRunner(self._session, child, agent, task, limits, call)
        end = SubagentEnd(reason="interrupted")
        try:
            end = await runner.run()
            merge = await self._merge(runner) if end.reason == "done" else None
            return runner.build_report(end, merge)
        except AgentTuiError as problem:
            end = SubagentEnd(reason="failed", message=problem.format_with_hint())
            raise ToolFailed(f"The subagent could not go on: {problem.message}", hint=problem.hint) from problem
        finally:
            await runner.close(end)

    async def _merge(self, runner: TaskRunner) -> SubagentMerged:
        async with self._merge_lock:
            merge = merge_subagent(self._session, runner.child)
        if merge.conflicts:
            message = f"{runner.task.description}: it clashes with what is pending in {', '.join(merge.conflicts)}."
            self._session.emit(Notice(level="warning", message=message, hint="Settle it in the review (t)."))
        return merge

    def _find_model(self, name: str) -> str:
        """Return the id of the model that is meant, "" = that of the job."""
        if name.lower() in SMALL_MODELS:
            return self._session.settings.resolve_route("small").model
        return name if "/" in name else ""

    async def _open_child(self, context: TurnContext, agent: AgentType, task: SubagentTask) -> Session:
        session, rules = self._session, Mode(context.state.mode).rules
        if agent.has_browser and not rules.keeps_effects:
            raise ToolInputInvalid(f"{session.state.mode} mode has no browser: what it does can't be taken back.")
        is_looking = agent.readonly or (task.readonly and not agent.has_browser)
        mode = "agent" if rules.keeps_effects and not is_looking else "ask"
        if not task.resume:
            return await create_subagent_session(session, mode, max_steps=agent.max_steps)
        subagent_state = session.state.subagents.get(task.resume)
        is_free = subagent_state is not None and subagent_state.agent and subagent_state.id not in session.subagents
        subagent_session = open_subagent_session(session, task.resume) if is_free else None
        if subagent_state is None or subagent_session is None:
            resumable_ids = [
                subagent.id
                for subagent in session.state.subagents.values()
                if subagent.agent and subagent.id not in session.subagents
            ]
            hint = (
                f"Those of this session: {', '.join(resumable_ids[-5:])}."
                if resumable_ids
                else "Leave `resume` out for a new one."
            )
            raise ToolInputInvalid(f"There is no subagent {task.resume[:80]!r} that could go on.", hint=hint)
        if subagent_state.state != "merged":
            return subagent_session
        child = await create_subagent_session(session, mode, max_steps=agent.max_steps)
        for message in subagent_session.state.messages:
            child.emit(MessageAppended(message=message))
        session.subagents.pop(subagent_session.id, None)
        await subagent_session.close()
        return child


class TaskSpawner(Struct, frozen=True, eq=False):
    """SPAWN: gives one task to a subagent."""

    _agents: TaskAgents
    _call: str
    _lease: CallLease

    async def run(self, task: SubagentTask) -> SubagentReport:
        self._lease.check()
        return await self._agents.run(task, self._call)
