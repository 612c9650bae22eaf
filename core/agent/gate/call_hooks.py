"""The hooks of tool calls: run before and after a call, and the one module that applies their answers.

An answer can refuse a call, demand a question to the user, or change its arguments, which are then checked, decided on
and shown to the hooks again. It can't allow a call that rules, mode or the user decide on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.answer.call_documents import decode_arguments
from core.agent.base.permissions import CallPermissions
from core.agent.gate.gated_call import CallStopped, GatedCall
from core.errors import PathRefused, ToolInputInvalid
from core.hooks.dialect_names import HookEvent, list_tool_names, restore_arguments
from core.hooks.payload import HookCall
from core.hooks.session_hooks import NO_OUTCOME, HookOccasion, HookOutcome, SessionHooks
from core.modes import Access
from core.permissions.policy import PolicyDecision
from core.protocol.review import FileState
from core.tools.arguments import convert_arguments
from core.tools.external import ExternalTool

MAX_CHANGES = 2  # changes of one call's arguments by hooks
MAX_READ = 2_000_000  # bytes of a file in the payload of a hook
_BEFORE = (HookEvent.PRE_TOOL, HookEvent.BEFORE_SHELL, HookEvent.BEFORE_MCP, HookEvent.BEFORE_READ)
_AFTER = (HookEvent.POST_TOOL, HookEvent.AFTER_SHELL, HookEvent.AFTER_MCP, HookEvent.AFTER_EDIT)
_READING_TOOLS = frozenset({"read_file", "read_many_files"})
_SHELL_TOOLS = frozenset({"run_terminal_cmd", "run_python", "run_code"})
Decide = Callable[[], PolicyDecision]


class CallHooks(Struct, frozen=True):
    """The hooks of one turn's calls. `_pending`: by the id of an edit, the pending files before it."""

    hooks: SessionHooks
    permissions: CallPermissions
    _pending: dict[str, dict[str, FileState]] = field(default_factory=dict)

    async def decide(self, call: GatedCall, decide: Decide) -> PolicyDecision:
        """Return the decision on a call, including that of hooks. `decide`: decides by mode, rules and policy alone.

        Both raise `CallStopped` for a refusal."""
        decision = decide()
        if not self.hooks.has(*_BEFORE):
            self._record_pending(call)
            return decision
        for _ in range(MAX_CHANGES):
            outcome = await self._ask(call)
            if (refusal := outcome.describe_refusal()) is not None:
                raise CallStopped("denied", f"Not run: {refusal} Nothing was changed.")
            if outcome.changed_input is None or not _change_arguments(call, outcome):
                break
            decision = decide()
        else:
            raise CallStopped("denied", "Not run: hooks keep changing the call. Nothing was changed.")
        self._record_pending(call)
        if outcome.permission == "ask" and decision.choice == "allow":
            return PolicyDecision(
                choice="ask", reason=f"The hook {outcome.decider} wants you to be asked. {outcome.reason}"
            )
        return decision

    async def _ask(self, call: GatedCall) -> HookOutcome:
        """Run the hooks for every file that the call names, and for the call itself; the first refusal counts."""
        changed_outcome: HookOutcome | None = None
        asking: HookOutcome = NO_OUTCOME
        for path in self._list_paths(call) or ("",):
            for occasion in self._build_before(call, path):
                outcome = await self.hooks.run(occasion)
                if outcome.is_denied:
                    return outcome
                asking = outcome if outcome.permission == "ask" else asking
                changed_outcome = changed_outcome or (outcome if outcome.changed_input is not None else None)
        return changed_outcome or asking

    def _list_paths(self, call: GatedCall) -> tuple[str, ...]:
        return () if call.tool is None else self.permissions.list_named_paths(call.tool)

    def _build_before(self, call: GatedCall, path: str) -> list[HookOccasion]:
        hook_call = _build_call(call, path)
        occasions = [_build_occasion(HookEvent.PRE_TOOL, call, hook_call)]
        if call.name in _SHELL_TOOLS:
            occasions.append(HookOccasion(event=HookEvent.BEFORE_SHELL, call=hook_call, subjects=(call.subject,)))
        if call.access is Access.EXTERNAL:
            occasions.append(_build_occasion(HookEvent.BEFORE_MCP, call, hook_call))
        if call.name in _READING_TOOLS and path and self.hooks.has(HookEvent.BEFORE_READ):
            fields = {"content": self._read_text(path), "attachments": []}
            occasions.append(_build_occasion(HookEvent.BEFORE_READ, call, hook_call, fields))
        return [occasion for occasion in occasions if self.hooks.has(occasion.event)]

    def _read_text(self, path: str) -> str:
        try:
            data = self.permissions.terminal.host.shadow.read(path, MAX_READ)
        except PathRefused:
            return ""
        return (data or b"").decode("utf-8", "replace")

    # after the call

    def _record_pending(self, call: GatedCall) -> None:
        if call.access is Access.PROPOSE and self.hooks.has(HookEvent.AFTER_EDIT):
            self._pending[call.request.id] = self._list_pending()

    def _list_pending(self) -> dict[str, FileState]:
        return {path: change.pending for path, change in self.permissions.terminal.host.state.changes.items()}

    async def report_end(self, call: GatedCall) -> None:
        """Run the hooks after a call that has run, and add their messages and changes to its result."""
        before = self._pending.pop(call.request.id, None)
        if not self.hooks.has(*_AFTER):
            return
        result, additions = call.text, list[str]()
        for occasion in self._build_after(call, result, before):
            outcome = await self.hooks.run(occasion)
            if outcome.output is not None:
                call.text = call.hook_output = outcome.output
            additions += _describe_additions(outcome)
        call.text = "\n".join((call.text, *additions))
        if call.text != result:
            call.outcome = replace(call.outcome, build_data=None)  # A program gets what the hooks made of it.

    def _build_after(self, call: GatedCall, result: str, before: dict[str, FileState] | None) -> list[HookOccasion]:
        occasions = []
        if before is not None:
            now = self._list_pending()
            edited_paths = [path for path in {**before, **now} if before.get(path) != now.get(path)]
            for path in edited_paths:
                fields = {"edits": self._list_edits(call, path)}
                hook_call = _build_call(call, path, result)
                occasions.append(_build_occasion(HookEvent.AFTER_EDIT, call, hook_call, fields))
        hook_call = _build_call(call, next(iter(self._list_paths(call)), ""), result)
        if call.name in _SHELL_TOOLS:
            occasions.append(HookOccasion(event=HookEvent.AFTER_SHELL, call=hook_call, subjects=(call.subject,)))
        if call.access is Access.EXTERNAL:
            occasions.append(_build_occasion(HookEvent.AFTER_MCP, call, hook_call))
        occasions.append(_build_occasion(HookEvent.POST_TOOL, call, hook_call))
        return [occasion for occasion in occasions if self.hooks.has(occasion.event)]

    def _list_edits(self, call: GatedCall, path: str) -> list[dict[str, str]]:
        arguments = decode_arguments(call.request.arguments)
        pairs = arguments.get("edits") if isinstance(arguments.get("edits"), list) else [arguments]
        edits = [
            {"old_string": str(edit["old_string"]), "new_string": str(edit["new_string"])}
            for edit in pairs or ()
            if isinstance(edit, dict) and {"old_string", "new_string"} <= edit.keys()
        ]
        return edits or [{"old_string": "", "new_string": self._read_text(path)}]

    async def report_failure(self, call: GatedCall) -> None:
        """Run the hooks after a call that was refused or has failed."""
        if call.tool is None or not self.hooks.has(HookEvent.POST_FAILURE):
            return
        kind = "permission_denied" if call.status == "denied" else "error"
        fields = {"error": call.text, "error_message": call.text, "failure_type": kind, "is_interrupt": False}
        hook_call = _build_call(call, next(iter(self._list_paths(call)), ""))
        occasion = _build_occasion(HookEvent.POST_FAILURE, call, hook_call, fields)
        call.text = "\n".join((call.text, *_describe_additions(await self.hooks.run(occasion))))


def _build_call(call: GatedCall, path: str, result: str = "") -> HookCall:
    return HookCall(tool=call.name, call=call.request.id, arguments=_list_arguments(call), path=path, result=result)


def _list_arguments(call: GatedCall) -> dict[str, Any]:
    """Return the arguments as the tool parsed them: those in the call, also under other names, without defaults."""
    if call.tool is None:
        return decode_arguments(call.request.arguments)
    if isinstance(call.tool, ExternalTool):
        return dict(call.tool.arguments)
    argument_keys = decode_arguments(call.request.arguments).keys()
    names = {call.tool.argument_names.get(name, name) for name in argument_keys}
    fields = msgspec.structs.fields(type(call.tool))
    names |= {field.encode_name for field in fields if getattr(call.tool, field.name) != field.default}
    return {name: value for name, value in msgspec.to_builtins(call.tool).items() if name in names}


def _build_occasion(
    event: HookEvent, call: GatedCall, hook_call: HookCall, fields: Mapping[str, Any] = {}
) -> HookOccasion:
    """Build the event of a call with the texts for matchers (names of the tool) and conditions (command, path)."""
    texts = tuple(filter(None, (call.subject, hook_call.path)))
    return HookOccasion(event=event, call=hook_call, fields=fields, subjects=list_tool_names(call.name), texts=texts)


def _change_arguments(call: GatedCall, outcome: HookOutcome) -> bool:
    """Replace the call's arguments by those of a hook. Returns False if they are the same. Raises `CallStopped`."""
    assert call.tool is not None
    before = _list_arguments(call)
    after = restore_arguments(call.name, outcome.changed_input or {}, before)
    for name in _list_path_names(before):
        if isinstance(after.get(name), str) and after[name].endswith(f"/{before[name]}"):
            after[name] = before[name]  # Hooks get absolute paths, and return them.
    if after == before:
        return False
    try:
        arguments = {"arguments": after} if isinstance(call.tool, ExternalTool) else after
        call.tool = convert_arguments(type(call.tool), msgspec.json.encode(arguments).decode())
    except ToolInputInvalid as problem:
        reason = f"a hook changed the call into an invalid one: {problem.message}"
        raise CallStopped("denied", f"Not run: {reason} Nothing was changed.") from problem
    call.subject = call.tool.subject()
    call.changed_by = outcome.describe_change()
    return True


def _list_path_names(arguments: dict[str, Any]) -> list[str]:
    return [name for name, value in arguments.items() if isinstance(value, str) and "\n" not in value]


def _describe_additions(outcome: HookOutcome) -> list[str]:
    """Return lines for the model about the changes and additions of hooks."""
    lines = []
    for hook, answer in outcome.answers:
        if answer.effects:
            lines.append(f"[The hook `{hook.command[:120]}` {answer.effects}]")
        if answer.context:
            lines.append(f"[The hook `{hook.command[:120]}` says: {answer.context}]")
    return lines
