"""Reminders: messages of the program to the model, about modes, verdicts, answers, commands and steering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from core.agent.base.permissions import CallPermissions
from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.agent.context.memory import ModelMemory, SteerContext
from core.config.settings import DialectName
from core.prompts import load_tool_text, render
from core.protocol.attachment_labels import find_attachments
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import (
    AnswersReported,
    AnyEvent,
    CommandRan,
    HunkEdited,
    JobEnded,
    MessageAppended,
    SteerReturned,
    TerminalReported,
    UserEditMerged,
    VerdictsReported,
)
from core.protocol.messages import UserMessage
from core.protocol.renames import list_changes
from core.protocol.review import Change, Hunk, VerdictRecord
from core.sandbox.results import describe_end
from core.state.proof_text import find_actionable
from core.state.session import SessionState
from core.text.lines import clip
from core.tools.builtin.dialogue import format_answers
from core.tools.toolset import Toolset

NO_CONTEXT = SteerContext("")
MAX_QUESTION = 200  # characters of a question that is quoted before its answer
MAX_EXCERPT = 1_500
MAX_VERDICTS = 60
MAX_COMMAND_CHARS = 500


def wrap_reminder(text: str) -> str:
    return wrap_tag("system_reminder", text)


def append_reminder(emit: Callable[[AnyEvent], None], text: str) -> None:
    """Append a reminder to the history as a separate message."""
    emit(MessageAppended(message=UserMessage(content=wrap_reminder(text), origin="program")))


class Reminders(Struct, frozen=True):
    """Reminders of the model in one turn: news once, before the next step. `is_attended`: somebody can be asked."""

    state: SessionState
    memory: ModelMemory
    permissions: CallPermissions
    tools: Toolset
    emit: Callable[[AnyEvent], None]
    get_dialect: Callable[[], DialectName]
    is_attended: bool = True

    def append_news(self) -> None:
        """Append the news before a step: answers, a new mode, verdicts, commands, messages that the user sent
        meanwhile."""
        state = self.state
        self.permissions.terminal.host.shadow.follow_project()
        if state.unreported_answers:
            self._report_answers()
        if text := self.render_mode():
            append_reminder(self.emit, text)
        self._report_review()
        self._report_evidence()
        if state.unreported_commands:
            self._report_terminal()
        self._report_stale_layers()
        for identity, text in list(state.pending_steers.items()):
            steer_context = self.memory.steer_context.pop(identity, NO_CONTEXT)
            content = f"{wrap_reminder(render('reminders/steer'))}\n{steer_context.text}{wrap_tag('user_query', text)}"
            attachments = (*find_attachments(text, state.attachments), *steer_context.attachments)
            self.emit(
                MessageAppended(message=UserMessage(content=content, attachments=attachments), steers=(identity,))
            )

    def render_mode(self) -> str:
        """Render the instructions for a mode that is new to the model, "" = it knows them."""
        mode, announced_mode = self.state.mode, self.memory.announced.get("mode", "")
        if mode == announced_mode:
            return ""
        self.memory.announced["mode"] = mode
        announced_mode = announced_mode or self._find_previous_mode()
        tier = self.permissions.terminal.host.box.tier
        instructions = render(f"modes/{mode}", contained=tier.is_contained)
        circumstances = render(
            "reminders/circumstances", mode=mode, tier=tier.value, tools=self.tools.disabled, attended=self.is_attended
        )
        mode_tools = _render_mode_tools(self.tools, mode, self.get_dialect())
        text = "\n\n".join(filter(None, (instructions, circumstances, mode_tools)))
        return render("reminders/mode", mode=mode, previous=announced_mode, text=text)

    def _find_previous_mode(self) -> str:
        """Return the mode that the conversation so far is about, if it is not the present one; "" = there is none."""
        previous_turns = self.state.turns[:-1]
        mode = previous_turns[-1].mode if previous_turns else self.state.mode
        return mode if mode != self.state.mode else ""

    def render_interruption(self) -> str:
        """Render the reminder that the previous turn was stopped, and by whom; "" = it was not."""
        previous_turns = self.state.turns[:-1]
        if not previous_turns or previous_turns[-1].reason != "interrupted":
            return ""
        return render("reminders/interrupted", reason=escape_tags(previous_turns[-1].message))

    def render_goal(self) -> str:
        """Render the goal that is new to the model, "" = it knows it, or there is none."""
        goal = self.state.goal
        if goal is None or goal.reason or self.memory.announced.get("goal", "") == goal.condition:
            return ""
        self.memory.announced["goal"] = goal.condition
        return render(
            "reminders/goal",
            condition=escape_tags(goal.condition),
            command=escape_tags(goal.check),
            most=goal.max_rounds,
        )

    def _report_answers(self) -> None:
        answers = self.state.unreported_answers
        texts = [
            escape_tags(format_answers(answer.asked.questions, answer.answered.answers)) for answer in answers.values()
        ]
        ids = tuple(answers)
        append_reminder(self.emit, render("reminders/answers", answers="\n".join(texts)))
        self.emit(AnswersReported(ids=ids))

    def _report_terminal(self) -> None:
        news = list(self.state.unreported_commands.values())
        jobs = self.permissions.terminal.jobs
        ended_jobs = [_describe_job(event, is_held=event.id in jobs) for event in news if isinstance(event, JobEnded)]
        ran = [_describe_command(event) for event in news if isinstance(event, CommandRan)]
        append_reminder(self.emit, render("reminders/terminal", ended=ended_jobs, ran=ran))
        self.emit(TerminalReported(ids=tuple(event.id for event in news)))

    def _report_stale_layers(self) -> None:
        """Report unreviewed layers of commands that may not fit the project any more, once per change."""
        bulks = [bulk for bulk in self.state.review.bulks if not bulk.is_cache]
        texts = {bulk.root: "; ".join(filter(None, (bulk.conflict, bulk.stale))) for bulk in bulks}
        news = {root: text for root, text in texts.items() if text != self.memory.announced.get(f"bulk {root}", "")}
        self.memory.announced.update({f"bulk {root}": text for root, text in news.items()})
        if lines := [{"root": escape_tags(root), "why": escape_tags(text)} for root, text in news.items() if text]:
            append_reminder(self.emit, render("reminders/stale_layers", layers=lines))

    def _report_review(self) -> None:
        """Report verdicts, edits by the user, and changes that have come into conflict with what the user wrote."""
        state = self.state
        news = ReviewNews(
            verdicts=tuple(state.unreported_verdicts.values()),
            undone=tuple(state.undone_verdicts.values()),
            edits=tuple(state.edited_hunks.values()),
            merged=tuple(state.merged_user_edits.values()),
            **self._list_conflict_news(),
        )
        if text := render_review_news(news):
            append_reminder(self.emit, text)
        ids = [*(verdict.id for verdict in (*news.undone, *news.verdicts)), *(edit.id for edit in news.edits)]
        ids += [edit.id for edit in news.merged]
        if ids:
            self.emit(VerdictsReported(ids=tuple(ids)))

    def _report_evidence(self) -> None:
        """Report what no test notices among the pending hunks, if that is new to the model."""
        review = self.state.review
        evidence = find_actionable(review.proof, list_changes(review.changes))
        text = ""
        if evidence is not None:
            unnoticed, weakened = (list(map(escape_tags, lines)) for lines in (evidence.unnoticed, evidence.weakened))
            command = escape_tags(evidence.command)
            text = render("reminders/evidence", command=command, unnoticed=unnoticed, weakened=weakened)
        if text and text != self.memory.announced.get("evidence", ""):
            append_reminder(self.emit, text)
        self.memory.announced["evidence"] = text

    def _list_conflict_news(self) -> dict[str, Any]:
        """List the changes whose conflict is new or different, and the paths whose conflict is settled."""
        changes, announced = self.state.changes, self.memory.announced
        keys = {path: f"conflict {path}" for path in changes}
        conflicts = [
            change
            for path, change in changes.items()
            if change.conflict and change.conflict != announced.get(keys[path])
        ]
        announced.update({keys[change.path]: change.conflict for change in conflicts})
        settled = [path for path, change in changes.items() if not change.conflict and announced.pop(keys[path], "")]
        return {"conflicts": tuple(conflicts), "settled": tuple(settled)}


def _render_mode_tools(tools: Toolset, mode: str, dialect: DialectName) -> str:
    """Render the tools that come with a mode and are in no list, "" for the `command` dialect, which has none."""
    if mode not in tools.deferred or dialect == "command":
        return ""
    texts = [{"name": name, "text": tools.describe(name, load_tool_text(name))} for name in tools.deferred[mode]]
    return render("reminders/mode_tools", tools=texts, in_text=dialect == "tags")


def format_job_end(job: JobEnded) -> str:
    """Format the end of a job and its effects."""
    code = describe_end(job.exit_code, job.ended)
    return escape_tags(
        f"`{job.command[:MAX_COMMAND_CHARS]}`: {code} after {job.duration_ms / 1000:.1f} s; {job.effects}"
    )


def _describe_job(job: JobEnded, *, is_held: bool) -> dict[str, str]:
    """Describe the end of a job. `is_held`: its output can still be read by its id."""
    source = job.spilled or ("read_terminal" if is_held else "")
    more = f"{source} has all of it" if source else "the rest is lost"
    return {
        "id": job.id,
        "line": format_job_end(job),
        "output": escape_tags(job.output),
        "more": more if job.is_cut else "",
        "is_silent": "" if job.output or job.ended == "lost" else "yes",
    }


def _describe_command(run: CommandRan) -> dict[str, str]:
    return {
        "command": escape_tags(run.command),
        "directory": escape_tags(run.directory),
        "end": describe_end(run.exit_code, run.ended),
        "output": escape_tags(run.output.strip()),
        "effects": escape_tags(run.effects),
    }


class ReviewNews(Struct, frozen=True, kw_only=True):
    """News of the review for the model: verdicts, verdicts that were undone, hunks that the user edited, files that the
    user edited under pending changes, changes that are in conflict, and paths that no longer are."""

    verdicts: tuple[VerdictRecord, ...] = ()
    undone: tuple[VerdictRecord, ...] = ()
    edits: tuple[HunkEdited, ...] = ()
    merged: tuple[UserEditMerged, ...] = ()
    conflicts: tuple[Change, ...] = ()
    settled: tuple[str, ...] = ()


def render_review_news(news: ReviewNews) -> str:
    """Render the news of the review for the model; "" = there are none."""
    edit_excerpts = [
        {"path": escape_tags(edit.path), "start": edit.start, "excerpt": escape_tags(edit.excerpt[:MAX_EXCERPT])}
        for edit in news.edits[-MAX_VERDICTS:]
    ]
    merged_excerpts = [
        {"path": escape_tags(edit.path), "excerpt": escape_tags(edit.excerpt[:MAX_EXCERPT])}
        for edit in news.merged[-MAX_VERDICTS:]
    ]
    current_verdicts = [verdict for verdict in news.verdicts if not verdict.superseded]
    return render(
        "reminders/verdicts",
        verdicts=[_describe_verdict(verdict) for verdict in current_verdicts[-MAX_VERDICTS:]],
        superseded=[_describe_verdict(verdict) for verdict in news.verdicts if verdict.superseded],
        undone=[_describe_verdict(verdict) for verdict in news.undone[-MAX_VERDICTS:]],
        edits=edit_excerpts,
        merged=merged_excerpts,
        conflicts=[_describe_conflict(change) for change in news.conflicts[-MAX_VERDICTS:]],
        settled=[escape_tags(path) for path in news.settled[-MAX_VERDICTS:]],
        accepted=any(verdict.verdict == "accept" for verdict in current_verdicts),
        rejected=any(verdict.verdict == "reject" for verdict in current_verdicts),
    )


def _describe_conflict(change: Change) -> dict[str, str]:
    hunks = tuple(hunk for hunk in change.hunks if hunk.clashes) or change.hunks
    return {"path": escape_tags(change.path), "lines": _format_lines(hunks), "reason": escape_tags(change.conflict)}


def _format_lines(hunks: Sequence[Hunk]) -> str:
    spans = [(hunk.new_start, hunk.new_start + max(hunk.new_lines, 1) - 1) for hunk in hunks]
    lines = ", ".join(f"{start}" if start == end else f"{start}-{end}" for start, end in spans[:10])
    return f"lines {lines}" if lines else ""


def _describe_verdict(verdict: VerdictRecord) -> dict[str, Any]:
    # Of accepted changes the model needs the position alone, of rejected ones also the text.
    excerpt = escape_tags(verdict.excerpt[:MAX_EXCERPT]) if verdict.verdict == "reject" else ""
    return {
        "verdict": verdict.verdict,
        "path": escape_tags(verdict.path),
        "lines": _format_lines(verdict.hunks),
        "reason": verdict.reason,
        "excerpt": excerpt,
    }


def return_steers(state: SessionState, emit: Callable[[AnyEvent], None]) -> None:
    """Return unsent messages to the user: sent later, they might contradict the next prompt."""
    for identity, text in list(state.pending_steers.items()):
        emit(SteerReturned(id=identity, text=text))


def summarize_answers(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> str:
    """Format answers, one line per question, for the chat."""
    answers_by_question = {answer.question: answer for answer in answers}
    pairs = ((question, answers_by_question.get(question.id)) for question in questions)
    return "\n".join(
        f"{clip(' '.join(question.text.split()), MAX_QUESTION)} → {_format_answer(question, answer)}"
        for question, answer in pairs
        if answer is not None
    )


def _format_answer(question: Question, answer: QuestionAnswer) -> str:
    labels = {option.id: option.label for option in question.options}
    return "; ".join([*(labels.get(key, key) for key in answer.options), *filter(None, [answer.text])])
