"""Lists of tools, of permissions and of hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from textual.content import Content

from core.protocol.queries import HookRow, HooksAnswer, PermissionsAnswer, SavedPermission, ToolsAnswer
from core.protocol.tools import ToolRow
from core.text.counting import count
from tui.dialogs.listings.listing import ListingDialog
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.quantities import format_count
from tui.text import expose_line, expose_text, fit_line
from tui.workers import start_worker

_TOOL_HINTS: Final = (("tools.leave", "back"),)
SIGNS: Final = {
    "listed": ("+", "$accent"),
    "told": ("+", "$text-success"),
    "callable": ("·", "$foreground 60%"),
    "absent": ("-", "$text-warning"),
}
WORDS: Final = {"listed": "in every request", "told": "described", "callable": "by name", "absent": "missing"}
_ORDER: Final = tuple(SIGNS)
_TOOL_MARGIN: Final = 38  # columns of a row and around it that are not the name's
_MIN_TOOL, _MAX_TOOL = 14, 34
_SETTINGS: Final = "To turn one off or narrow it: /help settings."
_PERMISSION_HINTS: Final = (("permissions.remove", "remove"), ("permissions.leave", "back"))
NOTHING: Final = "Nothing saved: no permissions or refusals."
SESSION: Final = "this session"
_MAX_PERMISSION: Final = 400
_ROLES: Final = {"allow": "$text-success", "ask": "$text-warning", "deny": "$text-error"}
Remove = Callable[[str], Awaitable[PermissionsAnswer | None]]
_HOOK_HINTS: Final = (("hooks.open", "open file"), ("hooks.leave", "back"))
TRUST: Final = {"yours": "yours", "trusted": "the project's, trusted", "held": "not trusted, so it does not run"}
_HOOK_MARGIN: Final = 84  # columns of a row and around it that are not the command's
_MIN_HOOK: Final = 16
_MIN_COMMAND_WIDTH: Final = 90  # columns below which a row has no room for the command
_NONE: Final = "No hooks here. /help hooks says how to write one."
_MAX_PROBLEMS: Final = 3


class ToolsDialog(ListingDialog[None]):
    """Lists every tool, those in all requests first."""

    BINDINGS = get_bindings("tools")

    def __init__(self, answer: ToolsAnswer) -> None:
        super().__init__("Tools")
        self._mode = answer.mode
        self._tools = sorted(answer.tools, key=lambda tool: _ORDER.index(tool.state))

    def set_up(self) -> None:
        self.show_keys(_TOOL_HINTS)
        listed_tools = [tool for tool in self._tools if tool.state == "listed"]
        tokens = format_count(sum(tool.tokens for tool in listed_tools))
        room = max(self.size.width - _TOOL_MARGIN, _MIN_TOOL)
        width = min(max((len(tool.name) for tool in self._tools), default=0), _MAX_TOOL, room)
        absent = sum(tool.state == "absent" for tool in self._tools)
        total = (
            f"{count('tool', len(listed_tools))} in every request, {tokens} tokens; {absent} not in {self._mode} mode"
        )
        self.show_rows(total, [_format_tool(tool, width) for tool in self._tools], (_SETTINGS,))

    def show_reason(self) -> None:
        if self.marked is not None:
            tool = self._tools[self.marked]
            names = f"also called {', '.join(tool.aliases)}" if tool.aliases else ""
            message = " · ".join(filter(None, (f"{tool.name} {tool.reason}" if tool.reason else "", names)))
            self.show_note(message, "$text-warning" if tool.state == "absent" else "$foreground 60%")


def _format_tool(tool: ToolRow, width: int) -> Content:
    sign, style = SIGNS[tool.state]
    name = fit_line(tool.name, width).ljust(width)
    tokens = f" · {format_count(tool.tokens)} tokens" if tool.tokens else ""
    faint = "$foreground 60%" if tool.state in {"callable", "absent"} else ""
    return Content.assemble(
        (f"{sign} ", style), (name, faint), (f"  {tool.access} · {WORDS[tool.state]}{tokens}", "$foreground 60%")
    )


class PermissionsDialog(ListingDialog[None]):
    """Lists permissions. `remove` revokes one by id and returns the remaining ones, None = failed."""

    BINDINGS = get_bindings("permissions")

    def __init__(self, answer: PermissionsAnswer, remove: Remove) -> None:
        super().__init__("Permissions")
        self._answer = answer
        self._remove = remove

    def set_up(self) -> None:
        self.show_keys(_PERMISSION_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        trust = "This project is trusted" if self._answer.trusted else "This project is not trusted"
        hosts = f"hosts: {', '.join(map(expose_text, self._answer.hosts)) or 'none'}"
        services = ", ".join(map(expose_text, self._answer.services)) or "none"
        notes = [f"Commands can reach {hosts} · services on your machine: {services}"]
        self.show_rows(f"{trust}.", [_format(permission) for permission in self._answer.kept], notes, index)

    @property
    def _permission(self) -> SavedPermission | None:
        permissions = self._answer.kept
        return permissions[self.marked] if self.marked is not None and self.marked < len(permissions) else None

    def show_reason(self) -> None:
        permission = self._permission
        if permission is None:
            self.show_note(NOTHING)
        elif not permission.id:
            self.show_note(f"Set in {permission.source}: remove it there.")
        elif permission.source == SESSION:
            self.show_note(f"For this session. {self._format_key()} removes it at once: no new connections.")
        else:
            self.show_note(f"Permanent. Remove with {self._format_key()} or /permissions remove {permission.id}")

    def _format_key(self) -> str:
        return format_first_key("permissions.remove", get_keymap(self.app))

    def action_remove(self) -> None:
        if (permission := self._permission) is not None and permission.id:
            start_worker(self, self._submit, permission.id, group="permissions")

    async def _submit(self, identity: str) -> None:
        index = self.marked or 0
        if (answer := await self._remove(identity)) is not None and self.is_attached:
            self._answer = answer
            self._show(index)


def _format(permission: SavedPermission) -> Content:
    location = f" in {expose_text(permission.directory)}" if permission.directory != "." else ""
    rule = expose_line(permission.rule, _MAX_PERMISSION)
    label = f"exactly {rule}{location}" if permission.exactly else rule
    source = permission.source or "permanent"
    return Content.assemble(
        (f"{permission.choice:<6}", _ROLES.get(permission.choice, "")),
        f"{label}  ",
        (expose_text(source), "$foreground 60%"),
    )


class HooksDialog(ListingDialog[str]):
    """Lists every hook; answers with the path of a project file to read."""

    BINDINGS = get_bindings("hooks")

    def __init__(self, answer: HooksAnswer) -> None:
        super().__init__("Hooks")
        self._answer = answer

    def set_up(self) -> None:
        hooks = self._answer.hooks
        untrusted_count = sum(hook.trust == "held" for hook in hooks)
        total = f"{count('hook', len(hooks))}{f', {untrusted_count:,} of them not trusted' if untrusted_count else ''}"
        problems = self._answer.problems
        hidden_count = len(problems) - _MAX_PROBLEMS
        notes = (
            *problems[:_MAX_PROBLEMS],
            *((f"and {hidden_count:,} more: agent-tui hooks list",) if hidden_count > 0 else ()),
        )
        self.show_keys(_HOOK_HINTS)
        width = max(self.size.width - _HOOK_MARGIN, _MIN_HOOK)
        self.show_rows(total if hooks else "", [_format_row(hook, width) for hook in hooks], notes)

    @property
    def _hook(self) -> HookRow | None:
        hooks = self._answer.hooks
        return hooks[self.marked] if self.marked is not None and self.marked < len(hooks) else None

    def show_reason(self) -> None:
        hook = self._hook
        if hook is None:
            self.show_note(_NONE)
            return
        parts = [hook.command] if self.size.width < _MIN_COMMAND_WIDTH else []
        parts += [f"{hook.source} ({TRUST[hook.trust]})", f"at most {hook.timeout:g} s"]
        parts += ["fails closed"] if hook.fails_closed else []
        parts += [hook.problem] if hook.problem else []
        if hook.last is not None and (message := hook.last.message or hook.last.effects):
            parts.append(f"output: {message}")
        self.show_note(
            " · ".join(parts), "$text-warning" if hook.problem or hook.trust == "held" else "$foreground 60%"
        )

    def action_open(self) -> None:
        if (hook := self._hook) is None:
            return
        if hook.source.startswith(("/", "~", "../")):
            self.show_note(f"Outside the project: {hook.source}", "$text-warning")
        else:
            self.answer(hook.source)


def _format_row(hook: HookRow, width: int) -> Content:
    last = hook.last
    outcome = "not run yet" if last is None else f"{last.outcome} · {last.duration_ms:,} ms"
    is_bad = hook.trust == "held" or bool(hook.problem) or (last is not None and last.outcome == "failed")
    matcher = f" {expose_line(hook.matcher)}" if hook.matcher else ""
    return Content.assemble(
        (" ! " if is_bad else "   ", "$text-warning"),
        (
            fit_line(f"{hook.event}{matcher}", 30).ljust(30),
            "$accent" if hook.trust != "held" else "$foreground 60%",
        ),
        (f" {fit_line(outcome, 20).ljust(20)} ", "$foreground 60%"),
        (expose_line(hook.command, width), ""),
    )
