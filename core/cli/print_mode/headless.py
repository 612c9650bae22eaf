"""`agent-tui -p`: run one prompt without a screen. The answer goes to standard output, everything else to standard
error.

Nobody can be asked, so the program refuses whatever needs an approval. Edits wait for a review unless `--accept` names
them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Final, TextIO

from msgspec.structs import replace

from core.arguments import PrintArguments
from core.cli.print_mode.printer import (
    BACKGROUND_EVENTS,
    RETRIES,
    JsonAnswer,
    JsonAnswerPrinter,
    JsonPrinter,
    Printer,
    StreamPrinter,
    TextPrinter,
    escape_text,
    merge_responses,
    read_schema,
)
from core.cli.print_mode.shown_arguments import hide_arguments
from core.cli.review_output import collect_errors, explain_left, format_left
from core.cli.streams import read_input
from core.clock import monotonic, now_ms, pause
from core.engine import Engine
from core.engine.configuration.settings_lint import InterfaceCheck, lint_interface
from core.engine.shared.models import ModelAccess
from core.errors import CommandRejected, ConfigError, StateError
from core.exits import ExitCode
from core.modes import Mode
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import ErrorDocument
from core.protocol.paths import is_named_by
from core.protocol.renames import format_change_path, list_changes, select_named
from core.sessions.log import STATE_LOST
from core.state.goals import USAGE, GoalWish, parse_wish
from core.state.loops import USAGE as LOOP_USAGE
from core.state.loops import LoopWish, parse_loop
from core.state.proof_text import format_proof
from core.state.session import SessionState, TurnState
from core.tasks import TaskOwner
from core.text.display_names import to_one_line
from core.transports.response import Response, build_aside_response, build_refusal, build_response
from core.transports.session_client import SessionAttachments, SessionView, prove_pending, require_ack

MAX_STDIN = 16 * 1024 * 1024
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PRINTERS: Final[Mapping[str, Callable[[TextIO, TextIO], Printer]]] = {
    "text": TextPrinter,
    "json": JsonPrinter,
    "stream-json": StreamPrinter,
}
_COMMAND_TOOLS: Final = frozenset(
    {"run_terminal_cmd", "run_python", "run_code", "write_terminal", "execute"}
)  # `execute` belongs to hosted agents
ENDS: Final = {"limit": ExitCode.LIMIT, "interrupted": ExitCode.INTERRUPTED}
OVER_TIME: Final = "The time limit (--time-limit) was reached."
WARNED_SHARE: Final = 0.8  # of the time limit, after which the model is told to finish
MIN_WARNED: Final = 120  # seconds of a time limit that is long enough for that
ACCEPT_ALL: Final = "all"
ACCEPT_VERIFIED: Final = "verified"
ACCEPT_PROVEN: Final = "proven"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNDECODED: Final = compile_lazily("[\udc80-\udcff]")


def run_print(
    arguments: PrintArguments,
    *,
    models: ModelAccess | None = None,
    check_interface: InterfaceCheck = lambda _: (),
) -> int:
    """Run one prompt and print the answer. Returns the exit code. Raises `BrokenPipeError` when the reader is gone.
    `check_interface`: the problems of the screen's settings, which are printed as on the screen."""
    hide_arguments(arguments.prompt or "", arguments.append_system_prompt or "")
    prompt = read_prompt(arguments, sys.stdin)
    for problem in lint_interface(check_interface):
        sys.stderr.write(f"! {to_one_line(f'{problem.message} {problem.hint}'.rstrip())}\n")
    engine = Engine(arguments.directory, options=arguments, models=models)
    return asyncio.run(_PrintRun(engine, arguments, prompt).run())


def read_prompt(arguments: PrintArguments, stdin: TextIO | None) -> str:
    """Return the prompt of the command line. Piped input is its context, or the prompt itself if there is no other."""
    prompt = _decode_argument(arguments.prompt or "").strip()
    stdin_text = ""
    if "-" not in arguments.images and stdin is not None and not stdin.closed and not stdin.isatty():
        data = read_input(stdin.buffer, MAX_STDIN + 1)
        if len(data) > MAX_STDIN:
            raise ConfigError(
                f"standard input holds more than {MAX_STDIN // 2**20} MB.",
                hint="Put it in a file and name the file in the prompt.",
                code="stdin_too_large",
            )
        stdin_text = data.decode("utf-8", "replace")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as problem:
            explanation = f"(byte {problem.start}): unreadable bytes became {REPLACEMENT}."
            sys.stderr.write(f"! standard input is not UTF-8 {explanation}\n")
    if not stdin_text.strip():
        return prompt
    return f"{prompt}\n\n<stdin>\n{stdin_text.rstrip()}\n</stdin>" if prompt else stdin_text.strip()


def _decode_argument(text: str) -> str:
    """Return an argument as UTF-8. In a locale without an encoding Python decodes none of its bytes."""
    return os.fsencode(text).decode("utf-8", "surrogateescape") if _UNDECODED.search(text) else text


def _to_absolute(path: str) -> str:
    """Make a path absolute from the directory in which the program was started, which need not be the project's."""
    return str(Path(path).expanduser().absolute())


class _PrintRun:
    """Runs one prompt through an engine of this process."""

    def __init__(self, engine: Engine, arguments: PrintArguments, prompt: str) -> None:
        self._arguments = arguments
        self._prompt, self._goal = _find_goal(arguments, prompt)
        self._prompt, self._loop = _find_loop(arguments, self._prompt)
        self._aside = _find_aside(arguments, prompt)
        self._side_answer: ev.AsideAnswered | None = None
        schema = arguments.json_schema
        self._answer = JsonAnswer(read_schema(schema)) if schema is not None else None
        printer = PRINTERS[arguments.output_format]
        if self._answer is not None and printer is TextPrinter:
            printer = JsonAnswerPrinter
        self._printer = printer(sys.stdout, sys.stderr)
        self._parts: list[Response] = []  # of all turns but the last one
        self._engine = engine
        self._session = ""
        self._printed = 0  # the seq up to which no event is printed any more
        self._is_refused = False
        self._has_denied_command = False
        self._interrupts = 0
        self._tasks = TaskOwner()
        self._counting: asyncio.Task[None] | None = None
        self._opened = 0  # the seq of the session when it was opened
        self._errors: list[ev.ErrorRaised] = []
        self._labels: tuple[str, ...] = ()
        self._attached: SessionAttachments | None = None
        self._is_over_time = False
        self._written_before = 0  # files that the session had written before this run

    @property
    def _is_resumed(self) -> bool:
        return bool(self._arguments.resume or self._arguments.continue_last)

    async def run(self) -> int:
        try:
            return await self._run()
        finally:
            await self._engine.close()

    async def _run(self) -> int:
        if not self._prompt:
            return self._print_refusal(cmd.Reject(code="empty_text", message="the prompt is empty."))
        reply = await self._open()
        if isinstance(reply, cmd.Reject):
            return self._print_refusal(reply)
        self._session, self._opened = reply.session, reply.seq
        self._printed = reply.seq - self._is_resumed  # `session.resumed` reports repairs
        view = SessionView(self._engine, self._session, self._handle_event)
        if (limit := self._arguments.time_limit) is not None:
            self._tasks.spawn(self._watch_time(limit), name="time limit")
        try:
            rejection = await self._prepare(view)
            if rejection is not None:
                return self._print_refusal(rejection)
            return await self._finish(view) if self._aside is None else await self._finish_aside(view)
        finally:
            await view.close()
            await self._tasks.cancel()

    async def _prepare(self, view: SessionView) -> cmd.Reject | None:
        """Carry out the command line, up to the end of the turn. Returns the rejection; None = the turn has ended."""
        for command in self._list_changes():
            reply = await self._engine.submit(command)
            if isinstance(reply, cmd.Reject):
                return reply
        await view.settle()
        self._written_before = len(self._list_writes())
        if (rejection := await self._attach(view)) is not None:
            return rejection
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._interrupt)
        try:
            return await self._ask(view)
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    async def _ask(self, view: SessionView) -> cmd.Reject | None:
        """Run the prompt, and repeat it while the answer is not the JSON that is required."""
        if self._loop is not None:
            return await self._repeat(view, self._loop)
        if self._aside is not None:
            return await self._ask_aside(view, self._aside)
        answer = self._answer
        prompt = self._prompt if answer is None else answer.add_request(self._prompt)
        for attempt in range(RETRIES + 1):
            turns = len(view.state.turns)
            reply = await self._engine.submit(self._build_submit(prompt))
            if isinstance(reply, cmd.Reject):
                return reply
            await view.wait_until(lambda: len(view.state.turns) > turns and bool(view.state.turns[-1].reason))  # noqa: B023
            turn = view.state.turns[-1]
            if self._is_over_time:
                return None
            if answer is None or turn.reason != "done" or answer.read(turn.list_finished_documents()):
                return None
            if attempt < RETRIES:
                self._parts.append(build_response(turn, view.state))
                prompt, self._labels = answer.render_retry(), ()
        return None

    async def _repeat(self, view: SessionView, wish: LoopWish) -> cmd.Reject | None:
        """Run the prompt in a loop, to the end of the loop and its last turn."""
        state, turns, loops = view.state, len(view.state.turns), view.state.loop_count
        reply = await self._engine.submit(
            cmd.LoopStart(
                session=self._session,
                text=wish.prompt,
                seconds=wish.seconds,
                command=wish.command,
                pattern=wish.pattern,
                runs=wish.runs,
            )
        )
        if isinstance(reply, cmd.Reject):
            return reply
        await view.wait_until(lambda: state.loop_count > loops and not state.loops and state.current_turn is None)
        if len(state.turns) > turns:
            return None
        return cmd.Reject(code="loop_ended", message="the loop has ended before the prompt was sent.")

    async def _ask_aside(self, view: SessionView, question: str) -> cmd.Reject | None:
        reply = await self._engine.submit(cmd.AsideAsk(session=self._session, text=question))
        if isinstance(reply, cmd.Reject):
            return reply
        await view.wait_until(lambda: self._side_answer is not None)
        return None

    async def _finish_aside(self, view: SessionView) -> int:
        """Print the answer to a side question. What it says is the end of it: there is no turn."""
        event = self._side_answer
        assert event is not None
        self._printer.end(build_aside_response(event, view.state, timestamp=now_ms()))
        if event.problem:
            return ExitCode.INTERRUPTED if self._interrupts else ExitCode.FAILED
        return ExitCode.DONE

    def _build_submit(self, prompt: str) -> cmd.AnyCommand:
        if best := self._arguments.best:
            return cmd.BestRun(session=self._session, text=prompt, models=best, attachments=self._labels)
        limits = dict(self._arguments.tools)
        return cmd.TurnSubmit(
            session=self._session,
            text=prompt,
            attachments=self._labels,
            available_tools=limits,
            goal=self._goal.condition,
            check=self._goal.check,
            rounds=self._goal.rounds,
            answer_schema=self._answer.bindable_schema if self._answer is not None else {},
            answer_only=bool(self._parts),
        )

    async def _attach(self, view: SessionView) -> cmd.Reject | None:
        """Attach the files of `--image`. Returns the rejection; None = all of them are attached."""
        adds = list[cmd.AttachmentAdd]()
        for image in self._arguments.images:
            if image == "-":
                data = await asyncio.to_thread(read_input, sys.stdin.buffer, cmd.MAX_ATTACHMENT_BYTES + 1)
                adds.append(cmd.AttachmentAdd(session=self._session, data=data, name="standard input"))
            else:
                adds.append(cmd.AttachmentAdd(session=self._session, path=_to_absolute(image)))
        self._attached = SessionAttachments(self._submit, view.settle)
        try:
            self._labels = await self._attached.attach(adds)
        except CommandRejected as refused:
            return cmd.Reject(code=refused.code, message=refused.message, hint=refused.hint)
        return None

    async def _submit(self, command: cmd.AnyCommand) -> cmd.Ack:
        return require_ack(await self._engine.submit(command))

    async def _open(self) -> cmd.Reply:
        arguments = self._arguments
        if self._is_resumed:
            return await self._engine.submit(cmd.SessionResume(session=arguments.resume or ""))
        model, effort = arguments.model or "", arguments.effort or ""
        return await self._engine.submit(cmd.SessionOpen(mode=arguments.mode or "agent", model=model, effort=effort))

    def _list_changes(self) -> list[cmd.AnyCommand]:
        if not self._is_resumed:
            return []
        arguments, session = self._arguments, self._session
        commands: list[cmd.AnyCommand] = (
            [cmd.ModeSet(session=session, mode=arguments.mode)] if arguments.mode is not None else []
        )
        commands += [cmd.ModelSet(session=session, model=arguments.model)] if arguments.model is not None else []
        return commands + (
            [cmd.EffortSet(session=session, effort=arguments.effort)] if arguments.effort is not None else []
        )

    def _list_writes(self) -> list[str]:
        """List the paths that the session has written to the project; a view's brief events leave them out."""
        return [write.path for write in self._engine.state(self._session).review.writes]

    async def _watch_time(self, limit: int) -> None:
        """Interrupt the turn at the time limit; before, tell the model to finish."""
        notice = limit * WARNED_SHARE if limit >= MIN_WARNED else limit
        await pause(notice)
        if notice < limit:
            text = render("reminders/time_limit", minutes=max(round((limit - notice) / 60), 1))
            await self._engine.submit(cmd.TurnSteer(session=self._session, text=text))
            await pause(limit - notice)
        self._is_over_time = True
        await self._stop_work()

    def _interrupt(self) -> None:
        """Interrupt the turn at the first Ctrl+C (or SIGTERM, SIGHUP); the third one exits at once."""
        self._interrupts += 1
        if self._interrupts >= 3:
            raise KeyboardInterrupt
        self._tasks.spawn(self._stop_work(), name="interrupt")

    async def _stop_work(self) -> None:
        """Interrupt the turn, and end the loop that would begin the next one."""
        await self._engine.submit(cmd.TurnInterrupt(session=self._session))
        if self._loop is not None:
            await self._engine.submit(cmd.LoopStop(session=self._session))

    def _handle_event(self, envelope: ev.Envelope) -> None:
        """Print an event, and note refusals for want of somebody to ask."""
        if self._attached is not None:
            self._attached.handle_event(envelope.event)
        if isinstance(envelope.event, ev.ErrorRaised) and envelope.seq > self._opened:
            self._errors.append(envelope.event)
        if not isinstance(envelope.event, ev.LossyEvent) and envelope.seq <= self._printed:
            return
        if not isinstance(envelope.event, BACKGROUND_EVENTS):
            self._stop_count_down()
        self._printer.event(envelope)
        match envelope.event:
            case ev.AsideAnswered() as answer if self._aside is not None:
                self._side_answer = answer
            case ev.ApprovalResolved(by="program") | ev.NetworkRefused():
                self._is_refused = True
            case ev.ToolFinished(status="denied", tool=tool) if tool.rpartition(":")[2] in _COMMAND_TOOLS:
                self._has_denied_command = True
            case ev.StepRetried(delay_ms=delay):
                self._counting = self._tasks.start(self._count_down(delay / 1000), name="count-down")
            case _:
                pass

    async def _count_down(self, seconds: float) -> None:
        end = monotonic() + seconds
        while (remaining_time := end - monotonic()) > 0:
            self._printer.count_down(ceil(remaining_time))
            await pause(min(remaining_time, 1.0))

    def _stop_count_down(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            self._counting = None

    async def _finish(self, view: SessionView) -> int:
        state, turn = view.state, view.state.turns[-1]
        goal_reason = self._find_goal_reason(state)
        is_goal_limited = goal_reason == "limit"
        has_failed = turn.reason != "done" or (self._answer is not None and not self._answer.text)
        has_failed = has_failed or goal_reason != "met"
        written_paths = self._list_writes()[self._written_before :]  # by a policy, or by commands in place
        accepted_paths = () if has_failed else await self._accept(view)
        accepted_paths = tuple(sorted({*accepted_paths, *written_paths}))
        response = build_response(turn, state, accepted_changes=accepted_paths)
        is_limited = self._is_over_time and turn.reason == "interrupted"
        if is_limited:
            metadata = replace(response.metadata, stop_reason="limit", stop_message=OVER_TIME)
            response = replace(response, status="completed", metadata=metadata)
        if self._answer is not None:
            response = merge_responses([*self._parts, response], self._answer)
        if not accepted_paths:
            await view.settle()  # take in the events that follow the end of a turn
        loss = next((error for error in self._errors if error.code == STATE_LOST), None)
        self._printer.end(response)
        is_recorded = await self._write_trajectory()
        if state.is_private:
            await self._save_pending(state)
        if not self._is_resumed and _lacks_key(turn):  # nothing to continue, and `-c` would open it
            await self._engine.submit(cmd.SessionClose(session=self._session, discard=True))
        if loss is not None and not has_failed:
            sys.stderr.write(f"! {to_one_line(f'{loss.message} The session can not be resumed.')}\n")
            return ExitCode.FAILED
        if has_failed:
            code = ExitCode.LIMIT if is_limited or is_goal_limited else ENDS.get(turn.reason, ExitCode.FAILED)
            return ExitCode.DONE if code is ExitCode.LIMIT and self._arguments.exit_zero else code
        if not is_recorded:
            return ExitCode.FAILED
        has_leftovers = _has_left(state, self._arguments.accept)
        # A mode that drops effects withholds commands from the model; that is no refusal.
        is_denied = self._has_denied_command and Mode(state.mode).rules.keeps_effects
        if self._arguments.exit_zero or not (self._is_refused or is_denied or has_leftovers):
            return ExitCode.DONE
        return ExitCode.REFUSED

    def _find_goal_reason(self, state: SessionState) -> str:
        """Return how the goal of this run has ended, "" = it has not; a run without one has met it."""
        return state.goal.reason if self._goal.condition and state.goal is not None else "met"

    async def _prove(self, view: SessionView) -> None:
        """Prove what is pending, if `--proof` asks for it, and print what the check says of each hunk."""
        await view.settle()
        if not self._arguments.proof or not view.state.changes:
            return
        changes = list_changes(view.state.changes)
        end = await prove_pending(self._engine, view, cmd.ChangesProve(session=self._session))
        lines = [*format_proof(view.state.review.proof, changes), *([f"! {end.reason}"] if end.reason else [])]
        self._printer.notify(map(escape_text, lines))

    async def _accept(self, view: SessionView) -> tuple[str, ...]:
        """Prove what is pending if that is wanted, and accept what `--accept` names. Returns the paths written."""
        await self._prove(view)
        if not self._arguments.accept:
            return ()
        self._printed = sys.maxsize  # do not print the cleanup after the turn
        await view.settle()
        self._printed = view.state.seq
        start = len(self._errors)
        accepted_paths = await _accept_edits(self._engine, view, self._arguments.accept)
        self._report_left(view.state, self._errors[start:])
        return accepted_paths

    def _report_left(self, state: SessionState, events: Sequence[ev.AnyEvent]) -> None:
        """Print every change that `--accept` named and that is still pending, with the reason. `events`: the errors."""
        errors = collect_errors(events)
        patterns = self._arguments.accept
        changes = list_changes(state.changes)
        left = changes if ACCEPT_ALL in patterns else select_named(changes, patterns)
        reasons = [format_left(format_change_path(one), explain_left(one, errors, "accept")) for one in left]
        self._printer.notify(f"! {to_one_line(reason)}" for reason in reasons)

    async def _write_trajectory(self) -> bool:
        """Write the file of `--trajectory`, however the turn has ended. Returns False if that failed."""
        path = self._arguments.trajectory
        if path is None:
            return True
        from core.engine.export.documents import write_export

        answer = await self._engine.query(q.ExportQuery(session=self._session, format="atif"))
        try:
            if isinstance(answer, q.RefusedAnswer):
                raise StateError(answer.message, hint=answer.hint, code=answer.code)
            assert isinstance(answer, q.ExportAnswer)
            await asyncio.to_thread(write_export, answer, path, replace=True)
        except StateError as problem:
            sys.stderr.write(f"! {to_one_line(f'No trajectory: {problem.format_with_hint()}')}\n")
            return False
        return True

    async def _save_pending(self, state: SessionState) -> None:
        """Save pending changes of a private session without the conversation: nobody could be asked about them."""
        message = "! Private: the conversation is not saved."
        if state.changes:
            reply = await self._engine.submit(cmd.PendingKeep(session=self._session))
            notice = "The changes pending review are saved, without the conversation: agent-tui review"
            message += f" {reply.message if isinstance(reply, cmd.Reject) else notice}"
        sys.stderr.write(f"{message}\n")

    def _print_refusal(self, reply: cmd.Reject) -> int:
        model, mode = self._arguments.model or "", self._arguments.mode or "agent"
        self._printer.end(build_refusal(reply, model=model, mode=mode, timestamp=now_ms()))
        return ExitCode.USAGE if reply.code == "mention_unknown" else ExitCode.FAILED


def _find_goal(arguments: PrintArguments, prompt: str) -> tuple[str, GoalWish]:
    """Return the prompt for the model and the goal, of the options or of a prompt that begins with /goal."""
    word, _, rest = prompt.partition(" ")
    if arguments.goal or word != "/goal":
        return prompt, GoalWish(arguments.goal, arguments.check, arguments.rounds)
    wish = parse_wish(rest)
    if wish is None:
        raise ConfigError("a goal needs a condition.", hint=USAGE, code="goal_incomplete")
    return wish.condition, wish


def _find_loop(arguments: PrintArguments, prompt: str) -> tuple[str, LoopWish | None]:
    """Return the prompt for the model and the loop, of the options or of a prompt that begins with /loop."""
    word, _, rest = prompt.partition(" ")
    if arguments.loop:
        return prompt, LoopWish(prompt, arguments.loop, arguments.when, arguments.prints, arguments.runs)
    if word != "/loop":
        return prompt, None
    wish = parse_loop(rest)
    if wish is None:
        raise ConfigError("a loop needs an interval and a prompt.", hint=LOOP_USAGE, code="loop_incomplete")
    return wish.prompt, wish


def _find_aside(arguments: PrintArguments, prompt: str) -> str | None:
    """Return the question of a prompt that begins with /btw, None = it is a prompt for a turn."""
    word, _, question = prompt.partition(" ")
    if word != "/btw":
        return None
    unfit = {"--goal": arguments.goal, "--best": arguments.best, "--json-schema": arguments.json_schema}
    unfit |= {"--image": arguments.images, "--accept": arguments.accept}
    if names := [name for name, value in unfit.items() if value]:
        raise ConfigError(f"/btw starts no turn, so {names[0]} has no effect.", hint="Leave one of the two out.")
    if not question.strip():
        raise ConfigError("a side question needs words.", hint="/btw QUESTION", code="aside_incomplete")
    return question.strip()


def _lacks_key(turn: TurnState) -> bool:
    """Return True if a turn ended for want of a key, before any request."""
    documents = turn.list_finished_documents()
    return bool(documents) and all(
        isinstance(document, ErrorDocument) and document.metadata.error_code == "KEY_MISSING" for document in documents
    )


async def _accept_edits(client: Engine, view: SessionView, patterns: Sequence[str]) -> tuple[str, ...]:
    """Accept the named edits. Returns the paths that were written, of a rename the new one."""
    state = view.state
    before = {change.path for change in list_changes(state.changes)}  # a rename counts by its new path
    if ACCEPT_VERIFIED in patterns and ACCEPT_ALL not in patterns and state.changes:
        await _accept_verified(client, view)
    proven = [cmd.ProvenAccept(session=state.session_id)] if ACCEPT_PROVEN in patterns and state.changes else []
    for verdict in [*proven, *_list_acceptances(state, patterns)]:
        await client.submit(verdict)
        await view.settle()  # failures are events
    return tuple(sorted(before - set(state.changes)))


async def _accept_verified(client: Engine, view: SessionView) -> None:
    """Run the session's checks again and accept what they prove. Notices explain what is still pending."""
    review = view.state.review
    last = review.verified_last
    reply = await client.submit(cmd.ChangesVerify(session=view.state.session_id, deletions=True))
    if not isinstance(reply, cmd.Reject):
        await view.wait_until(lambda: review.verified_last is not last)
        await view.settle()


def _list_acceptances(state: SessionState, patterns: Sequence[str]) -> list[cmd.HunkResolve]:
    """List the verdicts to give. Protected changes are never accepted unasked."""
    session = state.session_id
    if ACCEPT_ALL in patterns:
        return [cmd.HunkResolve(session=session, path="", verdict="accept")] if state.changes else []
    changes = [change for change in select_named(list_changes(state.changes), patterns) if not change.protected]
    return [cmd.HunkResolve(session=session, path=change.path, verdict="accept") for change in changes]


def _has_left(state: SessionState, patterns: Sequence[str]) -> bool:
    """Return True if a change that was to be accepted is still pending; with `verified`, if any change is."""
    if {ACCEPT_ALL, ACCEPT_VERIFIED, ACCEPT_PROVEN} & set(patterns):
        # A commit that the agent made stays in the shadow; its files count, the state of git does not.
        return bool(state.changes) or any(bulk.needs_verdict and bulk.kind != "git" for bulk in state.review.bulks)
    has_match = bool(select_named(state.changes.values(), patterns))
    return has_match or any(is_named_by(bulk.root, pattern) for bulk in state.review.bulks for pattern in patterns)
