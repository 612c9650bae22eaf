"""The dialog of the hooks: what runs at which event, from which file, and how it ended last."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.queries import HookRow, HooksAnswer
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import expose_line, fit_line

KEY_HINTS: Final = (("hooks.open", "read its file"), ("hooks.leave", "back"))
TRUST: Final = {"yours": "yours", "trusted": "the project's, trusted", "held": "not trusted, so it does not run"}
_BESIDE: Final = 84  # columns of a row and around it that are not the command's
_SHORTEST: Final = 16
_NARROW: Final = 90  # columns below which a row has no room for the command
_NONE: Final = "There are no hooks here. docs/hooks.md says how to write one."
_MAX_PROBLEMS: Final = 3


class HooksDialog(ListingDialog[str]):
    """Shows every hook; answers with the path of a file of the project that is to be read."""

    BINDINGS = get_bindings("hooks")

    def __init__(self, answer: HooksAnswer) -> None:
        super().__init__("Hooks")
        self._found = answer

    def set_up(self) -> None:
        hooks = self._found.hooks
        untrusted_count = sum(hook.trust == "held" for hook in hooks)
        total = f"{count('hook', len(hooks))}{f', {untrusted_count:,} of them not trusted' if untrusted_count else ''}"
        problems = self._found.problems
        hidden_count = len(problems) - _MAX_PROBLEMS
        notes = (
            *problems[:_MAX_PROBLEMS],
            *((f"and {hidden_count:,} more: agent-tui hooks list",) if hidden_count > 0 else ()),
        )
        self.show_keys(KEY_HINTS)
        width = max(self.size.width - _BESIDE, _SHORTEST)
        self.show_rows(total, [_format_row(hook, width) for hook in hooks], notes)

    @property
    def _hook(self) -> HookRow | None:
        hooks = self._found.hooks
        return hooks[self.marked] if self.marked is not None and self.marked < len(hooks) else None

    def show_reason(self) -> None:
        hook = self._hook
        if hook is None:
            self.tell(_NONE)
            return
        parts = [hook.command] if self.size.width < _NARROW else []
        parts += [f"{hook.source} ({TRUST[hook.trust]})", f"at most {hook.timeout:g} s"]
        parts += ["fails closed"] if hook.fails_closed else []
        parts += [hook.problem] if hook.problem else []
        if hook.last is not None and (message := hook.last.message or hook.last.effects):
            parts.append(f"it said: {message}")
        self.tell(". ".join(parts), "$text-warning" if hook.problem or hook.trust == "held" else "$foreground 60%")

    def action_open(self) -> None:
        if (hook := self._hook) is None:
            return
        if hook.source.startswith(("/", "~", "../")):
            self.tell(f"It lies outside of the project: {hook.source}", "$text-warning")
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
