"""The controller of commits, pull requests and patches: it shows their dialogs, and hands them what comes of their
commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from textual import on

from core.protocol import queries
from core.protocol.commands import AnyCommand
from core.protocol.events import AnyEvent, ErrorRaised
from core.protocol.review import CommitTopic
from core.text.counting import count
from tui.commit.commit_dialog import CommitDialog
from tui.commit.draft_dialog import DraftDialog
from tui.commit.patch_dialog import PatchDialog
from tui.commit.pull_request_dialog import PullRequestDialog
from tui.review.messages import CommitRequested
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.editor import EditorController
from tui.screens.controllers.terminal.copying import CopyController
from tui.text import format_path

Which = Literal["pending", "accepted"]
TITLES: Final[dict[Which, str]] = {
    "pending": "What waits for your review",
    "accepted": "What you accepted, and is in no commit yet",
}


class CommitController(Controller):
    """Makes commits of what was accepted, and pull requests of the branch."""

    def __init__(self, context: ScreenContext, editor: EditorController, copying: CopyController) -> None:
        super().__init__(context)
        self._editor, self._copying = editor, copying
        self._dialog: DraftDialog | None = None
        self._paths: tuple[str, ...] = ()  # what the commit is of, () = all

    @on(CommitRequested)
    @in_worker("commit")
    async def action_commit(self, argument: object = "") -> None:
        """Show what would be committed, of the paths that are named if any are; where nothing can be, say why."""
        names = argument.split() if isinstance(argument, str) else []
        self._paths = tuple(name.removeprefix("./").rstrip("/") for name in names)
        preview = await self._ask_preview("none")
        if preview is not None:
            self._show(
                CommitDialog(preview, self._submit, self._editor.edit, self._preview_again, drafts=self._can_draft())
            )

    @in_worker("commit")
    async def action_open_pull_request(self, _: str = "") -> None:
        """Show what would be pushed; where nothing can be, say why."""
        answer = await self.context.query(queries.PullRequestQuery(), queries.PullRequestAnswer, "Git gave no answer.")
        if answer is None:
            return
        if answer.refused:
            self.context.notify_user(_begin(answer.refused), answer.hint, is_error=True)
            return
        self._show(PullRequestDialog(answer, self._submit, self._editor.edit, drafts=self._can_draft()))

    @in_worker("diff")
    async def action_show_diff(self, path: str = "") -> None:
        """Show what waits, of one path if it is named; where nothing does, what no commit has yet."""
        paths = (path.removeprefix("./").rstrip("/"),) if path else ()
        has_pending = bool(self.context.state.changes or self.context.state.bulks)
        for patch_kind in ("pending", "accepted") if has_pending else ("accepted",):
            question = queries.PatchQuery(which=patch_kind, paths=paths)
            answer = await self.context.query(question, queries.PatchAnswer, "The changes can't be shown.")
            if answer is None:
                return
            if answer.patch or answer.left_out:
                self._show_patch(patch_kind, answer)
                return
        location = f" in {format_path(path, 100)}" if path else ""
        self.context.notify_user(f"Nothing waits{location}, and nothing accepted waits for a commit.")

    def _show_patch(self, patch_kind: Which, answer: queries.PatchAnswer) -> None:
        patch = answer.patch.decode("utf-8", "replace")
        lines = patch.split("\n")
        additions = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
        deletions = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
        title = f"{TITLES[patch_kind]} · {count('file', len(answer.paths))} +{additions:,} -{deletions:,}"
        omissions = "; ".join(f"{format_path(path, 60)}: {reason}" for path, reason in answer.left_out[:3])
        note = f"Not in it: {omissions}{' …' if len(answer.left_out) > 3 else ''}" if omissions else ""
        self.context.show(PatchDialog(title, patch, note, self._copying.copy))

    async def _ask_preview(
        self, split: queries.CommitSplit, topics: Sequence[CommitTopic] = ()
    ) -> queries.CommitAnswer | None:
        question = queries.CommitQuery(split=split, topics=tuple(topics), paths=self._paths)
        answer = await self.context.query(question, queries.CommitAnswer, "Git gave no answer.")
        if answer is not None and answer.refused:
            prefix = f"{answer.left_out[0].path}: {answer.left_out[0].problem}. " if answer.left_out else ""
            self.context.notify_user(f"{prefix}{_begin(answer.refused)}", answer.hint, is_error=True)
            if not self._paths:
                self.context.state.note_refused_commit()
                self.context.bridge.batches.add(frozenset({"review"}))
            return None
        return answer

    def _can_draft(self) -> bool:
        """True if a model may write the text unasked: none is at work, and it is a real one."""
        return not self.context.state.is_running and not self.context.state.is_demo

    def _show(self, dialog: DraftDialog) -> None:
        self._dialog = dialog
        self.context.show(dialog, lambda _: self._forget())

    def _forget(self) -> None:
        self._dialog = None

    @in_worker("commit preview")
    async def _preview_again(self, split: queries.CommitSplit, topics: Sequence[CommitTopic]) -> None:
        preview = await self._ask_preview(split, topics)
        if preview is not None and isinstance(self._dialog, CommitDialog):
            self._dialog.show_preview(preview)

    @in_worker("commit command", exclusive=False)
    async def _submit(self, command: AnyCommand) -> None:
        is_accepted = await self.context.submit(command)
        if not is_accepted and self._dialog is not None:
            self._dialog.show_refusal()

    def show_progress(self) -> None:
        """Show what came since the last time."""
        progress = self.context.state.commits
        ends, progress.ends = progress.ends, list[AnyEvent]()
        if self._dialog is None or not self._dialog.is_mounted:
            return
        if progress.output:
            self._dialog.show_output(progress.output)
        is_at_work = self._dialog.is_at_work
        for event in (end for end in ends if is_at_work or not isinstance(end, ErrorRaised)):
            if self._dialog is not None:
                self._dialog.show_end(event)


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]
