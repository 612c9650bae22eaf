"""The gate: the one path of every tool call, from the model's request to one result.

parse -> authorize (find the box, check the grants, let the user type, decide, ask hooks, approve) -> execute (build the
capability, run, rerun with the network, run hooks, clip) -> record, in any case. Every call gets exactly one
`tool.finished` and one tool message, in the order of the calls: the history stays valid for every provider. READ calls
of one step run at the same time, and so do subagents and independent commands; any other access is a barrier.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import assert_never, cast

from msgspec.structs import replace

from core.agent.answer.call_documents import finish_call_documents, get_document_kind
from core.agent.answer.documents import TurnDocuments
from core.agent.base.approvals import (
    ask_for_unsandboxed_run,
    build_unsandboxed_approval,
    explain_answer,
    explain_sandboxed_only,
)
from core.agent.base.permissions import PATH_ACCESSES
from core.agent.base.user_channel import QUESTION_STILL_OPEN
from core.agent.debug.debug_policy import explain_blocked_edit
from core.agent.gate.call_hooks import CallHooks
from core.agent.gate.call_results import describe_interrupted
from core.agent.gate.capabilities import CapabilityFactory, CommandRunner, ProgramCalls, UserPrompter
from core.agent.gate.command_runs import NetworkRerun, report_blocked_hosts, split_calls
from core.agent.gate.edit_diagnostics import EditDiagnostics
from core.agent.gate.gated_call import CallStopped, GatedCall, build_finished_call, build_inner_answer, fail_call
from core.clock import monotonic
from core.errors import PathRefused, ToolInputInvalid
from core.modes import Access, find_modes_granting, is_granted
from core.permissions.approval import Approved, Escalate, Refused
from core.permissions.policy import PolicyDecision
from core.protocol.events import AnswersReported, MessageAppended, ToolFinished, ToolRequested
from core.protocol.messages import ToolCall, ToolMessage
from core.protocol.review import Origin
from core.shell.long_output import clip_text
from core.shell.program_run import NO_BOX, ProgramAnswer, ProgramCall
from core.tools.arguments import parse_call
from core.tools.base import Tool
from core.tools.builtin.terminal.command_arguments import prefix_cd
from core.tools.builtin.terminal.run_terminal_cmd import RunCode, RunTerminalCmd
from core.tools.call_tool import unwrap_call
from core.tools.foreign_calls import translate_call
from core.tools.toolset import NOT_IN_PROGRAMS, Toolset

CANCEL_PATIENCE = 0.2  # seconds that a cancelled tool has to clean up
SPAWN_PATIENCE = 15.0  # seconds that a subagent, or the calls of a program, have to stop
MAX_NAME = 80  # characters of the name of a tool that a program made up
CANCELLED = "Stopped by the user; it may have taken partial effect."
CUT_OFF = "The answer hit its length limit inside this call, so it was not run. Send less."
TIMED_OUT = "Stopped after {:.0f} seconds without a result. Ask for less at once."
NOT_GIVEN = "Not run: {} ({}) is not among the tools you have for this task. Nothing was changed. Do without it."
RESTARTED = "every command has a shell of its own; this one starts in the project, and exported variables stay"
NOT_INNER = "A program can't call {}. Call it yourself."
NO_ANSWER = "\n[Nothing answered on the user's machine at {}: it may not be running.]"
# Seconds that a call may take. Accesses that wait for the user, or have other limits, are missing (the command of a
# todo may run long). PROPOSE includes the request to a model that applies an edit.
TIME_LIMITS = {Access.READ: 60.0, Access.PROPOSE: 300.0}
_BOXED = frozenset({Access.EXEC, Access.JOB, Access.PROBE})
ResultFormat = Callable[[GatedCall], str]


class Gate:
    """The gate of the turn `turn_id`. All that decides on a call comes with the `approver` of its capabilities."""

    def __init__(
        self,
        capabilities: CapabilityFactory,
        documents: TurnDocuments,
        diagnostics: EditDiagnostics,
        *,
        tools: Toolset,
        turn_id: str,
    ) -> None:
        self.capabilities, self.documents, self.diagnostics = capabilities, documents, diagnostics
        self.tools, self.turn_id = tools, turn_id
        approver = self.approver = capabilities.approver
        self.permissions, self.emit = approver.permissions, approver.emit
        self.hooks = CallHooks(approver.hooks, approver.permissions)

    async def run(self, calls: Sequence[GatedCall], format_result: ResultFormat, get_warning: ResultFormat) -> None:
        """Run all calls of one step. Every call gets one result, also when cancelled, with `get_warning` at its end."""
        answered_count = 0
        try:
            async for together in self._run_groups(calls):
                for call in together:
                    self._append_result(call, format_result(call), get_warning(call))
                    answered_count += 1
        except asyncio.CancelledError:
            for call in calls[answered_count:]:
                if not call.is_recorded:
                    self._record(call)
                self._append_result(call, format_result(call))
            raise

    async def run_inner(self, parent: GatedCall, requests: Sequence[ProgramCall]) -> list[ProgramAnswer]:
        """Run calls of the program that `parent` runs. They are calls like any other, but no message has their results:
        the model sees what the program makes of them."""
        parent.lease.check()
        calls = [self._open_inner(parent, request) for request in requests]
        try:
            async for _ in self._run_groups(calls):
                pass
        finally:
            for call in calls:
                if not call.is_recorded:
                    self._record(call)
        state, ids = self.permissions.terminal.host.state, {call.request.id for call in calls}
        if heard := tuple(key for key, answer in state.unreported_answers.items() if answer.asked.call in ids):
            self.emit(AnswersReported(ids=heard))
        return [build_inner_answer(call) for call in calls]

    def _open_inner(self, parent: GatedCall, request: ProgramCall) -> GatedCall:
        identity = f"{parent.request.id}_{len(parent.inner) + 1}"
        tool_call = ToolCall(id=identity, name=request.tool, arguments=request.arguments)
        tool_call = translate_call(unwrap_call(tool_call))
        name = self.tools.resolve_name(tool_call.name)
        kind = get_document_kind(self.tools.get(name) or self.tools.find_external(name))
        document = self.documents.open(kind, title=name[:MAX_NAME])
        problem = NOT_INNER.format(name) if name in NOT_IN_PROGRAMS else None
        call = GatedCall(tool_call, document, tool_call.name, problem, parent=parent.request.id)
        parent.inner.append(call)
        return call

    async def _run_groups(self, calls: Sequence[GatedCall]) -> AsyncIterator[list[GatedCall]]:
        """Parse and run calls, and yield those that ran at the same time when they have ended."""
        await self._parse_all(calls)
        for access, group in groupby(calls, key=lambda call: call.access):
            for together in split_calls(access, list(group), self.permissions):
                await self._run_parallel(together)
                report_blocked_hosts(together, self.permissions)
                yield together

    async def _run_parallel(self, calls: Sequence[GatedCall]) -> None:
        """Run calls at the same time. All of them have ended when this returns or raises."""
        running = [asyncio.ensure_future(self._run_call(call)) for call in calls]
        try:
            await asyncio.gather(*running)
        finally:
            await asyncio.wait(running)  # gather returns at the first cancelled task; others may still be stopping

    async def _run_call(self, call: GatedCall) -> None:
        if call.status == "cancelled":
            call.started = monotonic()
            try:
                await self._authorize(call)
                await self._execute(call)
            except Exception as error:  # A fault of the program must not end the turn, nor show a traceback.
                fail_call(call, error)
                await self.hooks.report_failure(call)
        self._record(call)

    async def _parse_all(self, calls: Sequence[GatedCall]) -> None:
        """Parse the calls when their servers have started. Emits `tool.requested` for every call, also when
        cancelled."""
        try:
            for call in calls:
                await self.tools.wait_for_external(call.request.name)
        finally:
            for call in calls:
                self._parse(call)
                self.emit(
                    ToolRequested(
                        call=call.request.id,
                        tool=call.name,
                        arguments=call.request.arguments,
                        document=call.document.id,
                        summary=call.subject,
                        parent=call.parent,
                    )
                )

    def _parse(self, call: GatedCall) -> None:
        try:
            if call.is_truncated:
                raise CallStopped("failed", CUT_OFF, code="answer_cut")
            if call.problem is not None:
                raise ToolInputInvalid(call.problem)
            tool_type = self.tools.find(call.request.name)
            call.name, call.access = tool_type.name, tool_type.access
            parsed_call = parse_call(tool_type, call.request.arguments)
            if call.parent and parsed_call.ignored:  # nobody reads notes there
                raise ToolInputInvalid(f"{call.name} has no argument {parsed_call.ignored[0]!r}.")
            is_restart = isinstance(parsed_call.tool, RunTerminalCmd) and parsed_call.tool.is_restart
            call.tool, call.notes = self._prefix_cd(parsed_call.tool), (*parsed_call.notes, *[RESTARTED] * is_restart)
            call.subject = call.tool.subject()
        except Exception as error:  # See `_run_call`.
            fail_call(call, error)

    def _prefix_cd(self, tool: Tool[object]) -> Tool[object]:
        """Return a command with its working directory as a part of its text, which the user approves.

        Other calls are returned unchanged."""
        command: object = tool
        if isinstance(command, RunTerminalCmd) and command.is_restart:
            root = shlex.quote(str(self.permissions.terminal.host.workspace.root))
            return cast("Tool[object]", replace(command, command=f"cd {root}\n{command.command}", is_restart=False))
        if not isinstance(command, RunTerminalCmd) or not command.working_directory:
            return tool
        terminal, directory = self.permissions.terminal, command.working_directory
        with suppress(PathRefused):
            rel = terminal.host.workspace.to_relative(directory)
            directory = str(terminal.host.workspace.root / rel) if rel != terminal.shell.directory else ""
        text = prefix_cd(directory, command.command) if directory else command.command
        return cast("Tool[object]", replace(command, command=text, working_directory=""))

    # authorize

    async def _authorize(self, call: GatedCall) -> None:
        """Decide on the call and ask the user if needed.

        From then on the approval binds the call to its exact command, directory, environment and mode, so that nothing
        else runs under the user's yes."""
        assert call.access is not None
        if call.access in _BOXED:
            await self.permissions.terminal.find_box()
        self._check_granted(call)
        if self.permissions.settings.commands.policy == "human" and isinstance(call.tool, RunTerminalCmd):
            await self._let_user_type(call, call.tool)
        decision = await self.hooks.decide(call, lambda: self._decide(call))
        assert call.tool is not None
        if isinstance(call.tool, RunTerminalCmd) and call.tool.required_permissions:
            decision = await self._decide_on_request(call, call.tool, decision)
        if decision.choice != "allow":  # A denial is refused there.
            paths = self.permissions.list_named_paths(call.tool) if call.access in PATH_ACCESSES else ()
            await self._ask_for_call(call, decision)
            call.approved_paths = paths
            self._check_granted(call)  # The mode may have changed while the user decided.
        if call.access is Access.EXEC and not call.is_unsandboxed:
            call.weighed = self.permissions.weigh_request(call.tool)
            call.approval = self.permissions.build_call_approval(call.tool)

    async def _ask_for_call(self, call: GatedCall, decision: PolicyDecision) -> None:
        """Ask the user, who may also choose to run a command outside the box. Raises `CallStopped` for a no."""
        assert call.access is not None
        assert call.tool is not None
        _check_not_denied(decision)
        tool, ask = call.tool, self.approver.ask_for_call
        command = tool if isinstance(tool, RunTerminalCmd) and self.permissions.terminal.is_contained else None
        can_leave = command is not None and explain_sandboxed_only(self.permissions, command) is None
        answer = await ask(call.request.id, call.access, tool, decision.reason, can_leave=can_leave)
        if isinstance(answer, Escalate) and command is not None:
            outward = replace(command, required_permissions=(*command.required_permissions, "all"))
            decision = await self._decide_on_request(call, outward, decision)
            _check_not_denied(decision)
            if decision.choice == "allow":
                return
            answer = await ask(call.request.id, call.access, tool, decision.reason)
        if (refusal := explain_answer(answer)) is not None:
            raise CallStopped("denied", f"Not run: {refusal}")

    async def _decide_on_request(
        self, call: GatedCall, tool: RunTerminalCmd, decision: PolicyDecision
    ) -> PolicyDecision:
        """Decide on a command that requests permissions; ask the user if it requests to leave the box."""
        targets = self.permissions.weigh_request(tool).targets
        if "all" in tool.required_permissions:
            match answer := await ask_for_unsandboxed_run(self.approver, call.request.id, tool):
                case Refused():
                    raise CallStopped("denied", f"Not run: {answer.reason}")
                case Escalate():
                    self._check_granted(call)
                    call.is_ruled = answer.is_ruled
                    call.approval = build_unsandboxed_approval(self.permissions, tool)
                    return PolicyDecision(choice="allow")
                case Approved():
                    self._check_granted(call)
                    return PolicyDecision(choice="ask" if targets else "allow")
                case _:
                    assert_never(answer)
        return self._decide(call) if targets and decision.choice == "allow" else decision

    def _decide(self, call: GatedCall) -> PolicyDecision:
        """Decide by rules and policy. Raises `CallStopped` for a call that they refuse."""
        assert call.access is not None
        assert call.tool is not None
        decision = self.permissions.decide(call.access, call.tool, is_typed=bool(call.proposed_command))
        _check_not_denied(decision)
        return decision

    def _check_granted(self, call: GatedCall) -> None:
        """Check the access against the present mode, which may differ from the one in which the model chose the
        call."""
        permissions, access = self.permissions, call.access
        assert access is not None
        if (reason := permissions.explain_tool_refusal(call.name, access)) is not None:
            raise CallStopped("denied", f"Not run: {call.name} {reason}. Nothing was changed. Do without it.")
        is_switch = permissions.subagent_limits is not None and call.name == "switch_mode"
        is_withheld = is_switch or not permissions.is_tool_granted(call.name)
        if is_withheld or not permissions.is_granted(access):
            raise CallStopped("denied", self._explain_refusal(call.name, access))
        if call.name == RunCode.name and not permissions.terminal.is_contained:
            raise CallStopped("denied", f"Not run: {NO_BOX}")
        if (reason := explain_blocked_edit(permissions.terminal.host.state, access)) is not None:
            raise CallStopped("denied", reason)

    def _explain_refusal(self, name: str, access: Access) -> str:
        """Explain to the model why the mode, or the limits of a subagent, refuse an access, and the alternatives."""
        mode, is_contained = self.permissions.mode, self.permissions.terminal.is_contained
        if is_granted(mode, access, is_contained=is_contained):
            return NOT_GIVEN.format(name, access.value)
        elsewhere = find_modes_granting(access, is_contained=is_contained)
        text = f"Not run: {mode.value} mode does not allow {name} ({access.value}). Nothing was changed."
        if not elsewhere:
            return f"{text} No mode allows it here; describe what you would do instead."
        modes = " or ".join(mode.value for mode in elsewhere)
        return (
            f"{text} It is possible in {modes} mode: if the request needs it, propose that mode with "
            "switch_mode; otherwise describe what you would do."
        )

    async def _let_user_type(self, call: GatedCall, proposal: RunTerminalCmd) -> None:
        typed_tool = await self.approver.ask_for_command(call.request.id, proposal)
        if typed_tool is not None:
            self._check_granted(call)  # The mode may have changed meanwhile.
            call.proposed_command = proposal.command
            call.tool, call.subject = cast("Tool[object]", typed_tool), typed_tool.subject()

    # execute

    async def _execute(self, call: GatedCall) -> None:
        grants = self.permissions.network_grants
        if isinstance(call.tool, RunTerminalCmd) and not call.tool.is_background:
            try:
                grants.grant(call.weighed.hosts, for_session=False)
                grants.grant_services(call.weighed.services, for_session=False)
                rerun = NetworkRerun(self.approver, call, self._check_granted)
                await self._run_tool(call, None if call.is_parallel else rerun)
                call.text = rerun.format_result(call.text)
                if unanswered_hosts := grants.pop_unanswered():
                    call.text += NO_ANSWER.format(", ".join(unanswered_hosts))
                call.text += "".join(f"\n[{reason}]" for reason in grants.pop_inner())
                if call.is_unsandboxed:
                    grants.record_received()  # The command may have received foreign text.
            finally:
                grants.revoke_once()
        else:
            await self._run_tool(call)
        if call.access in _BOXED:
            call.received = tuple(grants.pop_received())
            self.permissions.record_foreign(call.received)
        if call.access is Access.PROPOSE and call.status == "completed":
            call.text = "\n".join(filter(None, (call.text, await self.diagnostics.describe_edit())))
        if call.status == "completed":
            await self.hooks.report_end(call)
        if call.parent:
            return  # The whole result goes to the program.
        call.text, spill_path = clip_text(
            self.permissions.terminal.host.directory, call.request.id, f"{call.format_preamble()}{call.text}"
        )
        call.spilled = spill_path or call.outcome.spilled

    async def _run_tool(self, call: GatedCall, rerun: NetworkRerun | None = None) -> None:
        assert call.access is not None
        assert call.tool is not None
        call.started = monotonic()  # The user's time to decide does not count.
        self.permissions.record_exposure(call.access, call.tool, self.turn_id)
        origin = Origin(turn=self.turn_id, call=call.request.id, tool=call.name)
        call.capability = self.capabilities.build(call.access, origin, call.approval, call.lease, call.approved_paths)
        if isinstance(call.capability, CommandRunner):
            call.capability.is_attended = not call.is_ruled
            call.capability.should_run_again = rerun.should_run_again if rerun is not None else None
            if isinstance(call.tool, RunCode):
                call.capability.programs = ProgramCalls(partial(self.run_inner, call), self.tools.list_parameters)
        limit = TIME_LIMITS.get(call.access)
        work = asyncio.ensure_future(call.tool.run(call.capability))
        call.text = CANCELLED
        try:
            finished_tasks, _ = await asyncio.wait({work}, timeout=limit)
        finally:
            if not work.done():
                work.cancel()
                has_inner_work = call.access is Access.SPAWN or isinstance(call.tool, RunCode)
                await asyncio.wait({work}, timeout=SPAWN_PATIENCE if has_inner_work else CANCEL_PATIENCE)
                call.text = self._describe_interrupt(call)
            call.lease.end()
            if work.done() and not work.cancelled():
                work.exception()
        if not finished_tasks:
            raise CallStopped("failed", TIMED_OUT.format(limit), code="timed_out")
        if work.cancelled():
            raise CallStopped("failed", "The tool gave up.")
        call.outcome = work.result()
        call.status, call.text = ("failed" if call.outcome.failed else "completed"), call.outcome.content

    def _describe_interrupt(self, call: GatedCall) -> str:
        capability = call.capability
        if isinstance(capability, CommandRunner):
            return capability.describe_interrupt(CANCELLED)
        if isinstance(capability, UserPrompter) and capability.questions:
            return QUESTION_STILL_OPEN
        return describe_interrupted(self.permissions.terminal.host.state, call.request.id) or CANCELLED

    # record

    def _record(self, call: GatedCall) -> None:
        call.is_recorded = True
        for attachment in call.outcome.attachments:
            self.permissions.terminal.host.shadow.blobs.put(attachment.data)
        finished_call = build_finished_call(call, str(self.permissions.terminal.host.workspace.root))
        finish_call_documents(self.documents, finished_call)
        self.emit(
            ToolFinished(
                call=call.request.id,
                tool=call.name,
                status=call.status,
                duration_ms=finished_call.duration_ms,
                summary=finished_call.summary,
                spilled=call.spilled,
            )
        )

    def _append_result(self, call: GatedCall, text: str, warning: str = "") -> None:
        message = ToolMessage(
            call_id=call.request.id,
            content=f"{text}\n{warning}".strip() or "(no output)",
            is_error=call.status != "completed",
            attachments=tuple(attachment.attachment for attachment in call.outcome.attachments),
            tools=call.outcome.tools,
        )
        self.emit(MessageAppended(message=message))


def _check_not_denied(decision: PolicyDecision) -> None:
    """Raise `CallStopped` for a denial."""
    if decision.choice == "deny":
        raise CallStopped("denied", f"Not run: {decision.reason} Nothing was changed. Do not try it in another form.")
