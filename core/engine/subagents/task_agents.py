"""Subagents that the model of a session gives tasks to: several run at once, and are merged when done.

One that did not finish keeps its work, and can be resumed.
"""

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
from core.agent.gate.call_results import describe_unfinished
from core.agent.turn.advice import ask_advisor
from core.attachments.preparation import PreparedAttachment
from core.engine.session.session import Session
from core.engine.subagents.browser import TOOLS, open_browser
from core.engine.subagents.runner import SubagentEnd, SubagentRunner, is_granted_to_subagent, set_model
from core.engine.subagents.sessions import (
    create_subagent_session,
    merge_subagent,
    open_subagent_session,
    prune_subagent_sessions,
)
from core.engine.turns.agent_types import SMALL_MODELS, AgentType, find_agent_type, load_agent_types
from core.errors import AgentTuiError, StateError, ToolFailed, ToolInputInvalid
from core.modes import Access, Mode
from core.prompts import render
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.events import MessageAppended, Notice, SubagentMerged, SubagentStarted, ToolOutput
from core.protocol.messages import ToolMessage
from core.protocol.review import Origin
from core.text.counting import count
from core.tools.base import Advice, SubagentReport, SubagentTask

MAX_PICTURES: Final = 3  # in a report
MAX_DESCRIBED: Final = 12_000  # characters of descriptions in every session's prompt: about 3,000 tokens
SLOTS_FULL: Final = f"{MAX_SUBAGENTS} subagents are running; this one starts when one of them ends."


class TaskRunner(SubagentRunner):
    """Runs one subagent at its task, for the tool call `call`.

    A resumed subagent is sent only the new prompt, since it knows its role already.
    """

    def __init__(
        self, parent: Session, child: Session, agent: AgentType, task: SubagentTask, limits: SubagentLimits, call: str
    ) -> None:
        self.agent = agent
        self.task = task
        start_event = SubagentStarted(id=child.id, title=task.description, agent=agent.name, call=call)
        super().__init__(parent, child, start_event, limits)

    async def work(self) -> SubagentEnd:
        self.reporter.repeat_questions()
        is_new = not self.child.state.messages
        instruction = render(
            "task_subagent", prompt=self.task.prompt, agent=self.agent, is_readonly=self.is_readonly, is_new=is_new
        )
        return await self.run_turn(self.task.description, instruction)

    @property
    def is_readonly(self) -> bool:
        """True if its changes are dropped."""
        return self.child.state.mode == "ask"

    def build_report(self, end: SubagentEnd, merge: SubagentMerged | None) -> SubagentReport:
        """Build the tool result: the subagent's last words, and the outcome of the merge."""
        last_words = self.reporter.last_words
        if end.reason != "done":
            reason = end.message or "it was stopped"
            subagent = self.parent.state.subagents[self.id]
            rest = describe_unfinished(subagent, reason, is_readonly=self.is_readonly)
            return SubagentReport(text="\n\n".join(filter(None, (last_words, rest))), summary=reason, has_failed=True)
        rows = [f"{self.agent.name} {self.id} is done."]
        if merge is not None and merge.paths:
            rows.append(f"Its changes are merged into yours: {', '.join(merge.paths)}.")
        if merge is not None and merge.conflicts:
            rows.append(f"They conflict in {', '.join(merge.conflicts)}: the user resolves that in the review.")
        if merge is not None and merge.generated:
            rows.append(f"{count('generated file', merge.generated)} came with them.")
        rows += merge.notes if merge is not None else ()
        summary = f"{count('file', len(merge.paths))} changed" if merge is not None and merge.paths else ""
        text = "\n\n".join(filter(None, (last_words or "It gave no answer.", f"[{' '.join(rows)}]")))
        pictures = list_pictures(self.child) if self.agent.has_browser else ()
        return SubagentReport(text=text, summary=summary or f"{self.reporter.calls} calls", attachments=pictures)


def list_pictures(child: Session) -> tuple[PreparedAttachment, ...]:
    """List the last pictures in a subagent's tool results."""
    brought = [
        attachment
        for message in child.state.messages
        if isinstance(message, ToolMessage)
        for attachment in message.attachments
    ]
    last = {attachment.digest: attachment for attachment in brought}.values()
    pictures = [attachment for attachment in last if attachment.media_type.startswith("image/")][-MAX_PICTURES:]
    return tuple(
        PreparedAttachment(attachment=attachment, data=child.shadow.blobs.get(attachment.digest))
        for attachment in pictures
    )


class TaskAgents:
    """The subagents of one session. At most `MAX_SUBAGENTS` work at once; they are merged one by one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(MAX_SUBAGENTS)
        self._merge_lock = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._running = 0

    def open(self, origin: Origin, lease: CallLease) -> TaskSpawner:
        """Open the capability of one call of `task`."""
        return TaskSpawner(self, origin.call, lease)

    async def describe(self) -> str:
        """Describe the available subagents to the model."""
        context = self._session.context
        if context is None or context.dialect == "command":  # the dialect has no tool for tasks
            return ""
        usable = [
            agent_type
            for agent_type in await self._list_types(context)
            if agent_type.description and not agent_type.refusals
        ]
        described_names, room = set[str](), MAX_DESCRIBED
        for agent_type in sorted(usable, key=lambda agent_type: bool(agent_type.path)):  # built-in ones come first
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
            "agents",
            agents=descriptions,
            others=others,
            in_text=context.dialect == "tags",
            is_short=context.memory.variants.is_short(context.routes.current.id),
            most=MAX_SUBAGENTS,
        )

    async def _list_types(self, context: TurnContext) -> tuple[AgentType, ...]:
        check, browser = context.permissions.rule_check, context.settings.browser
        load = partial(load_agent_types, self._session.workspace, check, context.tools, browser)
        async with self._loading:  # loads end in the order of the calls
            return (await asyncio.to_thread(load)).types

    async def run(self, task: SubagentTask, call: str) -> SubagentReport:
        """Run a task to its end. Raises `ToolInputInvalid`, `ToolFailed`."""
        context = self._session.context
        if context is None:
            raise ToolFailed("No turn runs.")
        agent = find_agent_type(await self._list_types(context), task.agent)
        if not self._running:  # otherwise a session that is just being created would be pruned
            prune_subagent_sessions(self._session)
        if self._slots.locked():
            self._session.emit(ToolOutput(call=call, text=f"{SLOTS_FULL}\n"))
        self._running += 1
        try:
            async with self._slots:
                async with self._opening:  # subagents start in the order of the calls
                    child = await self._open_child(context, agent, task)
                return await self._run_child(context, child, agent, task, call)
        except StateError as problem:
            raise ToolFailed(problem.message, hint=problem.hint) from problem
        finally:
            self._running -= 1

    async def consult(self, question: str) -> Advice:
        """Ask the advisor. Raises `ToolFailed`."""
        context = self._session.context
        if context is None:
            raise ToolFailed("No turn runs.")
        return await ask_advisor(context, question)

    async def _run_child(
        self, context: TurnContext, child: Session, agent: AgentType, task: SubagentTask, call: str
    ) -> SubagentReport:
        keeps_effects = child.state.mode != "ask"
        grants = partial(is_granted_to_subagent, context, keeps_effects=keeps_effects)
        limits = SubagentLimits(
            parent_grants=grants, budget=context.budget, tools=agent.tools, denied=agent.denied, kind=agent.name
        )
        if agent.has_browser:
            child.outward[Access.EXTERNAL] = open_browser(child, context.settings.browser)
            limits = replace(limits, tools=(agent.tools or frozenset()) | {TOOLS})
        set_model(child, self._find_model(task.model or agent.model), agent.effort)
        runner = TaskRunner(self._session, child, agent, task, limits, call)
        end = SubagentEnd(reason="interrupted")
        try:
            end = await runner.run()
            merge = await self._merge(runner) if end.reason == "done" else None
            return runner.build_report(end, merge)
        except AgentTuiError as problem:
            end = SubagentEnd(reason="failed", message=problem.format_with_hint())
            raise ToolFailed(f"The subagent could not continue: {problem.message}", hint=problem.hint) from problem
        finally:
            await runner.close(end)

    async def _merge(self, runner: TaskRunner) -> SubagentMerged:
        async with self._merge_lock:
            merge = merge_subagent(self._session, runner.child)
        if merge.conflicts:
            message = f"{runner.task.description}: it conflicts with pending changes in {', '.join(merge.conflicts)}."
            self._session.emit(Notice(level="warning", message=message, hint="Resolve it in the review (t)."))
        return merge

    def _find_model(self, name: str) -> str:
        """Resolve a model name to an id, "" = the model of the subagent route."""
        if name.lower() in SMALL_MODELS:
            return self._session.settings.resolve_route("small").model
        return name if "/" in name else ""

    async def _open_child(self, context: TurnContext, agent: AgentType, task: SubagentTask) -> Session:
        session, rules = self._session, Mode(context.state.mode).rules
        if agent.has_browser and not rules.keeps_effects:
            raise ToolInputInvalid(f"{session.state.mode} mode has no browser: its effects can't be undone.")
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
            raise ToolInputInvalid(f"There is no subagent {task.resume[:80]!r} that could continue.", hint=hint)
        if subagent_state.state != "merged":
            return subagent_session
        child = await create_subagent_session(session, mode, max_steps=agent.max_steps)
        for message in subagent_session.state.messages:
            child.emit(MessageAppended(message=message))
        session.subagents.pop(subagent_session.id, None)
        await subagent_session.close()
        return child


class TaskSpawner(Struct, frozen=True, eq=False):
    """SPAWN: runs one task in a subagent."""

    _agents: TaskAgents
    _call: str
    _lease: CallLease

    async def run(self, task: SubagentTask) -> SubagentReport:
        self._lease.check()
        return await self._agents.run(task, self._call)

    async def consult(self, question: str) -> Advice:
        self._lease.check()
        return await self._agents.consult(question)
