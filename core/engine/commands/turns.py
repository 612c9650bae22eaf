"""Commands that start, steer and stop turns, those on the prompt, and replies to approvals and questions.

A reply resolves the waiting turn. A late answer is recorded first, so that the model has it in any case, and then
starts another turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from core.agent.context.history_parts import list_history_parts
from core.agent.context.token_meter import TokenMeter
from core.agent.context.turn_context import PROMPTED, TurnOrigin
from core.agent.mentions.sources import PromptSurroundings
from core.config.settings import narrow_tool
from core.engine.commands.attachments import check_labels_accepted, check_pictures_accepted
from core.engine.commands.findings import parse_review, prepare_review
from core.engine.session.opening import record_branch
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.asides import answer_aside
from core.engine.turns.goals import build_goal
from core.engine.turns.lifecycle import ask_model, compact_history, reserve_turn, start_turn, warm_on_return
from core.engine.turns.project_survey import parse_init, render_init
from core.engine.turns.prompt_commands import ExpandedPrompt, calls_server, expand_prompt, find_called
from core.engine.turns.prompt_sources import find_prompt_items, list_open_items, render_steer_context
from core.errors import CommandRejected
from core.ids import new_id
from core.patterns import compile_lazily
from core.permissions.policy import check_pattern
from core.protocol import commands as cmd
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import ContextDropped, DraftKept, GoalEnded, Notice, QuestionAnswered, QuestionAsked
from core.protocol.queries import ContextItem
from core.protocol.tools import OTHER_TOOLS, ToolSettings
from core.providers.base import AnswerForm
from core.providers.hosted_agents import HostedAgentProvider
from core.state.goals import find_accepted_goal
from core.tools.toolset import Toolset

MAX_TEXT: Final = 4_000_000  # characters
_BISECT: Final = compile_lazily(r"/bisect(?:\s+(?P<command>.+))?")
LOOK_AGAIN: Final = "Look at /context again: it has changed."
HUMAN_POLICY: Final = "you run the commands here (policy `human`), so no model is asked."
HUMAN_POLICY_HINT: Final = "Send it as `!command`, ask the agent with `?question`, or let it work with /policy confirm."
MAX_ANSWER = 100_000  # characters of a free-text answer
_LATE_ANSWER_INSTRUCTION = "I have answered your earlier question. Continue with that."


async def prepare_submit(session: Session, command: cmd.TurnSubmit, origin: TurnOrigin = PROMPTED) -> Effect:
    """Check a prompt. `origin`: what sends it."""
    if session.settings.commands.policy == "human" and not command.anyway:
        raise CommandRejected(HUMAN_POLICY, hint=HUMAN_POLICY_HINT, code="typed_by_user")
    _check_tools(session, command)
    text = await check_prompt(session, command, "prompt")
    expanded_prompt = await expand_prompt(session, command.text)
    if expanded_prompt is None and (target := parse_review(text)) is not None:
        return await prepare_review(session, text, target)
    if expanded_prompt is None and (check := parse_bisect(text)) is not None:
        return await _prepare_bisect(session, text, check)
    items = await _find_items(session, command, text, expanded_prompt)
    items += await list_open_items(session, command, items) if command.shows_open else ()
    await check_pictures_accepted(session, items)
    surroundings = PromptSurroundings(
        open_files=command.open_files,
        viewing=command.viewing,
        items=items,
        rules=command.rules,
        layout=command.layout,
        edit_history=command.edit_history,
        earlier=command.earlier,
        wants_plan=command.wants_plan,
    )
    goal = build_goal(command)
    instruction = await _render_instruction(session, text, text.removesuffix(command.text), expanded_prompt)
    await reserve_turn(session)
    form = AnswerForm(command.answer_schema, command.answer_only) if command.answer_schema else None
    ask = partial(ask_model, prompt=text, surroundings=surroundings, instruction=instruction, answer=form)

    def start() -> None:
        record_branch(session)
        session.call_permissions.requested_tools = resolve_tool_names(session.tools, command.available_tools)
        if goal is not None:
            session.emit_outside_turn(goal)
        if expanded_prompt is not None and expanded_prompt.opened is not None:
            session.emit_outside_turn(expanded_prompt.opened)
        start_turn(session, ask, text, origin)

    return start


def parse_bisect(prompt: str) -> str | None:
    """Return the check of a `/bisect` prompt, "" = the session's; None: it is another prompt."""
    match = _BISECT.fullmatch(prompt.strip())
    return (match["command"] or "") if match else None


async def _prepare_bisect(session: Session, prompt: str, check: str) -> Effect:
    """Look for the call that broke a check, in a turn without a model."""
    from core.engine.turns.bisection import bisect, prepare_bisection

    command, history = await prepare_bisection(session, check)
    await reserve_turn(session)
    return lambda: start_turn(session, partial(bisect, session, command, history, prompt), prompt)


def resolve_tool_names(tools: Toolset, limits: Mapping[str, ToolSettings]) -> dict[str, ToolSettings]:
    """Return the limits by the tools' own names. A tool that is named twice is limited by both."""
    resolved = dict[str, ToolSettings]()
    for name, settings in limits.items():
        own_name = tools.resolve_name(name)
        resolved[own_name] = narrow_tool(resolved[own_name], settings) if own_name in resolved else settings
    return resolved


def _check_tools(session: Session, command: cmd.TurnSubmit) -> None:
    tool_names = {session.tools.resolve_name(name): name for name in command.available_tools if name != OTHER_TOOLS}
    if unknown := session.tools.explain_unknown(tool_names):
        raise CommandRejected(unknown[0], code="tool_unknown")


async def _find_items(
    session: Session, command: cmd.TurnSubmit, text: str, expanded_prompt: ExpandedPrompt | None
) -> tuple[ContextItem, ...]:
    """Return the context items of a prompt; of an expanded one, those in its file's text and arguments."""
    if expanded_prompt is None:
        return await find_prompt_items(session, command, text)
    return await find_prompt_items(
        session, replace(command, text=expanded_prompt.words, pasted=()), expanded_prompt.words
    )


async def _render_instruction(session: Session, text: str, labels: str, expanded_prompt: ExpandedPrompt | None) -> str:
    """Render the instruction that replaces a prompt, "" = none. `labels`: attachment labels at its start."""
    if expanded_prompt is not None:
        return f"{labels}{expanded_prompt.text}"
    wish = parse_init(text)
    return "" if wish is None else await render_init(session, wish)


def prepare_goal_stop(session: Session, _: cmd.GoalStop) -> Effect:
    """End the goal of the session."""
    goal = session.state.goal
    if goal is None or goal.reason:
        raise CommandRejected("there is no goal.", hint="/goal CONDITION sets one.", code="no_goal")
    return lambda: session.emit_outside_turn(GoalEnded(reason="stopped", message="You stopped the goal."))


async def prepare_aside(session: Session, command: cmd.AsideAsk) -> Effect:
    """Check a side question; its answer comes beside turns and effects. Raises `CommandRejected`, and the errors of the
    model's route."""
    check_text(command.text, "question")
    if command.id in session.asides:
        raise CommandRejected("this question is being answered.", code="aside_running")
    route = await asyncio.to_thread(session.routes.open)
    if isinstance(route.provider, HostedAgentProvider):
        raise CommandRejected(
            f"{route.id} is an agent of its own, which takes no questions beside its work.",
            hint="Send it as a prompt, or choose a model.",
            code="aside_unsupported",
        )
    work = partial(answer_aside, session, command.id or new_id("aside"), command.text.strip())
    return partial(session.tasks.run_in_parallel, work, name="side question")


def prepare_aside_stop(session: Session, command: cmd.AsideStop) -> Effect:
    if (task := session.asides.get(command.id)) is None:
        raise CommandRejected("no side question of this id is being answered.", code="aside_unknown")
    return task.cancel


async def prepare_steer(session: Session, command: cmd.TurnSteer) -> Effect:
    text = await check_prompt(session, command, "message")
    _check_can_steer(session)
    if calls_server(command.text) or await find_called(session, command.text):
        raise CommandRejected(
            "a command needs a turn for itself.", hint="Send it when this one has ended.", code="command_steered"
        )
    items = await find_prompt_items(session, command, text)
    await check_pictures_accepted(session, items)
    steer_context = await render_steer_context(session, items)
    _check_can_steer(session)  # it may have ended meanwhile

    def steer() -> None:
        identity = new_id("steer")
        if session.memory is not None and items:
            session.memory.steer_context[identity] = steer_context
        session.steer(text, identity)

    return steer


def _check_can_steer(session: Session) -> None:
    _check_turn_running(session)
    if session.turn_slot.is_stopping:
        raise CommandRejected("the turn is being stopped.", hint="Send it as a prompt.", code="turn_stopping")


def prepare_unsteer(session: Session, command: cmd.TurnUnsteer) -> Effect:
    """Return messages to the user that no model was sent yet."""
    waiting = session.state.pending_steers
    if not (waiting.keys() & set(command.ids) if command.ids else waiting):
        raise CommandRejected("nothing is waiting: the model has received all messages.", code="nothing_queued")
    return partial(session.return_steers, command.ids)


def prepare_cache_warming(session: Session, _: cmd.ContextWarm) -> Effect:
    return lambda: warm_on_return(session)


def prepare_draft(session: Session, command: cmd.DraftKeep) -> Effect:
    """Save the draft of the prompt if it has changed."""

    def save() -> None:
        if command.text != session.state.draft:
            session.emit_outside_turn(DraftKept(text=command.text))

    return save


def prepare_interrupt(session: Session, _: cmd.TurnInterrupt) -> Effect:
    """Interrupt the turn; if none runs, stop the user's commands."""
    if not session.turn_slot.is_running and session.tasks.has_running_commands:
        return session.tasks.stop_commands
    _check_turn_running(session)
    session.turn_slot.is_stopping = True
    return session.turn_slot.interrupt


async def prepare_compaction(session: Session, _: cmd.ContextCompact) -> Effect:
    """Replace the history by a summary, in the session's turn."""
    if not session.state.messages:
        raise CommandRejected("there is nothing to compact yet.", code="nothing_to_compact")
    await reserve_turn(session)
    return partial(start_turn, session, compact_history, None)


def prepare_context_drop(session: Session, command: cmd.ContextDrop) -> Effect:
    """Exclude a part of the history from later requests."""
    if session.turn_slot.is_running:
        raise CommandRejected("a turn is running.", hint="Wait until it ends, or stop it first.", code="turn_running")
    parts_by_id = {history_part.id: history_part for history_part in list_history_parts(session.state.messages)}
    part = parts_by_id.get(command.part)
    if part is None:
        raise CommandRejected("the conversation no longer has this part.", hint=LOOK_AGAIN, code="part_unknown")
    if part.problem:
        raise CommandRejected(f"{part.name} can't be left out: {part.problem}.", code="part_kept")

    def drop() -> None:
        memory = session.memory
        tokens = (memory.meter if memory is not None else TokenMeter()).estimate(part.size)
        note = f"(left out by the user: about {tokens:,} tokens)"
        session.emit_outside_turn(ContextDropped(name=part.name, spans=part.spans, note=note, tokens=tokens))
        if memory is not None:  # files in the part no longer count as read
            memory.read_digests.clear()
            memory.meter.reset()
        cache_hint = "The provider's cache is lost from there on; the next request is sent uncached once."
        session.emit_outside_turn(
            Notice(level="info", message=f"{part.name} is left out from now on.", hint=cache_hint)
        )

    return drop


async def check_prompt(session: Session, command: cmd.TurnSubmit | cmd.TurnSteer | cmd.BestRun, subject: str) -> str:
    """Return the text of a prompt, with missing attachment labels added at the start. Raises `CommandRejected` for an
    unknown label, an empty or too long text, and an attachment that the model does not accept."""
    attachments, text = session.state.attachments, command.text
    if unknown := [label for label in command.attachments if label not in attachments]:
        raise CommandRejected(
            f"there is no attachment {unknown[0]}.", hint="Attach it first.", code="attachment_unknown"
        )
    text = " ".join((*(label for label in command.attachments if label not in text), text))
    check_text(text, subject)
    if attachments:
        await check_labels_accepted(session, text)
    return text


def _check_turn_running(session: Session) -> None:
    if not session.turn_slot.is_running:
        raise CommandRejected("no turn is running.", code="no_turn")


def check_text(text: str, subject: str) -> None:
    """Raise `CommandRejected` for a text that is empty or too long; `subject` names it."""
    if not text.strip():
        raise CommandRejected(f"the {subject} is empty.", code="empty_text")
    if len(text) > MAX_TEXT:
        raise CommandRejected(
            f"the {subject} has {len(text):,} characters; at most {MAX_TEXT:,} can be sent.",
            hint="Put it in a file and name the file.",
            code="text_too_long",
        )


def prepare_approval(session: Session, command: cmd.ApprovalAnswer) -> Effect:
    """Check the decision on an approval, also of a subagent. Raises `CommandRejected`, `AgentTuiError` for a
    pattern."""
    _check_unanswered(session, command.id, "approval")
    request = session.state.approvals.get(command.id)
    asking = session.subagents.get(request.subagent, session) if request is not None else session
    if request is None or asking.context is None:
        raise CommandRejected(f"no approval {command.id!r} is waiting.", code="approval_unknown")
    if command.pattern:
        check_pattern(command.pattern, request.subject, "allow" if command.decision == "allow_always" else "deny")
    if command.decision not in request.options:
        raise CommandRejected(
            f"{command.decision!r} is not available here.",
            hint=f"Choose one of {', '.join(request.options)}.",
            code="decision_not_offered",
        )
    if command.by == "program" and not command.decision.startswith("reject"):
        raise CommandRejected("only the user can allow this.", code="decision_not_offered")
    session.user.answered.add(command.id)
    resolve = partial(asking.user.resolve_approval, answerer=command.by)
    return partial(resolve, command.id, command.decision, command.note, command.pattern)


def prepare_question_reply(session: Session, command: cmd.QuestionReply, *, begins: bool = True) -> Effect:
    """Check the answers to a question and return their effect. Raises `CommandRejected` if they do not fit it.
    `begins`: a late answer starts a turn; False for a subagent's question, since its build starts that turn."""
    _check_unanswered(session, command.id, "question")
    question_event = session.state.questions.get(command.id)
    if question_event is not None and question_event.subagent in session.subagents:
        return prepare_question_reply(session.subagents[question_event.subagent], command, begins=False)
    is_awaited = session.user.is_question_open(command.id)
    if question_event is None or not (question_event.lasting or is_awaited):
        raise CommandRejected(
            f"no question {command.id!r} is waiting.", hint="It was answered or dismissed.", code="question_unknown"
        )
    _check_answers(question_event, command.answers)
    if command.by == "program" and command.answers:
        raise _build_rejection("only the user can answer.", "Send no answers if nobody answered.")
    if command.answers and not is_awaited and not session.turn_slot.is_running:
        session.routes.open()  # raises if there is no model
    session.user.answered.add(command.id)
    answer_event = QuestionAnswered(id=question_event.id, answers=command.answers, by=command.by)
    surroundings = PromptSurroundings(wants_plan=command.wants_plan)
    return partial(_apply_answers, session, question_event, answer_event, surroundings if begins else None)


def _check_unanswered(session: Session, identity: str, kind: str) -> None:
    """Raise `CommandRejected` if another client has answered already."""
    if identity in session.user.answered:
        raise CommandRejected(
            f"this {kind} was answered already.", hint="The first answer counts.", code="already_answered"
        )


def _check_answers(question_event: QuestionAsked, answers: tuple[QuestionAnswer, ...]) -> None:
    """Raise `CommandRejected` unless the answers name parts of the question, once each, and have a valid length."""
    questions = {question.id: question for question in question_event.questions}
    for answer in answers:
        question = questions.get(answer.question)
        if question is None:
            raise _build_rejection(
                f"the question has no part {answer.question!r}.", f"Its parts are {', '.join(questions)}."
            )
        _check_options(question, answer.options)
        if not answer.options and not answer.text.strip():
            raise _build_rejection(
                f"the answer to {answer.question!r} is empty.", "Choose an option, or write something."
            )
        if len(answer.text) > MAX_ANSWER:
            size = f"{len(answer.text):,} characters; at most {MAX_ANSWER:,} can be sent."
            raise _build_rejection(
                f"the answer to {answer.question!r} has {size}", "Put it in a file and name the file."
            )
    twice = [question_id for question_id, count in Counter(answer.question for answer in answers).items() if count > 1]
    if twice:
        raise _build_rejection(f"{twice[0]!r} is answered twice.")


def _check_options(question: Question, option_ids: tuple[str, ...]) -> None:
    known_ids = [option.id for option in question.options]
    if strange := [option_id for option_id in option_ids if option_id not in known_ids]:
        raise _build_rejection(f"{question.id!r} has no option {strange[0]!r}.", f"Choose from {', '.join(known_ids)}.")
    if len(set(option_ids)) < len(option_ids) or (len(option_ids) > 1 and not question.allow_multiple):
        raise _build_rejection(f"{question.id!r} takes exactly one option.", "Choose one of them.")


def _build_rejection(message: str, hint: str = "") -> CommandRejected:
    return CommandRejected(message, hint=hint, code="question_unknown" if "no part" in message else "answer_invalid")


async def _apply_answers(
    session: Session,
    question_event: QuestionAsked,
    answer_event: QuestionAnswered,
    surroundings: PromptSurroundings | None,
) -> None:
    """Resolve the waiting turn with the answers, else record them and start a turn in these surroundings, None = start
    none."""
    if session.user.resolve_question(answer_event.id, answer_event.answers, answerer=answer_event.by):
        return
    if question_event.id not in session.state.questions:
        return  # answered meanwhile
    session.emit(answer_event)
    if (goal := find_accepted_goal(question_event, answer_event.answers)) is not None:
        session.emit_outside_turn(goal)
    if not answer_event.answers or surroundings is None:
        return
    turn = session.state.current_turn
    if turn is not None and question_event.call in turn.calls:
        await session.turn_slot.wait_ended()  # the turn that asked is being stopped
    if not session.turn_slot.is_running:
        from core.agent.context.reminders import summarize_answers

        with suppress(CommandRejected):  # a turn has begun meanwhile, which gets the answers at its next step
            await reserve_turn(session)
            prompt = summarize_answers(question_event.questions, answer_event.answers)
            ask = partial(ask_model, prompt=prompt, surroundings=surroundings, instruction=_LATE_ANSWER_INSTRUCTION)
            start_turn(session, ask, prompt)
