"""A session as a trajectory: the steps of the conversation as the model saw it, read from the log.

The records are those of the Agent Trajectory Interchange Format (ATIF v1.8), whose readers refuse every other field.
What that format has no place for, the verdicts on hunks and the checks above all, is in `extra`. The session is not
resumed, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from core import __version__
from core.agent.context.prefix import PREFIX_FILE, Prefix
from core.engine.export.record import read_records
from core.errors import StateError
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, Attachment, Message, ToolCall, ToolMessage, Usage, UserMessage
from core.records import decode_json
from core.sessions.log import SessionLog
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import Branch, SessionState

SCHEMA: Final = "ATIF-v1.8"
Extra = dict[str, Any]


class Metrics(Struct, kw_only=True, omit_defaults=True):
    """The usage of a model call. `prompt_tokens` includes the cached ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: Extra | None = None


class TrajectoryCall(Struct, kw_only=True, omit_defaults=True):
    """A call of a tool, with the arguments as an object."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class SubagentReference(Struct, kw_only=True, omit_defaults=True):
    """A reference to an embedded trajectory, by its `trajectory_id`."""

    trajectory_id: str
    session_id: str | None = None
    extra: Extra | None = None


class Result(Struct, kw_only=True, omit_defaults=True):
    """The result of a call of the same step, or of no call."""

    source_call_id: str | None = None
    content: str | None = None
    subagent_trajectory_ref: list[SubagentReference] | None = None
    extra: Extra | None = None


class Observation(Struct, kw_only=True):
    """The results of a step."""

    results: list[Result]


class Step(Struct, kw_only=True, omit_defaults=True):
    """A message of the user or the program, or an answer of the model with the results of its calls."""

    step_id: int = 0
    source: Literal["system", "user", "agent"]
    message: str
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_effort: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[TrajectoryCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: Extra | None = None

    def add_result(self, result: Result) -> None:
        """Append a result."""
        if self.observation is None:
            self.observation = Observation(results=[])
        self.observation.results.append(result)


class Agent(Struct, kw_only=True, omit_defaults=True):
    """The program, and the tools that its model was offered."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra | None = None


class FinalMetrics(Struct, kw_only=True, omit_defaults=True):
    """The usage of all models for all jobs, subagents included."""

    total_prompt_tokens: int
    total_completion_tokens: int
    total_cached_tokens: int
    total_steps: int
    total_cost_usd: float | None = None
    extra: Extra | None = None


class Trajectory(Struct, kw_only=True, omit_defaults=True):
    """A session, or the session of a subagent within that of its parent."""

    schema_version: str
    session_id: str
    trajectory_id: str
    agent: Agent
    steps: list[Step]
    final_metrics: FinalMetrics
    notes: str | None = None
    extra: Extra | None = None
    subagent_trajectories: list[Trajectory] | None = None


class _CallFacts(Struct):
    """The facts about one call that are events of their own. `inner`: the calls that its program made."""

    finished: ev.ToolFinished | None = None
    check: ev.CheckRecorded | None = None
    effects: ev.EffectsRecorded | None = None
    inner: list[Extra] = field(default_factory=list)

    def build_extra(self) -> Extra | None:
        """Return them as plain data; None = there are none."""
        extra: Extra = {}
        if (finished := self.finished) is not None:
            extra |= {"status": finished.status, "duration_ms": finished.duration_ms, "summary": finished.summary}
        if self.check is not None:
            extra["check"] = msgspec.to_builtins(self.check.check)
        if (effects := self.effects) is not None:
            names = ("created", "edited", "deleted", "generated", "notes", "discarded", "on_machine")
            extra["effects"] = {name: value for name in names if (value := getattr(effects, name))}
        if self.inner:
            extra["calls"] = self.inner
        return extra or None


class StepReader(Struct, eq=False):
    """Folds a log into steps. `branch` has the numbers of those that count, as the others were rewound; `tips` are its
    ends at every checkpoint. `inner`: running calls of programs; `answer`: that of the current step; `hosted`:
    documents of the current turn."""

    state: SessionState
    steps: list[Step] = field(default_factory=list)
    branch: Branch = field(default_factory=Branch)
    tips: dict[str, int] = field(default_factory=dict)
    calls: dict[str, Step] = field(default_factory=dict)
    facts: dict[str, _CallFacts] = field(default_factory=dict)
    inner: dict[str, ev.ToolRequested] = field(default_factory=dict)
    subagents: dict[str, Step] = field(default_factory=dict)
    answer: Step | None = None
    effort: str = ""
    hosted: list[d.Document] = field(default_factory=list)

    def apply(self, envelope: ev.Envelope) -> None:
        """Take in a record."""
        match envelope.event:
            case ev.MessageAppended(message=message):
                self._add_message(envelope, message)
            case ev.StepStarted():
                self.answer = None
            case ev.StepFinished():
                self._finish_step(envelope, envelope.event)
            case ev.ContextCompacted():
                self._add_compaction(envelope, envelope.event)
            case ev.SessionForked():
                for step in self.steps:
                    step.is_copied_context = True
            case ev.CheckpointCreated(id=checkpoint):
                self.tips[checkpoint] = self.branch.tip
            case ev.ConversationRewound(checkpoint=checkpoint) if checkpoint in self.tips:
                self.branch.tip = self.tips[checkpoint]
            case _:
                self._apply_fact(envelope)
        apply_event(self.state, envelope, SHARED_STEPS)

    def _apply_fact(self, envelope: ev.Envelope) -> None:
        match envelope.event:
            case ev.ToolRequested(call=call, parent=parent) as requested if parent:
                self.inner[call] = requested
            case ev.ToolFinished(call=call) as finished:
                self._get_facts(call).finished = finished
                self._add_inner(finished)
            case ev.CheckRecorded(check=check) as recorded:
                self._get_facts(check.call).check = recorded
            case ev.EffectsRecorded(call=call) as effects:
                self._get_facts(call).effects = effects
            case ev.RouteTaken(effort=effort) | ev.EffortChanged(effort=effort):
                self.effort = effort
            case ev.SubagentStarted() as started:
                self._add_subagent(envelope, started)
            case ev.TurnStarted():
                self.answer, self.hosted = None, []
            case ev.DocumentFinished(document=document):
                self.hosted.append(document)
            case ev.TurnFinished() as finished:
                self._finish_turn(envelope, finished)
            case _:
                pass

    def _add_inner(self, finished: ev.ToolFinished) -> None:
        """Add a call to the facts about the call whose program made it."""
        if (requested := self.inner.pop(finished.call, None)) is not None:
            facts = {"tool": finished.tool, "arguments": requested.arguments, "status": finished.status}
            self._get_facts(requested.parent).inner.append(facts)

    def _get_facts(self, call: str) -> _CallFacts:
        return self.facts.setdefault(call, _CallFacts())

    def _add_step(self, envelope: ev.Envelope, step: Step) -> Step:
        step.timestamp = datetime.fromtimestamp(envelope.at / 1000, UTC).isoformat(timespec="milliseconds")
        self.steps.append(step)
        self.branch.add(len(self.steps))
        return step

    def _add_message(self, envelope: ev.Envelope, message: Message) -> None:
        match message:
            case UserMessage(content=content, origin=origin):
                extra: Extra = {} if origin == "user" else {"origin": origin}
                extra |= _list_attachments(message.attachments)
                source: Literal["user", "system"] = "user" if origin == "user" else "system"
                self._add_step(envelope, Step(source=source, message=content, extra=extra or None))
            case AssistantMessage():
                self.answer = self._add_step(envelope, _build_answer(message, self.effort))
                self.calls |= {call.id: self.answer for call in message.tool_calls}
            case ToolMessage(call_id=call, content=content):
                extra = {"is_error": True} if message.is_error else {}
                extra |= _list_attachments(message.attachments)
                known_step = self.calls.get(call)
                step = known_step or self._add_step(envelope, Step(source="system", message=""))
                source_call = call if known_step is not None else None
                step.add_result(Result(source_call_id=source_call, content=content, extra=extra or None))

    def _finish_step(self, envelope: ev.Envelope, event: ev.StepFinished) -> None:
        """Give the answer its usage; a step without an answer was paid for all the same."""
        if self.answer is None and event.usage == Usage():
            return
        step = self.answer or self._add_step(envelope, Step(source="agent", message="", extra={"answer": "none"}))
        step.model_name = step.model_name or event.model or None
        step.metrics, step.llm_call_count = build_metrics(event.usage), 1

    def _add_compaction(self, envelope: ev.Envelope, event: ev.ContextCompacted) -> None:
        known_texts = {step.message for step in self.steps}
        notes = [
            message.content
            for message in event.messages
            if isinstance(message, UserMessage) and message.origin != "user" and message.content not in known_texts
        ]
        tokens = {"before_tokens": event.before_tokens, "after_tokens": event.after_tokens}
        text = "\n\n".join(notes) or "The conversation so far was shortened."
        self._add_step(envelope, Step(source="system", message=text, extra={"compaction": tokens}))

    def _add_subagent(self, envelope: ev.Envelope, event: ev.SubagentStarted) -> None:
        if event.call in self.calls:
            self.subagents[event.id] = self.calls[event.call]
        elif event.id not in self.subagents:
            text = f"Subagent started: {event.title or event.todo or event.id}"
            self.subagents[event.id] = self._add_step(envelope, Step(source="system", message=text))

    def _finish_turn(self, envelope: ev.Envelope, event: ev.TurnFinished) -> None:
        """Make steps of the documents of a hosted agent, which has a history of its own."""
        if self.answer is not None or event.steps or not self.hosted:
            return
        turn = self.state.turns[-1] if self.state.turns else None
        if turn is not None and not any(step.message == turn.prompt for step in self.steps):
            self._add_step(envelope, Step(source="user", message=turn.prompt))
        for document in self.hosted:
            if (step := _build_hosted_step(document)) is not None:
                step.model_name = turn.model if turn is not None else None
                self.answer = self._add_step(envelope, step)
        if self.answer is not None:
            self.answer.metrics = build_metrics(event.usage)

    def list_steps(self) -> list[Step]:
        """Return the steps of the branch, with what is known of their calls."""
        steps = [self.steps[number - 1] for number in self.branch.list_records()]
        for step in steps:
            for call in step.tool_calls or ():
                facts = self.facts.get(call.tool_call_id)
                extra = facts.build_extra() if facts is not None else None
                call.extra = {**(call.extra or {}), **(extra or {})} or None
        return steps


def build_metrics(usage: Usage) -> Metrics:
    """Return the usage of a model call."""
    extra = {name: count for name in ("reasoning_tokens", "cache_write_tokens") if (count := getattr(usage, name))}
    return Metrics(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost,
        extra=extra or None,
    )


def _list_attachments(attachments: Sequence[Attachment]) -> Extra:
    """Name the pictures and PDFs of a message; a trajectory is one file, so their bytes are left out."""
    return {"attachments": [msgspec.to_builtins(attachment) for attachment in attachments]} if attachments else {}


def _build_answer(message: AssistantMessage, effort: str) -> Step:
    reasoning = "\n\n".join(block.text for block in message.reasoning if block.text)
    extra: Extra = {"interrupted": True} if message.interrupted else {}
    if message.dialect:
        extra["dialect"] = message.dialect
    return Step(
        source="agent",
        message=message.content,
        model_name=message.model or None,
        reasoning_effort=effort or None,
        reasoning_content=reasoning or None,
        tool_calls=[_build_call(call) for call in message.tool_calls] or None,
        extra=extra or None,
    )


def _build_call(call: ToolCall) -> TrajectoryCall:
    """Return a call; arguments that are no JSON object are kept as a text."""
    try:
        arguments = decode_json(call.arguments)
    except msgspec.MsgspecError:
        arguments = None
    if isinstance(arguments, dict):
        return TrajectoryCall(tool_call_id=call.id, function_name=call.name, arguments=arguments)
    malformed = {"malformed": True}
    return TrajectoryCall(
        tool_call_id=call.id, function_name=call.name, arguments={"text": call.arguments}, extra=malformed
    )


def _build_hosted_step(document: d.Document) -> Step | None:
    """Return a document of a hosted agent as a step; None = it is neither text nor a call."""
    match document:
        case d.TextDocument(content=text) if text:
            return Step(source="agent", message=text)
        case d.FileEditDocument() | d.TerminalCommandDocument() | d.ToolCallDocument():
            facts = msgspec.to_builtins(document.metadata)
            name = facts.get("toolName") or facts.get("tool_name") or document.__struct_config__.tag
            call = str(facts.get("toolCallId") or document.id)
            output = facts.pop("output", None)
            step = Step(source="agent", message="", tool_calls=[])
            step.tool_calls = [TrajectoryCall(tool_call_id=call, function_name=str(name), arguments=facts)]
            step.add_result(Result(source_call_id=call, content=output or document.content))
            return step
        case _:
            return None


def read_trajectory(directory: Path, log: SessionLog | None = None, session_id: str = "") -> Trajectory:
    """Read the session in a directory, or from its open log, with its subagents. Raises `StateError`."""
    reader = StepReader(SessionState(session_id=directory.name))
    read_records(directory, log, reader.apply)
    children = list(_read_subagents(directory, reader, session_id or directory.name))
    prefix, steps = _load_prefix(directory), reader.list_steps()
    if prefix is not None:
        steps.insert(0, Step(source="system", message=prefix.system))
    for number, step in enumerate(steps, 1):
        step.step_id = number
    if not steps:
        raise StateError("the session has no message yet, so there is no trajectory.", code="session_empty")
    return Trajectory(
        schema_version=SCHEMA,
        session_id=session_id or directory.name,
        trajectory_id=directory.name,
        agent=_build_agent(reader.state, prefix),
        steps=steps,
        final_metrics=_build_final_metrics(reader.state, len(steps)),
        extra=_describe_session(reader.state) or None,
        subagent_trajectories=children or None,
    )


def _read_subagents(directory: Path, reader: StepReader, session_id: str) -> Iterator[Trajectory]:
    """Yield the trajectories of the subagents, and refer to each where it was started."""
    for name, step in reader.subagents.items():
        try:
            trajectory = read_trajectory(directory / "children" / name, session_id=session_id)
        except StateError:  # its log is gone, or it never began
            continue
        state = reader.state.subagents.get(name)
        call = state.call if state is not None and reader.calls.get(state.call) is step else None
        reference = SubagentReference(trajectory_id=name, session_id=session_id)
        results = step.observation.results if step.observation is not None else []
        result = next((known for known in results if call and known.source_call_id == call), None)
        if result is None:
            result = Result(source_call_id=call, content=state.said if state is not None else None)
            step.add_result(result)
        result.subagent_trajectory_ref = [*(result.subagent_trajectory_ref or ()), reference]
        yield trajectory


def _load_prefix(directory: Path) -> Prefix | None:
    """Return system prompt and tools of the session; None = it sent no request yet."""
    try:
        return decode_json((directory / PREFIX_FILE).read_bytes(), Prefix)
    except (OSError, msgspec.MsgspecError):
        return None


def _build_agent(state: SessionState, prefix: Prefix | None) -> Agent:
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in (prefix.tools if prefix is not None else ())
    ]
    extra = {"mode": state.mode, "sandbox": state.tier}
    return Agent(
        name="agent-tui",
        version=__version__,
        model_name=state.model or None,
        tool_definitions=tools or None,
        extra={name: value for name, value in extra.items() if value},
    )


def _build_final_metrics(state: SessionState, steps: int) -> FinalMetrics:
    usage = state.model_choices.sum_usage()
    by_job = {name: msgspec.to_builtins(used) for name, used in state.model_choices.usage.items()}
    return FinalMetrics(
        total_prompt_tokens=usage.prompt_tokens,
        total_completion_tokens=usage.completion_tokens,
        total_cached_tokens=usage.cached_tokens,
        total_cost_usd=usage.cost,
        total_steps=steps,
        extra={"usage_by_job_and_model": by_job} if by_job else None,
    )


def _describe_session(state: SessionState) -> Extra:
    """Return how every turn ended, and the marks of the session."""
    turns = [
        {
            "mode": turn.mode,
            "model": turn.model,
            "stop_reason": turn.reason,
            "stop_message": turn.message,
            "model_calls": turn.steps,
            "tool_calls": turn.tool_count,
            "duration_ms": turn.duration_ms,
        }
        for turn in state.turns
    ]
    marks = {"title": state.title, "branch": state.branch, "tags": list(state.tags), "turns": turns}
    return {name: value for name, value in marks.items() if value}
