"""The question whether one exact command may leave the box: asked each time, never answered by the model or for good.

A rule of the user that names the command exactly counts only where nobody can be asked (`-p --allow`), and only in the
project's top: elsewhere the same words may mean another repository, whose settings run programs. What strangers
wrote in the conversation may be why a model asks, so then the user is asked twice, and without a user it is refused.
"""

from __future__ import annotations

from typing import Literal, cast

from msgspec import Struct

from core.agent.gate.approvals import Approver
from core.agent.gate.permissions import CallPermissions
from core.git.nested_repositories import find_nested_repositories, is_bare_repository
from core.ids import new_id
from core.permissions.approval import Approval, list_requested
from core.permissions.rules import find_strictest, select_rules
from core.protocol.events import ApprovalDecision, ApprovalRequested, ApprovalResolved
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

BOXED_OPTIONS: tuple[ApprovalDecision, ...] = ("run_on_machine", "allow_once", "reject_once")
UNBOXED_OPTIONS: tuple[ApprovalDecision, ...] = ("run_on_machine", "reject_once")
CONTAINMENT = "as you, with your environment and network; what it does is not reviewed"
IN_BOX = "Without `all` it runs in the box."
BACKGROUND = f"only a command in the foreground can leave the box. {IN_BOX}"
BELOW = f"a subagent's commands do not leave the box: say in your report what the user should run. {IN_BOX}"
UNTRUSTED = f"the user has not said that they trust this project, so no command leaves the box. {IN_BOX}"
NOTHING_KEPT = f"nothing may change now, so no command leaves the box. {IN_BOX}"
NOBODY = "Nobody can be asked. `-p --allow 'Machine(COMMAND)'` lets exactly that command out of the box."
FOREIGN_ALONE = "Text from {} is in the conversation, and nobody can be asked."
FOREIGN = "Text from {} is in the conversation, and may be why the agent asks this."
NESTED = "{} is a repository of its own inside the project: git there runs the hooks and programs that it names"
NOT_AT_TOP = (
    "A rule names exactly this command, for the project's top alone, and the shell is in {}. Go to the top first."
)
BARE_TOP = "A rule names exactly this command, but the project's top looks like a bare repository."
CHANGED = "the mode or the place changed after this was asked. Nothing was changed; call again."


class MachineAnswer(Struct, frozen=True):
    """`choice`: where the command may run. `reason`: why it must not run at all."""

    choice: Literal["machine", "box", "nowhere"]
    reason: str = ""


async def ask_for_machine(approver: Approver, call: str, tool: RunTerminalCmd) -> MachineAnswer:
    """Ask whether a command may run on the user's machine. The approval of a yes is `build_machine_approval`."""
    permissions = approver.permissions
    refusal = explain_confinement(permissions, tool)
    if refusal := refusal or await approver.find_hook_refusal(call, cast("Tool[object]", tool)):
        return MachineAnswer("nowhere", refusal)
    before, foreign = build_machine_approval(permissions, tool), _name_foreign(permissions)
    if not approver.user.is_interactive:
        return _answer_by_rule(approver, _build_request(call, tool, approver, before), foreign)
    if foreign and not await _ask_about_foreign(approver, call, tool, foreign):
        return MachineAnswer("nowhere", "The user refused this call. Nothing was changed.")
    resolution = await approver.user.approve(_build_request(call, tool, approver, before))
    if resolution.decision not in {"run_on_machine", "allow_once"}:
        note = f" {resolution.note}" if resolution.note else ""
        return MachineAnswer("nowhere", f"The user refused this call.{note} Nothing was changed.")
    if explain_confinement(permissions, tool) or build_machine_approval(permissions, tool) != before:
        return MachineAnswer("nowhere", CHANGED)
    return MachineAnswer("machine" if resolution.decision == "run_on_machine" else "box")


def build_machine_approval(permissions: CallPermissions, tool: RunTerminalCmd) -> Approval:
    """Build the approval of a command that runs on the user's machine."""
    return permissions.build_approval(tool.command, list_requested(tool.required_permissions))


def explain_confinement(permissions: CallPermissions, tool: RunTerminalCmd) -> str:
    """Explain why a command can't leave the box, whatever the user would say; "" = they may be asked."""
    if tool.is_background:
        return BACKGROUND
    if permissions.subagent_limits is not None:
        return BELOW
    if not permissions.is_trusted:
        return UNTRUSTED
    if not permissions.terminal.keeps_effects():
        return NOTHING_KEPT
    rules = select_rules(permissions.load_rules(), "Machine")
    rule = find_strictest(permission_rule for permission_rule in rules if permission_rule.matches(tool.command))
    return f"The rule {rule} refuses it outside of the box." if rule is not None and rule.choice == "deny" else ""


def _name_foreign(permissions: CallPermissions) -> str:
    sources = tuple(permissions.terminal.host.state.foreign_sources)
    return ", ".join(sources[:3]) + (" and others" if len(sources) > 3 else "")


def _build_request(call: str, tool: RunTerminalCmd, approver: Approver, approval: Approval) -> ApprovalRequested:
    terminal = approver.permissions.terminal
    root, waiting = terminal.host.workspace.root, len(terminal.host.state.changes)
    nested_repositories = find_nested_repositories(root, approval.directory, approval.subject)
    warning = f"{NESTED.format(', '.join(nested_repositories))}; " if nested_repositories else ""
    pending = f"; {waiting:,} {'file waits' if waiting == 1 else 'files wait'} for your review: it sees what is on disk"
    return ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="machine",
        subject=approval.subject,
        directory=approval.directory,
        explanation=tool.explanation,
        containment=f"{warning}{CONTAINMENT}{pending if waiting else ''}",
        options=BOXED_OPTIONS if terminal.is_contained else UNBOXED_OPTIONS,
        permissions=approval.permissions,
        mode=approval.mode,
        digest=approval.compute_digest(),
    )


def _answer_by_rule(approver: Approver, request: ApprovalRequested, foreign: str) -> MachineAnswer:
    """Answer by the user's rules where nobody can be asked; question and answer are recorded like any other."""
    allowing = select_rules(approver.permissions.load_rules(), "Machine", "allow")
    is_named = any(rule.matches(request.subject) for rule in allowing)
    directory_problem = _explain_place(approver.permissions, request.directory)
    approver.emit(request)
    if is_named and not foreign and not directory_problem:
        note = "A rule names exactly this command."
        approver.emit(ApprovalResolved(id=request.id, decision="run_on_machine", by="user", note=note))
        return MachineAnswer("machine")
    note = (directory_problem or FOREIGN_ALONE.format(foreign)) if is_named else NOBODY
    approver.emit(ApprovalResolved(id=request.id, decision="reject_once", by="program", note=note))
    return MachineAnswer("nowhere", f"The program refused this call. {note} Nothing was changed.")


def _explain_place(permissions: CallPermissions, directory: str) -> str:
    """Explain why no rule holds where the shell is, "" = it is the project's top."""
    if directory != ".":
        return NOT_AT_TOP.format(directory)
    return BARE_TOP if is_bare_repository(permissions.terminal.host.workspace.root) else ""


async def _ask_about_foreign(approver: Approver, call: str, tool: RunTerminalCmd, foreign: str) -> bool:
    request = ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="tool",
        subject=f"to ask you whether this may leave the box: {tool.command}",
        reason=FOREIGN.format(foreign),
        mode=approver.permissions.mode.value,
    )
    return (await approver.user.approve(request)).decision == "allow_once"
