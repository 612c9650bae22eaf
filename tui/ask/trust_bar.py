"""The bar that asks whether to trust a project. It takes no key from a prompt with text, and waits without a limit:
`y` or `n` alone in an empty prompt answer it, and its two keys do so from anywhere."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

from core.protocol.events import TrustStated
from tui.input.visibility import GracePeriod, GuardedWidget, is_fully_visible
from tui.keymap import format_first_key, get_keymap
from tui.text import expose_line, format_path

GRACE: Final = 0.4
_DIM: Final = "$foreground 60%"
_CONSEQUENCES: Final = (
    "\nTrusting loads its AGENTS.md, settings and git status. Otherwise the agent works without them. "
    "Either way, file changes go to your review."
)


_CONSEQUENCES_OF_CHANGES: Final = "\nUntil you agree, these files are not loaded. Everything else works as before."
_ACCEPTED: Final = " Changes you accept in the review never ask."
_MAX_NAMES: Final = 4
_MAX_HOOKS: Final = 6
_HOOKS: Final = "It has hooks, which would run sandboxed:"
_MAX_HOOK: Final = 200


def _describe_project(statement: TrustStated) -> tuple[str, str, str, str]:
    """Return the question, the contents of the project, the meaning of an answer, and the label for yes."""
    contents = f" It has {', '.join(map(expose_line, statement.holds))}." if statement.holds else ""
    return f"Do you trust the project in {format_path(statement.directory, 160)}?", contents, _CONSEQUENCES, "trust"


def _describe_changes(statement: TrustStated) -> tuple[str, str, str, str]:
    names = [format_path(path, 80) for path in statement.changed[:_MAX_NAMES]]
    remaining = len(statement.changed) - _MAX_NAMES
    summary = f" {', '.join(names)}{f' and {remaining} more' if remaining > 0 else ''}."
    means = _CONSEQUENCES_OF_CHANGES + ("" if statement.hooks else _ACCEPTED)  # hooks are asked about all the same
    return "Files that instruct the agent have changed since you trusted this project:", summary, means, "load"


def _describe_hooks(statement: TrustStated, hook_limit: int) -> list[tuple[str, str]]:
    """Return the hooks that a yes enables, a line each, up to `hook_limit`, and a count of the others."""
    if not statement.hooks:
        return []
    lines = [
        hook if len(hook) <= _MAX_HOOK else f"{hook[:_MAX_HOOK]}…"
        for hook in map(expose_line, statement.hooks[:hook_limit])
    ]
    remaining = len(statement.hooks) - hook_limit
    lines += [f"and {remaining} more: agent-tui hooks list"] if remaining > 0 else []
    heading = "Hooks that would run sandboxed (+ new, - removed, ~ script changed):" if statement.changed else _HOOKS
    return [(f"{heading}\n", ""), *((f"  {line}\n", "$text-warning") for line in lines)]


class TrustBar(GuardedWidget, Static):
    """Shows the question; its keys belong to the screen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.grace_period = GracePeriod(GRACE)
        self._stated: TrustStated | None = None
        self.display = False

    def show(self, statement: TrustStated | None) -> None:
        """Show the question, None hides it."""
        if statement is not None and not self.display:
            self.restart_grace()
        self._stated, self.display = statement, statement is not None
        self._render_question()

    def on_resize(self) -> None:
        self._render_question()

    def _render_question(self) -> None:
        if (statement := self._stated) is None:
            return
        width, height = self.content_size.width, self.styles.max_height
        content = self._assemble(statement, _MAX_HOOKS)
        for hook_limit in range(
            min(_MAX_HOOKS, len(statement.hooks)) - 1, -1, -1
        ):  # the last row has the keys, so it must be visible
            if not width or height is None:
                break
            if len(content.wrap(width)) <= int(height.value) - self.gutter.height:
                break
            content = self._assemble(statement, hook_limit)
        self.update(content)

    def _assemble(self, statement: TrustStated, most_hooks: int) -> Content:
        keymap = get_keymap(self.app)
        question, summary, means, yes = (
            _describe_changes(statement) if statement.changed else _describe_project(statement)
        )
        return Content.assemble(
            (question, "bold $warning"),
            (f"{summary}{'' if self.screen.has_class('-low') else means}\n", _DIM),
            *_describe_hooks(statement, most_hooks),
            (f"y/{format_first_key('app.trust', keymap)}", "$accent bold"),
            (f" {yes}   ", ""),
            (f"n/{format_first_key('app.distrust', keymap)}", "$accent bold"),
            (" not now   ", ""),
            ("or just keep typing", _DIM),
        )

    @property
    def can_answer(self) -> bool:
        """True if all of it has been on screen long enough to be read."""
        return is_fully_visible(self) and self.can_take_answer()
