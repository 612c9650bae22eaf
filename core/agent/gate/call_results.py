"""Results of calls as the model gets them: in the words of its dialect, and of a task whose subagent did not finish."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from core.agent.answer.documents import TurnDocuments
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.memory import ModelMemory
from core.agent.gate.gated_call import GatedCall
from core.dialects.dialect import CallResult, Dialect
from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.protocol.messages import AssistantMessage
from core.shell.command_host import CommandHost
from core.shell.jobs import BackgroundJob, JobTable
from core.shell.long_output import clip_text
from core.state.session import SessionState, SubagentState
from core.tools.base import TerminalDetail

_TERMINAL_TOOLS = frozenset({"run_terminal_cmd", "read_terminal", "write_terminal", "stop_terminal"})


class ResultFormatter(Struct, frozen=True):
    """Formats the results of one step. In a user message, foreign text must not contain our tags."""

    dialect: Dialect
    host: CommandHost
    jobs: JobTable

    def format(self, call: GatedCall) -> str:
        """Return the result of a finished call for the model."""
        if isinstance(self.dialect, NativeDialect):
            return escape_tags(call.text) if self._is_in_text(call) else call.text
        text = f"{escape_tags(call.format_preamble())}{self.dialect.format_result(self._build_result(call))}"
        return clip_text(self.host.directory, call.request.id, text)[0]

    def _is_in_text(self, call: GatedCall) -> bool:
        """True if a call is written in the text of the latest answer, so that its result becomes a user message."""
        answers = (message for message in reversed(self.host.state.messages) if isinstance(message, AssistantMessage))
        latest = next(answers, None)
        return latest is not None and call.request.id in latest.in_text

    def _build_result(self, call: GatedCall) -> CallResult:
        detail, content, job = call.outcome.detail, escape_tags(call.text), self._find_job(call)
        if isinstance(detail, TerminalDetail):
            return CallResult(
                content=content,
                command=detail.command,
                exit_code=detail.exit_code,
                output=escape_tags(detail.output),
                is_timed_out=detail.timed_out,
                is_running=job is not None,
                notes=tuple(map(escape_tags, detail.notes)),
            )
        if job is None:
            return CallResult(content=content)
        code = job.result.exit_code if job.result else None
        return CallResult(content=content, command=job.command, exit_code=code, output=content, is_running=job.is_alive)

    def _find_job(self, call: GatedCall) -> BackgroundJob | None:
        if call.name not in _TERMINAL_TOOLS:
            return None
        if job_id := getattr(call.tool, "job", ""):
            return self.jobs.get_job(job_id) if call.status == "completed" else None
        running = self.jobs.running_jobs
        return next((job for job in running if job.execution.request.origin.call == call.request.id), None)

    def track_foreground_job(self, calls: Sequence[GatedCall], memory: ModelMemory) -> None:
        """Track the command that still runs in the model's terminal after a step, until the model knows its end."""
        if not isinstance(self.dialect, TagDialect):
            return
        for call in calls:
            job = self._find_job(call)
            if job is not None and job.is_alive:
                memory.foreground_job = job.id
            elif job is not None and memory.foreground_job == job.id:
                memory.foreground_job = ""

    def show_submission(self, calls: Sequence[GatedCall], documents: TurnDocuments) -> bool:
        """Show the final message of a call that ends the turn. Returns True if there is one."""
        ending = next((call.tool for call in calls if call.name == "finish" and call.status == "completed"), None)
        if ending is not None:
            if message := str(getattr(ending, "message", "")).strip():
                documents.add_text(message)
            return True
        results = map(self._build_result, calls)
        last = next((result for result in results if self.dialect.is_final(result)), None)
        if last is None:
            return False
        if final := self.dialect.extract_submission(last):
            documents.add_text(final)
        return True


def describe_unfinished(subagent: SubagentState, reason: str, *, is_readonly: bool = False) -> str:
    """Return the result of a task whose subagent did not finish for `reason`, with the way to resume it."""
    note = "" if is_readonly else " Its changes are kept with it and not merged."
    name = f"{subagent.agent} {subagent.id}"
    return f"[{name} did not finish: {reason.rstrip('.')}.{note} Call again with `resume` and this id to continue it.]"


def describe_interrupted(state: SessionState, call: str) -> str | None:
    """Return the result of the interrupted task call `call`; None: no subagent works on it."""
    subagent = next(
        (candidate for candidate in state.subagents.values() if candidate.agent and candidate.call == call), None
    )
    if subagent is None:
        return None
    if subagent.state in {"merging", "merged"}:
        merge_note = f"[{subagent.agent} {subagent.id} is done, and its changes are merged into yours.]"
        return "\n\n".join(filter(None, (subagent.said, merge_note)))
    return describe_unfinished(subagent, subagent.message or "it was stopped")
