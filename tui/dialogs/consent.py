"""Confirmations of protected changes, deletions and a state of git, with the lines that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import VerificationAnswer
from core.protocol.review import Change, ChangeDiff, GitPreview
from core.text.counting import count
from tui.dialogs.pages import ConfirmDialog
from tui.input.visibility import get_visibility
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.review.diff.view import DiffView
from tui.text import expose_line, expose_text, fit_line, format_path, to_content

GIT_RISK: Final = (
    "Accepting git state writes commits, branches and the index of your repository. "
    "Your own commits since then are not merged."
)
MUTED: Final = "$foreground 60%"
_WIDEST: Final = 100_000  # characters of a line about a reference: none is cut
_DIFF_STYLES: Final = {"+": "$text-success", "-": "$text-error", "c": "bold", "@": MUTED, "d": MUTED}
FAINT: Final = "$foreground 60%"
MAX_NAMED_FILES: Final = 8  # files of several that are named


class ConsentDiff(DiffView, can_focus=False):
    """The lines of the change in question, without verdicts or marks."""

    shifts_all = True

    def __init__(self) -> None:
        super().__init__()
        self.painter.has_buttons = False

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()


class ChangeConsentDialog(ConfirmDialog):
    """Asks before a change is accepted, and shows its `diff` (None: not displayable as lines)."""

    BINDINGS = get_bindings("confirm", "consent")

    def __init__(self, change: Change, diff: ChangeDiff | None, *, hunk: str = "") -> None:
        is_deletion = change.operation == "delete"
        question = f"{'Delete' if is_deletion else 'Accept'} {format_path(change.path, 200)}?"
        yes = "delete" if is_deletion else "accept"
        super().__init__(question, yes, explanation=describe_risk(change), no="keep pending")
        self._diff, self._hunk = diff, hunk
        self.shape = "wide" if diff else ""

    def compose_body(self) -> ComposeResult:
        explanation, keys = super().compose_body()
        yield explanation
        if self._diff is not None:
            yield ConsentDiff()
        yield keys

    def set_up(self) -> None:
        if self._diff is not None:
            ids = [hunk.id for hunk in self._diff.change.hunks]
            self.query_one(ConsentDiff).show(self._diff, ids.index(self._hunk) if self._hunk in ids else 0)
            self.call_after_refresh(self.show_keys)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_keys)

    def show_keys(self) -> None:
        """Show the keys, with those that scroll where there are more lines than are visible."""
        for view in self.query(ConsentDiff):
            goes = [("consent.down", "consent.up")] if view.max_scroll_y else []
            goes += [("consent.right", "consent.left")] if view.max_scroll_x else []
            keymap = get_keymap(self.app)
            moving = " ".join(format_first_key(name, keymap) for pair in goes for name in pair)
            hints = [(moving, "scroll")] if goes else []
            hints += [(format_first_key("consent.wrap", keymap), "wrap")] if view.has_long_lines else []
            keys = [piece for key, word in hints for piece in (("   ", ""), (key, "$accent"), (f" {word}", FAINT))]
            self.query_one("#confirm-keys", Static).update(self.format_keys().append(Content.assemble(*keys)))

    def can_take_answer(self) -> bool:
        return all(get_visibility(view) == "seen" for view in self.query(ConsentDiff)) and super().can_take_answer()

    def action_scroll(self, pages: int) -> None:
        for view in self.query(ConsentDiff):
            view.scroll_relative(y=pages * max(view.size.height // 2, 1), animate=False)

    def action_shift(self, step: int) -> None:
        for view in self.query(ConsentDiff):
            view.action_shift(step)

    def action_toggle_wrap(self) -> None:
        for view in self.query(ConsentDiff):
            view.action_toggle_wrap()
            self.call_after_refresh(self.show_keys)


def build_verification_dialog(plan: VerificationAnswer) -> ConfirmDialog:
    """Build the question before checks are repeated and the changes that they prove accepted."""
    paths = plan.paths
    names = ", ".join(format_path(path, 60) for path in paths[:MAX_NAMED_FILES])
    suffix = f" and {count('more file', len(paths) - MAX_NAMED_FILES)}" if len(paths) > MAX_NAMED_FILES else ""
    ran = ", ".join(fit_line(command, 60) for command in plan.commands)
    explanation = (
        f"{names}{suffix}. First reruns {ran}, each alone in a clean layer. Only what passes is accepted; protected"
        " files and deletions are left out."
    )
    question = f"Accept {count('file', len(paths))} if the tests pass again?"
    return ConfirmDialog(question, "run, then accept", explanation=explanation, no="keep pending")


def build_deletion_dialog(changes: Sequence[Change]) -> ConfirmDialog | None:
    """Build the question before several files are accepted and some of them deleted; None: none is."""
    deleted_paths = [
        format_path(change.path, 60) for change in changes if change.operation == "delete" and not change.protected
    ]
    if not deleted_paths:
        return None
    suffix = f" and {len(deleted_paths) - MAX_NAMED_FILES:,} more" if len(deleted_paths) > MAX_NAMED_FILES else ""
    pronoun = "it" if len(deleted_paths) == 1 else "them"
    question, explanation = (
        f"Delete {count('file', len(deleted_paths))} as part of this?",
        ", ".join(deleted_paths[:MAX_NAMED_FILES]),
    )
    return ConfirmDialog(
        question, f"accept and delete {pronoun}", explanation=f"{explanation}{suffix}", no="keep all pending"
    )


def describe_risk(change: Change) -> str:
    sentences = [f"It {change.risk}." if change.risk else "It is protected."] if change.protected else []
    sentences += ["The file will be removed from your disk."] if change.operation == "delete" else []
    return " ".join([*sentences, "Check every line before you accept."])


class GitConsentDialog(ConfirmDialog):
    """Asks before a state of git is accepted. Never True for one that can't be accepted as things are."""

    def __init__(self, preview: GitPreview) -> None:
        title = "Can't accept the git state" if preview.refused else "Accept the git state?"
        super().__init__(title, "" if preview.refused else "accept", no="keep pending")
        self._preview = preview

    def compose(self) -> ComposeResult:
        preview = self._preview
        with Vertical(classes="dialog page"):
            with Vertical(classes="dialog-head"):
                yield Static(self._title, classes="dialog-title")
                yield Static(to_content(preview.refused or GIT_RISK), classes="dialog-about")
            with VerticalScroll():
                yield Static(_render_preview(preview))
            yield self._build_keys()

    def set_up(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_answer(self, answer: bool) -> None:
        super().action_answer(answer and not self._preview.refused)


def _render_preview(preview: GitPreview) -> Content:
    parts: list[tuple[str, str]] = [(f"{expose_line(line, _WIDEST, is_strict=True)}\n", "") for line in preview.moves]
    parts += [(f"! {expose_line(line, _WIDEST, is_strict=True)}\n", "$text-warning") for line in preview.notes]
    parts += [("\n", "")] if parts and preview.text else []
    parts += [(f"{line}\n", _style_line(line)) for line in expose_text(preview.text).split("\n") if preview.text]
    parts += [("… more; git shows it once accepted\n", "$foreground 60%")] if preview.clipped else []
    return Content.assemble(*parts)


def _style_line(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return MUTED if line.startswith("index ") else _DIFF_STYLES.get(line[:1], "")
