"""Approvals: questions to the user about calls, hosts and services, and what their answers bind.

A question is built from the `Approval` of the call; the runner of a command builds it again and compares, so a yes
holds for these bytes in this directory and mode, once. Commands may be left to the user (`human`): the model proposes,
the user types. The network is asked about afterwards, for the hosts that a command tried to reach.

Whether one exact command may leave the box is never answered by the model. A rule of the user that names the command
exactly (*always*, their configuration, `-p --allow`) answers for them, but only in the project's top directory and not
where the command concerns another repository: there the same words may run other programs. Foreign text in the
conversation may be why a model asks, so then the user is asked twice in spite of rules, and without a user the answer
is no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, assert_never, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.permissions import CallPermissions
from core.agent.base.user_channel import UserChannel
from core.errors import AgentTuiError, ConfigError
from core.git.nested_repositories import find_nested_repositories, is_bare_repository
from core.hooks.dialect_names import HookEvent, list_tool_names
from core.hooks.payload import HookCall
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.ids import new_id
from core.modes import Access
from core.permissions.approval import Approval, ApprovalAnswer, Approved, Escalate, Refused, list_requested
from core.permissions.rules import PermissionChoice, PermissionKind, find_strictest, parse_rule, select_rules
from core.protocol.documents import Option, Question
from core.protocol.events import AnyEvent, ApprovalDecision, ApprovalRequested, ApprovalResolved, Notice, QuestionAsked
from core.sandbox.addresses import HostAndPort
from core.sandbox.box import Tier
from core.sandbox.results import CommandResult
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.external import ExternalTool

ONCE_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "reject_once")
ALL_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
NETWORK_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_session", "allow_always", "reject_once")
TARGET_OPTIONS: tuple[ApprovalDecision, ...] = (*NETWORK_OPTIONS, "reject_always")
ALLOWING_DECISIONS = frozenset({"allow_once", "allow_always", "allow_session"})
_PROPOSED = "as_proposed"
_MAX_SHOWN = 2_000  # characters of a proposed command
BOXED_OPTIONS: tuple[ApprovalDecision, ...] = ("run_on_machine", "allow_once", "reject_once")
RULED_OPTIONS: tuple[ApprovalDecision, ...] = ("run_on_machine", "allow_always", "allow_once", "reject_once")
UNSANDBOXED_OPTIONS: tuple[ApprovalDecision, ...] = ("run_on_machine", "reject_once")
CONTAINMENT = "runs as you, with your environment and network; nothing it does is reviewed"
IN_BOX = "Without `all` it runs in the sandbox."
REFUSED: Final = "{} refused this call.{} Nothing was changed. Do not try it in another form."
ONLY_IN_BOX = f"this command can only run in the sandbox. {IN_BOX}"
BACKGROUND = f"only a foreground command can run unsandboxed. {IN_BOX}"
NOT_IN_SUBAGENTS = f"a subagent's commands always stay sandboxed: say in your report what the user should run. {IN_BOX}"
UNTRUSTED = f"the user has not trusted this project, so no command runs unsandboxed. {IN_BOX}"
NO_EFFECTS = f"nothing may change now, so no command runs unsandboxed. {IN_BOX}"
NOBODY = "Nobody can be asked. `-p --allow 'Machine(COMMAND)'` lets exactly that command run unsandboxed."
FOREIGN_ALONE = "The conversation holds text from {}, and nobody can be asked."
FOREIGN = "The conversation holds text from {}, which may be why the agent asks for this."
NESTED = "{} is a separate repository inside the project: git there runs its own hooks and programs"
BY_RULE = "A rule allows exactly this command."
NOT_AT_TOP = (
    "A rule allows exactly this command, but only at the top of the project, and the shell is in {}. "
    "Go to the top first."
)
BARE_TOP = "A rule allows exactly this command, but the top of the project looks like a bare repository."
CHANGED = "the mode or directory changed after this was asked. Nothing was changed; call again."


class Approver(Struct, frozen=True):
    """Asks the user about calls of one session, and saves answers that were given for good."""

    user: UserChannel
    permissions: CallPermissions
    emit: Callable[[AnyEvent], None]
    hooks: SessionHooks = field(default_factory=SessionHooks)

    async def ask_for_call(
        self, call: str, access: Access, tool: Tool[object], reason: str, *, can_leave: bool = False
    ) -> ApprovalAnswer:
        """Ask whether a call may run. `can_leave`: the user may choose to run the command outside of the box."""
        if (reason_against := await self.find_hook_refusal(call, tool)) is not None:
            return Refused(reason_against)
        before = self._build_approval(access, tool)
        request = self._build_request(call, access, tool, before, reason)
        if can_leave:
            request = replace(request, options=(*request.options, "run_on_machine"))
        is_on_machine = access is Access.EXEC and self.permissions.terminal.host.box.tier is Tier.NONE
        if is_on_machine and not self.user.is_interactive:
            foreign = self.permissions.network_grants.name_foreign()
            answer = _answer_by_rule(self, request, foreign)  # nothing contains it, as if it had asked to leave a box
            return answer if isinstance(answer, Refused) else Approved()
        resolution = await self.user.approve(request)
        if can_leave and resolution.decision == "run_on_machine":
            return Escalate()
        if resolution.by == "user" and resolution.decision in {"allow_always", "reject_always"}:
            choice: PermissionChoice = "allow" if resolution.decision == "allow_always" else "deny"
            await self.save_rules(choice, before, [_name_rule(access, before.subject, resolution.pattern)])
        if resolution.decision not in ALLOWING_DECISIONS:
            return _build_refusal(resolution)
        weighed_request, grants = self.permissions.weigh_request(tool), self.permissions.network_grants
        if self._build_approval(access, tool).compute_digest() != before.compute_digest():
            return Refused(CHANGED)
        if resolution.decision == "allow_session":
            grants.grant(weighed_request.hosts, for_session=True)
            grants.grant_services(weighed_request.services, for_session=True)
        return Approved()

    async def find_hook_refusal(self, call: str, tool: Tool[object]) -> str | None:
        """Return the refusal of a hook before the user is asked about a call. A hook can't agree for them."""
        if not self.hooks.has(HookEvent.PERMISSION_REQUEST):
            return None
        raw_arguments = tool.arguments if isinstance(tool, ExternalTool) else msgspec.to_builtins(tool)
        arguments = {name: value for name, value in raw_arguments.items() if value is not None}
        occasion = HookOccasion(
            event=HookEvent.PERMISSION_REQUEST,
            call=HookCall(tool=tool.name, call=call, arguments=arguments),
            subjects=list_tool_names(tool.name),
            texts=(tool.subject(),),
        )
        refusal = (await self.hooks.run(occasion)).describe_refusal()
        return None if refusal is None else f"{refusal} Nothing was changed."

    def _build_approval(self, access: Access, tool: Tool[object]) -> Approval:
        if access is Access.EXEC:
            return self.permissions.build_call_approval(tool)
        return Approval(subject=tool.subject(), mode=self.permissions.mode.value)

    def _build_request(
        self, call: str, access: Access, tool: Tool[object], approval: Approval, reason: str
    ) -> ApprovalRequested:
        is_command, is_contained = access is Access.EXEC, self.permissions.terminal.is_contained
        has_targets = bool(self.permissions.weigh_request(tool).targets)
        network = "; no network" if is_contained and not approval.network else ""
        return ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="command" if is_command else "tool",
            subject=approval.subject,
            directory=approval.directory,
            explanation=str(getattr(tool, "explanation", "") or ""),
            containment=f"{self.permissions.terminal.host.box.describe()}{network}" if is_command else "",
            options=_list_options(access, tool, is_contained=is_contained, has_targets=has_targets),
            reason=reason,
            environment=approval.environment,
            network=approval.network,
            permissions=approval.permissions,
            mode=self.permissions.mode.value,
            digest=approval.compute_digest(),
        )

    async def save_rules(self, choice: PermissionChoice, approval: Approval, rules: Sequence[str | None]) -> None:
        """Save an answer that was given for good; if that fails, it still holds for this call."""
        try:
            for rule in rules:
                await asyncio.to_thread(self.permissions.rules.saved.save, choice, approval, rule=rule)
        except AgentTuiError as problem:
            self.emit(Notice(level="warning", message=f"Not saved: {problem.message}", hint=problem.hint))

    async def ask_for_command(self, call: str, tool: RunTerminalCmd) -> RunTerminalCmd | None:
        """Ask the user for the command to run and return the call with it, None = no answer, or nobody to ask."""
        if not self.user.is_interactive:
            return None
        proposal = tool.command if len(tool.command) <= _MAX_SHOWN else f"{tool.command[:_MAX_SHOWN]} …"
        explanation = f" ({tool.explanation})" if tool.explanation else ""
        question = Question(
            id="command",
            text=f"The agent wants to run this{explanation}:\n\n{proposal}\n\nType the command to run; "
            "the agent gets its output.",
            options=(Option(id=_PROPOSED, label="Run as proposed"),),
        )
        response = await self.user.ask(QuestionAsked(id=new_id("ask"), call=call, questions=(question,)))
        if not response.answers:
            return None
        answer = response.answers[0]
        if answer.text.strip():
            return replace(tool, command=answer.text.strip())
        return tool if _PROPOSED in answer.options else None

    async def ask_for_network(
        self, call: str, command: str, targets: Sequence[HostAndPort], *, is_ahead: bool = False
    ) -> bool:
        """Ask whether a command may reach hosts, and grant them. Returns True if the user agreed.

        `is_ahead`: the request is the program's own and nothing has been sent yet, unlike a command that has run."""
        grants, hosts = self.permissions.network_grants, tuple(dict.fromkeys(target.host for target in targets))
        subject = "\n".join(map(str, targets))
        decision = await self._ask_for_targets(call, command, subject, "WebFetch", hosts, is_ahead=is_ahead)
        if decision not in ALLOWING_DECISIONS:
            return False
        grants.grant(hosts, for_session=decision == "allow_session")
        grants.grant(hosts, for_session=False)
        return True

    async def ask_for_service(self, call: str, wanted_by: str, service: str) -> bool:
        """Ask whether a service of the machine may be reached, and grant it to the session."""
        decision = await self._ask_for_targets(call, wanted_by, service, "Service", (service,), is_ahead=True)
        if decision not in ALLOWING_DECISIONS:
            return False
        self.permissions.network_grants.grant_services((service,), for_session=True)
        return True

    async def _ask_for_targets(
        self, call: str, wanted_by: str, subject: str, kind: PermissionKind, names: tuple[str, ...], *, is_ahead: bool
    ) -> ApprovalDecision:
        """Ask about hosts or services; a yes for good is saved as rules of this kind."""
        approval = self.permissions.build_approval(wanted_by)
        request = ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="host" if is_ahead else "network",
            subject=subject,
            directory=approval.directory,
            reason=self.permissions.network_grants.explain_caution() or "",
            containment=f"requested by: {wanted_by}",
            options=NETWORK_OPTIONS,
            network=names,
            mode=approval.mode,
            digest=approval.compute_digest(),
        )
        decision = (await self.user.approve(request)).decision
        if decision == "allow_always":
            await self.save_rules("allow", approval, [f"{kind}({name})" for name in names])
        return decision

    async def find_refusal(self, call: str, tool: RunTerminalCmd) -> str | None:
        """Return the reason why a command that another call needs must not run. It is decided on like any other."""
        permissions = self.permissions
        await permissions.terminal.find_box()
        if not permissions.is_granted(Access.EXEC):
            return f"{permissions.mode.value} mode runs no commands here."
        is_typed = False
        if permissions.settings.commands.policy == "human":
            agreed_tool = await self.ask_for_command(call, tool)
            if agreed_tool is None or agreed_tool.command != tool.command:
                return "the user did not run it."
            is_typed = True
        generic_tool = cast("Tool[object]", tool)
        decision = permissions.decide(Access.EXEC, generic_tool, is_typed=is_typed)
        if decision.choice == "deny":
            return decision.reason
        if decision.choice == "ask":
            answer = await self.ask_for_call(call, Access.EXEC, generic_tool, decision.reason)
            if (refusal := explain_answer(answer)) is not None:
                return refusal
        if not permissions.is_granted(Access.EXEC):
            return "the mode has changed."
        hook_call = HookCall(tool=tool.name, call=call, arguments={"command": tool.command})
        occasion = HookOccasion(event=HookEvent.BEFORE_SHELL, call=hook_call, subjects=(tool.command,))
        return (await self.hooks.run(occasion)).describe_refusal()

    async def report_command(self, call: str, tool: RunTerminalCmd, result: CommandResult) -> None:
        """Run the hooks after a command that another call needed."""
        hook_call = HookCall(
            tool=tool.name,
            call=call,
            arguments={"command": tool.command},
            result=result.output,
            duration_ms=result.duration_ms,
        )
        await self.hooks.run(HookOccasion(event=HookEvent.AFTER_SHELL, call=hook_call, subjects=(tool.command,)))


def _list_options(
    access: Access, tool: object, *, is_contained: bool, has_targets: bool
) -> tuple[ApprovalDecision, ...]:
    if isinstance(tool, ExternalTool):
        return ONCE_OPTIONS if tool.must_ask or "*" in tool.target else ALL_OPTIONS
    if has_targets:
        return TARGET_OPTIONS
    return ALL_OPTIONS if access is Access.EXEC and is_contained else ONCE_OPTIONS


def explain_answer(answer: ApprovalAnswer) -> str | None:
    """Explain why an answer forbids a call where it may run nowhere but in the box; None: it may run."""
    match answer:
        case Approved():
            return None
        case Refused():
            return answer.reason
        case Escalate():
            return ONLY_IN_BOX
        case _:
            assert_never(answer)


def _name_rule(access: Access, subject: str, pattern: str) -> str | None:
    """Return the rule that an answer for good is saved as; None: it holds for exactly this call."""
    if access is Access.EXTERNAL:
        return f"Mcp({subject})"
    return f"Shell({pattern})" if pattern else None


def _build_refusal(resolution: ApprovalResolved) -> Refused:
    who = "The user" if resolution.by == "user" else "The program"
    note = f" {resolution.note}" if resolution.note else ""
    return Refused(REFUSED.format(who, note))


async def ask_for_unsandboxed_run(approver: Approver, call: str, tool: RunTerminalCmd) -> ApprovalAnswer:
    """Ask whether a command may run outside the box: `Approved` is a yes to the box alone.

    The approval of `Escalate` is `build_unsandboxed_approval`."""
    permissions = approver.permissions
    reason = explain_sandboxed_only(permissions, tool)
    if reason is None:
        reason = await approver.find_hook_refusal(call, cast("Tool[object]", tool))
    if reason is not None:
        return Refused(reason)
    before, foreign = build_unsandboxed_approval(permissions, tool), permissions.network_grants.name_foreign()
    if not approver.user.is_interactive:
        return _answer_by_rule(approver, _build_request(call, tool, approver, before), foreign)
    if _is_ruled(permissions, before, foreign):
        # Without a request no client shows a question that is answered already.
        rule = f"Machine({before.subject})"
        approver.emit(ApprovalResolved(id=new_id("apr"), decision="run_on_machine", note=BY_RULE, pattern=rule))
        return Escalate(is_ruled=True)
    return await _ask_user_for_unsandboxed_run(approver, call, tool, before, foreign)


async def _ask_user_for_unsandboxed_run(
    approver: Approver, call: str, tool: RunTerminalCmd, before: Approval, foreign: str
) -> ApprovalAnswer:
    permissions = approver.permissions
    if foreign and not await _ask_about_foreign(approver, call, tool, foreign):
        return Refused(REFUSED.format("The user", ""))
    request = _build_request(call, tool, approver, before)
    resolution = await approver.user.approve(request)
    if resolution.decision not in request.options or resolution.decision == "reject_once":
        note = f" {resolution.note}" if resolution.note else ""
        return Refused(REFUSED.format("The user", note))
    is_impossible = explain_sandboxed_only(permissions, tool) is not None
    if is_impossible or build_unsandboxed_approval(permissions, tool) != before:
        return Refused(CHANGED)
    if resolution.decision == "allow_always" and resolution.by == "user":
        await approver.save_rules("allow", before, [f"Machine({before.subject})"])
    return Approved() if resolution.decision == "allow_once" else Escalate()


def _can_be_ruled(permissions: CallPermissions, approval: Approval) -> bool:
    """True if a rule may name this command: its words mean the same each time, and a rule can hold them."""
    if not permissions.terminal.is_contained or _explain_directory(permissions, approval.directory) is not None:
        return False
    if find_nested_repositories(permissions.terminal.host.workspace.root, approval.directory, approval.subject):
        return False
    try:
        return parse_rule(f"Machine({approval.subject})", "allow").matches(approval.subject)
    except ConfigError:
        return False


def _is_ruled(permissions: CallPermissions, approval: Approval, foreign: str) -> bool:
    """True if the user's own rule answers for them: it names exactly this command, and no stricter rule matches."""
    rules = select_rules(permissions.rules.load(), "Machine")
    rule = find_strictest(rule for rule in rules if rule.matches(approval.subject))
    is_allowed = rule is not None and rule.choice == "allow"
    return is_allowed and not foreign and _can_be_ruled(permissions, approval)


def build_unsandboxed_approval(permissions: CallPermissions, tool: RunTerminalCmd) -> Approval:
    """Build the approval of a command that runs outside the box."""
    return permissions.build_approval(tool.command, list_requested(tool.required_permissions))


def explain_sandboxed_only(permissions: CallPermissions, tool: RunTerminalCmd) -> str | None:
    """Explain why a command can't leave the box whatever the user answers; None: they may be asked."""
    if tool.is_background:
        return BACKGROUND
    if permissions.subagent_limits is not None:
        return NOT_IN_SUBAGENTS
    if not permissions.is_trusted:
        return UNTRUSTED
    if not permissions.terminal.keeps_effects():
        return NO_EFFECTS
    rules = select_rules(permissions.rules.load(), "Machine")
    rule = find_strictest(rule for rule in rules if rule.matches(tool.command))
    return f"The rule {rule} denies running it unsandboxed." if rule is not None and rule.choice == "deny" else None


def _build_request(call: str, tool: RunTerminalCmd, approver: Approver, approval: Approval) -> ApprovalRequested:
    terminal = approver.permissions.terminal
    root, waiting = terminal.host.workspace.root, len(terminal.host.state.changes)
    nested_repositories = find_nested_repositories(root, approval.directory, approval.subject)
    warning = f"{NESTED.format(', '.join(nested_repositories))}; " if nested_repositories else ""
    pending = (
        f"; {waiting:,} {'file is' if waiting == 1 else 'files are'} pending review, and it sees only what is on disk"
    )
    return ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="machine",
        subject=approval.subject,
        directory=approval.directory,
        explanation=tool.explanation,
        containment=f"{warning}{CONTAINMENT}{pending if waiting else ''}",
        options=_list_unsandboxed_options(approver.permissions, approval),
        permissions=approval.permissions,
        mode=approval.mode,
        digest=approval.compute_digest(),
    )


def _list_unsandboxed_options(permissions: CallPermissions, approval: Approval) -> tuple[ApprovalDecision, ...]:
    if _can_be_ruled(permissions, approval):
        return RULED_OPTIONS
    return BOXED_OPTIONS if permissions.terminal.is_contained else UNSANDBOXED_OPTIONS


def _answer_by_rule(approver: Approver, request: ApprovalRequested, foreign: str) -> Escalate | Refused:
    """Answer by the user's rules where nobody can be asked; question and answer are emitted like any other."""
    allowing = select_rules(approver.permissions.rules.load(), "Machine", "allow")
    is_named = any(rule.matches(request.subject) for rule in allowing)
    directory_problem = _explain_directory(approver.permissions, request.directory)
    approver.emit(request)
    if is_named and not foreign and directory_problem is None:
        approver.emit(ApprovalResolved(id=request.id, decision="run_on_machine", by="user", note=BY_RULE))
        return Escalate(is_ruled=True)
    note = (directory_problem or FOREIGN_ALONE.format(foreign)) if is_named else NOBODY
    approver.emit(ApprovalResolved(id=request.id, decision="reject_once", by="program", note=note))
    return Refused(f"The program refused this call. {note} Nothing was changed.")


def _explain_directory(permissions: CallPermissions, directory: str) -> str | None:
    """Explain why no rule holds in the shell's directory; None: it is the project's top."""
    if directory != ".":
        return NOT_AT_TOP.format(directory)
    return BARE_TOP if is_bare_repository(permissions.terminal.host.workspace.root) else None


async def _ask_about_foreign(approver: Approver, call: str, tool: RunTerminalCmd, foreign: str) -> bool:
    request = ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="tool",
        subject=f"to ask you whether this may run unsandboxed: {tool.command}",
        reason=FOREIGN.format(foreign),
        mode=approver.permissions.mode.value,
    )
    return (await approver.user.approve(request)).decision == "allow_once"
