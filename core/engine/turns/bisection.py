"""`/bisect`: find the tool call that broke the check, by running the check over the files as they were after calls.

The log has the files after each call of the session. The check has to fail over them as they are now and to pass over
them as they were before the first call; then halving the calls between the two finds one that broke it. Each run is
alone in a clean layer, like the runs of a proof. The answer is a turn of its own, and the model is told of it.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from core.agent.context.reminders import append_reminder
from core.agent.context.turn_context import TurnContext
from core.clock import monotonic
from core.engine.session.proof import explain_no_check, find_proof_check, find_refusal
from core.engine.session.session import Session
from core.errors import CommandRejected, ToolFailed
from core.ids import OptionalId, new_id
from core.proof.runs.commands import parse_command
from core.proof.runs.variant_runs import VariantResult, VariantRuns
from core.protocol import events as ev
from core.protocol.documents import TextDocument, TextMetadata
from core.protocol.review import FileState
from core.secrets import mask_secrets
from core.shell.verification.clean_layer import NO_BOX, FileVariant
from core.text.counting import count
from core.text.display_names import display_name
from core.text.markup import choose_fence

MOST_SECONDS: Final = 600.0  # of one run of the check
MAX_OUTPUT: Final = 1_500  # characters of the end of a failed run
MAX_NAMED: Final = 4  # files of one call
MAX_LINES: Final = 40  # of the difference in one file
NO_CALLS: Final = "No call of this session has changed a file."
HINT: Final = "Name the check: /bisect COMMAND"


class CallStep(Struct):
    """The files after a call of the session, by path, among those that the session has changed; `paths`: those that the
    call changed. `title`: the call in words, `prompt`: that of its turn, `document`: that which shows the call."""

    call: str
    title: str
    prompt: str
    document: OptionalId = ""
    files: dict[str, FileState] = {}
    paths: list[str] = field(default_factory=list)


class FileHistory(Struct):
    """The calls of a session that changed files, and the files before the first one."""

    before: dict[str, FileState] = {}
    steps: list[CallStep] = []


def read_history(envelopes: Sequence[ev.Envelope]) -> FileHistory:
    """Read the history of the files from the records of a session."""
    before, current = dict[str, FileState](), dict[str, FileState]()
    steps, prompts, documents = list[CallStep](), dict[str, str](), dict[str, OptionalId]()
    for envelope in envelopes:
        match envelope.event:
            case ev.TurnStarted(prompt=prompt):
                prompts[envelope.turn] = prompt
            case ev.ToolRequested(call=call, document=document):
                documents[call] = document
            case ev.ChangeProposed(change=change) | ev.ChangeRevised(change=change):
                before.setdefault(change.path, change.base)
                if current.get(change.path, change.base) == change.pending:
                    continue
                current[change.path] = change.pending
                origin = change.origin
                call, turn = (origin.call, origin.turn) if origin is not None else ("", "")
                if not steps or steps[-1].call != call:
                    title = (origin.command or origin.tool) if origin is not None else "your edit"
                    steps.append(CallStep(call, title, prompts.get(turn, ""), documents.get(call, "")))
                steps[-1].files = dict(current)
                steps[-1].paths.append(change.path)
            case ev.VerdictGiven(verdict=record) if record.verdict == "reject":
                current[record.path] = record.pending_after
                steps.append(CallStep("", "your rejection", "", "", dict(current), [record.path]))
            case _:
                pass
    return FileHistory(before, steps)


async def prepare_bisection(session: Session, command: str) -> tuple[str, FileHistory]:
    """Return the check and the history that a bisection is about. Raises `CommandRejected`."""
    check = find_proof_check(session.state, session.settings.commands.checks)
    command = command or (check.command if check is not None else "")
    if not command:
        problem = explain_no_check(session.state, session.settings.commands.checks)
        raise CommandRejected(problem, hint=HINT, code="no_check")
    session.log.flush()
    envelopes = list[ev.Envelope]()
    await asyncio.to_thread(session.log.read_all, envelopes.append)
    history = read_history(envelopes)
    if not history.steps:
        raise CommandRejected(NO_CALLS, code="nothing_to_bisect")
    return command, history


async def bisect(session: Session, command: str, history: FileHistory, prompt: str, context: TurnContext) -> None:
    """Find the call that broke the check, and answer with it. Raises `AgentTuiError` if nothing can be run."""
    state, began_at = session.state, monotonic()
    context.emit(ev.TurnStarted(prompt=prompt, mode=state.mode, model=state.model))
    if not await session.terminal.find_box():
        raise ToolFailed(NO_BOX)
    if (refusal := await find_refusal(session, command)) is not None:
        raise ToolFailed(f"`{command}` was not run: {refusal}")
    runs = VariantRuns(session.terminal.host, {}, parse_command(command), ())
    bisection = _Bisection(session, runs, command, history)
    try:
        await runs.open()
        text = await bisection.run()
    finally:
        await runs.close()
        context.emit(ev.VerificationProgressed(command=""))
    metadata = TextMetadata(about=bisection.broken_by)
    document = TextDocument(id=new_id("doc"), sequence=1, content=text, metadata=metadata)
    context.emit(ev.DocumentStarted(id=document.id, kind="text", sequence=1))
    context.emit(ev.DocumentFinished(document=document))
    append_reminder(context.emit, f"The user had the program look for the call that broke a check.\n\n{text}")
    context.emit(ev.TurnFinished(reason="done", duration_ms=round((monotonic() - began_at) * 1000)))


class _Bisection:
    def __init__(self, session: Session, runs: VariantRuns, command: str, history: FileHistory) -> None:
        self._session, self._runs, self._command, self._history = session, runs, command, history
        self._failed: VariantResult | None = None
        self.broken_by: OptionalId = ""  # the document of the call that broke the check

    async def run(self) -> str:
        """Return the answer as Markdown."""
        steps, check = self._history.steps, f"`{self._command}`"
        if (is_green := await self._is_green(steps[-1].files)) is not False:
            return f"{check} passes over the files as they are now." if is_green else self._explain_unclear()
        if (is_green := await self._is_green(self._history.before)) is not True:
            if is_green is None:
                return self._explain_unclear()
            return f"{check} fails also over the files as they were before the first call of this session."
        first, last = -1, len(steps) - 1  # it passes after the first, and fails after the last one
        while last - first > 1:
            middle = (first + last) // 2
            is_green = await self._is_green(steps[middle].files)
            if is_green is None:
                return self._explain_unclear()
            first, last = (middle, last) if is_green else (first, middle)
        return self._describe(last)

    async def _is_green(self, files: Mapping[str, FileState]) -> bool | None:
        """Return True if the check passes over these files; None = it says nothing."""
        self._session.emit(ev.VerificationProgressed(command=self._command))
        variants = await asyncio.to_thread(self._read_variants, self._history.before | dict(files))
        result = await self._runs.run(variants, seconds=MOST_SECONDS)
        if not result.is_green:
            self._failed = result
        return None if result.is_unclear else result.is_green

    def _read_variants(self, files: Mapping[str, FileState]) -> dict[str, FileVariant]:
        blobs = self._session.shadow.blobs
        return {
            path: FileVariant(blobs.get(state.blob) if state.kind == "file" else None, state.mode)
            for path, state in files.items()
            if state.kind != "symlink"
        }

    def _explain_unclear(self) -> str:
        reason = self._failed.result.unproven if self._failed is not None else ""
        return f"`{self._command}` could not be run over an earlier state of the files. {reason}".rstrip()

    def _describe(self, index: int) -> str:
        step = self._history.steps[index]
        self.broken_by = step.document
        previous = self._history.steps[index - 1].files if index else self._history.before
        names = ", ".join(f"`{display_name(path)}`" for path in list(dict.fromkeys(step.paths))[:MAX_NAMED])
        calls = count("call", len(self._history.steps))
        turn = f" in the turn “{step.prompt}”" if step.prompt else ""
        lines = [f"`{self._command}` broke with call {index + 1} of {calls}: `{step.title}` on {names}{turn}."]
        before, after = self._history.before | previous, self._history.before | step.files
        lines += [self._render_diff(before[path], after[path]) for path in dict.fromkeys(step.paths[:MAX_NAMED])]
        if self._failed is not None:
            lines.append(f"```\n{self._failed.result.output.strip()[-MAX_OUTPUT:]}\n```")
        lines.append(f"{count('run', self._runs.count)} of the check, {self._runs.seconds:.0f} s.")
        return "\n\n".join(lines)

    def _render_diff(self, before: FileState, after: FileState) -> str:
        """Return what the call changed in a file, as a code block."""
        old, new = (
            self._session.shadow.blobs.get(state.blob).decode("utf-8", "replace").splitlines()
            if state.kind == "file"
            else []
            for state in (before, after)
        )
        rows = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
        more = [f"… {count('more line', len(rows) - MAX_LINES)}"] if len(rows) > MAX_LINES else []
        text = mask_secrets("\n".join(rows[:MAX_LINES] + more))
        fence = choose_fence(text)
        return f"{fence}diff\n{text}\n{fence}"
