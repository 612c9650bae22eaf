"""What the review asks the main screen for: commands to the engine, and the dialogs that stand over the review.

What is red, what removes files, and the state of git is asked about once more before it is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from core.protocol import commands, queries
from core.protocol.renames import list_changes
from core.protocol.review import Change, Origin, Verdict
from tui.chat.transcript import Transcript
from tui.review.descriptions import needs_confirmation
from tui.screens.actions import ActingScreen
from tui.text import fit_line, format_path
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.review.pane import ReviewPane
    from tui.screens.dialogs.pages import ConfirmDialog
    from tui.screens.dialogs.picker import PickerOption

_ORIGIN_FIELDS: Final[tuple[Literal["command", "call", "todo", "turn"], ...]] = ("command", "call", "todo", "turn")


class ReviewingScreen(ActingScreen):
    """The review's messages are matched by name, so that the pane is not imported before it is needed."""

    @property
    def _review(self) -> ReviewPane | None:
        found: Any = self.panes.side.get_pane("review") if self.panes.side else None
        return found  # type: ignore[no-any-return]

    # Verdicts

    def on_review_pane_hunks_resolved(self, event: Any) -> None:
        """A verdict from the review."""
        verdict = commands.HunkResolve(path=event.path, hunks=event.hunks, verdict=event.verdict, reason=event.reason)
        start_worker(self, self.submit_verdict, verdict, group="commands")

    async def submit_verdict(self, verdict: commands.HunkResolve) -> None:
        """Send a verdict; one that accepts what is red, or what removes a file, is confirmed first."""
        change = self.state.changes.get(verdict.path)
        if change is not None and not change.protected and self._is_renamed(change):
            await self._send_verdict(verdict, verdict.path)
            return
        if verdict.verdict == "accept" and change is not None and needs_confirmation(change):
            if not await self._confirm_change(change, verdict.hunks[0] if verdict.hunks else ""):
                self.panes.restore_verdict(verdict.path)
                return
            verdict = replace(verdict, confirmed=True)
        elif verdict.verdict == "accept" and change is None and not await self._confirm_deletions(verdict):
            for path in verdict.paths or ("",):
                self.panes.restore_verdict(path)
            return
        await self._send_verdict(verdict, verdict.path)

    def _is_renamed(self, change: Change) -> bool:
        """True if a deletion is one path of a rename, so that nothing is lost."""
        return change.operation == "delete" and change.path not in {
            each.path for each in list_changes(self.state.changes)
        }

    async def _confirm_change(self, change: Change, hunk: str) -> bool:
        """Asks about one change, with its lines."""
        from tui.screens.dialogs.consent import ChangeConsentDialog

        answer = await self.bridge.query(queries.DiffQuery(path=change.path))
        diff = answer.diff if isinstance(answer, queries.DiffAnswer) else None
        return await self._confirm(ChangeConsentDialog(change, diff, hunk=hunk))

    async def _confirm(self, dialog: ConfirmDialog) -> bool:
        agreed: bool | None = await self.app.push_screen_wait(dialog)
        return bool(agreed)

    async def _confirm_deletions(self, verdict: commands.HunkResolve) -> bool:
        """Asks about the files that would be gone if several are accepted."""
        from tui.screens.dialogs.consent import build_deletion_dialog

        meant = [each for each in list_changes(self.state.changes) if not verdict.paths or each.path in verdict.paths]
        if not verdict.paths and verdict.origin is not None:
            meant = [each for each in meant if _has_origin(each, verdict.origin)]
        dialog = build_deletion_dialog(meant)
        return dialog is None or await self._confirm(dialog)

    async def _send_verdict(self, verdict: commands.HunkResolve | commands.BulkResolve, name: str) -> None:
        """Submit a verdict on a file or a bulk; the review says there, too, what it is refused for."""
        reply = await self.bridge.submit(verdict)
        if isinstance(reply, commands.Reject):
            self.notify_user(reply.message, reply.hint, is_error=True)
            self.panes.restore_verdict(name, f"{reply.message} {reply.hint}".strip())

    def on_review_pane_files_resolved(self, event: Any) -> None:
        """A verdict on a directory of the list; none of it is red."""
        start_worker(
            self,
            self.submit_verdict,
            commands.HunkResolve(path="", paths=event.paths, verdict=event.verdict),
            group="commands",
        )

    def on_review_pane_bulk_resolved(self, event: Any) -> None:
        """A verdict on a bulk."""
        start_worker(self, self._judge_bulk, event.root, event.verdict, group="commands")

    async def _confirm_git(self, root: str) -> bool:
        from tui.screens.dialogs.git_consent import GitConsentDialog

        found = await self.bridge.query(queries.GitPreviewQuery(root=root))
        if not isinstance(found, queries.GitPreviewAnswer):
            self.notify_user(getattr(found, "message", "The state of git can't be shown."), is_error=True)
            return False
        return await self._confirm(GitConsentDialog(found.preview))

    async def _confirm_bulk(self, root: str, risk: str) -> bool:
        from tui.screens.dialogs.pages import ConfirmDialog

        if not risk:
            return await self._confirm_git(root)
        about = f"It {fit_line(risk, 300)}."
        question = f"Accept {fit_line(root, 200)}?"
        return await self._confirm(ConfirmDialog(question, "accept it", about=about, no="leave it pending"))

    async def _judge_bulk(self, root: str, verdict: Verdict) -> None:
        bulk = next((each for each in self.state.bulks if each.root == root), None)
        is_git = bulk is not None and bulk.kind == "git" and verdict == "accept"
        risk = bulk.risk if bulk is not None and verdict == "accept" else ""
        command = commands.BulkResolve(root=root, verdict=verdict, confirmed=is_git or bool(risk))
        gone = bulk.deleted if bulk is not None and verdict == "accept" and not is_git else 0
        if await (self._confirm_bulk(root, risk) if is_git or risk else self._confirm_bulk_deletions(root, gone)):
            await self._send_verdict(command, root)
        else:
            self.panes.restore_verdict(root)

    async def _confirm_bulk_deletions(self, root: str, gone: int) -> bool:
        from tui.screens.dialogs.pages import ConfirmDialog

        about = f"Accepting {format_path(root, 100)} removes {gone:,} file{'' if gone == 1 else 's'} from your disk."
        return not gone or await self._confirm(
            ConfirmDialog("Delete what is gone there?", "accept it", about=about, no="leave it pending")
        )

    def on_review_pane_undo_requested(self) -> None:
        """The last verdict is to be taken back."""
        self.action_undo_verdict()

    # Hunks

    def on_review_pane_command_requested(self, event: Any) -> None:
        """A command of the review."""
        self.submit_soon(event.command)

    def on_review_pane_width_requested(self, event: Any) -> None:
        """The review takes the whole window for what needs it, as every pane does in a narrow one."""
        here = self.size.width
        if event.width > here:
            self.notify_user(f"Two columns need a window of {event.width} columns; this one has {here}.")
        elif (review := self._review) is not None:
            self.set_class(event.width > review.size.width, "-whole")

    async def on_review_pane_file_requested(self, event: Any) -> None:
        """Show the file of a change."""
        await self.panes.preview_file(event.path, event.line)

    def on_review_pane_hunk_text_requested(self, event: Any) -> None:
        """A hunk is to be edited."""
        start_worker(self, self._edit_hunk, event.path, event.hunk, group="review.edit", exclusive=True)

    async def _edit_hunk(self, path: str, hunk: str) -> None:
        from tui.review.hunk_editor import is_line_editable

        found = await self.bridge.query(queries.HunkQuery(path=path, hunk=hunk))
        if not isinstance(found, queries.HunkAnswer):
            self.notify_user(getattr(found, "message", "The hunk can't be edited."), is_error=True)
        elif not is_line_editable(found.text):
            self.notify_user(
                "This hunk has unusual line endings inside that an editor here would change.", is_error=True
            )
        elif (review := self._review) is not None and review.has_focus_within:  # else the user is somewhere else now
            await review.edit_hunk(found)

    # Comments

    def on_review_pane_comments_requested(self) -> None:
        """Look at the comments and send them."""
        self.action_send_comments()

    def action_send_comments(self, argument: str = "") -> None:
        """Look at the comments and send them as one message."""
        if not self.state.comments:
            self.notify_user(
                "There is no comment to send.", "c comments a hunk in the review, or lines of the plan's text."
            )
            return
        from tui.screens.dialogs.comments import CommentsDialog

        dialog = CommentsDialog(list(self.state.comments.values()), change=self.submit_soon, plans=self.state.plans)
        _ = self.app.push_screen(dialog, self._comments_decided)

    def _comments_decided(self, sends: bool | None) -> None:
        if sends:
            self.query_one(Transcript).follow_end()  # what is said and what is answered is seen, as after a prompt
            self.submit_soon(commands.CommentsSend())

    # Origins

    def on_review_pane_origin_verdict_requested(self, event: Any) -> None:
        """Judge all of one origin at once."""
        start_worker(self, self._judge_origin, event.change, group="picker", exclusive=True)

    async def _judge_origin(self, change: Change) -> None:
        from tui.screens.dialogs.picker import ActionPickerDialog

        choices = self._build_origin_options(change)
        if not choices:
            self.notify_user("It is not known where this change came from.")
            return
        picked = await self.app.push_screen_wait(
            ActionPickerDialog("All of one origin (what is red is left out)", choices)
        )
        if picked and change.origin is not None:
            verdict, _, field = picked.partition(" ")
            origin = Origin(**{field: getattr(change.origin, field)})
            await self.submit_verdict(
                commands.HunkResolve(path="", verdict="accept" if verdict == "accept" else "reject", origin=origin)
            )

    def _build_origin_options(self, change: Change) -> list[PickerOption]:
        from tui.screens.dialogs.picker import PickerOption

        if (origin := change.origin) is None:
            return []
        todos = {each.id: each.content for each in self.state.todos}
        shown = {
            "command": f"command {fit_line(origin.command, 50)}",
            "call": f"this call of {fit_line(origin.over or origin.tool, 30)}",
            "todo": f"todo “{fit_line(todos.get(origin.todo, origin.todo), 50)}”",
            "turn": f"turn {self.state.turn_numbers.get(origin.turn, '')}".rstrip(),
        }
        found = []
        for verdict in ("accept", "reject"):
            for field in _ORIGIN_FIELDS:
                if getattr(origin, field):
                    meant = Origin(**{field: getattr(origin, field)})
                    count = sum(
                        _has_origin(each, meant) and not each.protected for each in list_changes(self.state.changes)
                    )
                    note = f"{count} file{'' if count == 1 else 's'}"
                    found.append(PickerOption(f"{verdict} {field}", f"{verdict} all of {shown[field]}", note))
        return found

    # Conflicts

    def on_review_pane_conflict_requested(self, event: Any) -> None:
        """Settle a conflict."""
        start_worker(self, self._resolve_conflict, event.path, group="picker", exclusive=True)

    async def _resolve_conflict(self, path: str) -> None:
        from tui.screens.dialogs.conflict import ConflictDialog

        answer = await self.bridge.query(queries.ConflictQuery(path=path))
        if isinstance(answer, queries.RefusedAnswer):
            self.notify_user(answer.message, answer.hint, is_error=True)
            return
        sides = answer.sides if isinstance(answer, queries.ConflictAnswer) else None
        if sides is None or sides.problem:
            self.notify_user(sides.problem if sides else f"{format_path(path, 100)} is in no conflict.")
            return
        choices = await self.app.push_screen_wait(ConflictDialog(sides)) if sides.clashes else ()
        if choices is not None:
            await self.submit(
                commands.ConflictResolve(path=path, choices=choices, mine=sides.mine.blob, theirs=sides.theirs.blob)
            )


def _has_origin(change: Change, origin: Origin) -> bool:
    """True if a change, or hunks of it, have this origin."""
    if origin.todo and any(hunk.todo for hunk in change.hunks):
        return any(hunk.todo == origin.todo for hunk in change.hunks)
    return origin.covers(change.origin)
