"""What the review asks the main screen for: commands to the engine, and the dialogs that stand over the review.

What is red, what removes files, and the state of git is asked about once more before it is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from core.protocol import commands, queries
from core.protocol.moves import listed
from core.protocol.review import Change, Origin, Verdict
from tui.screens.actions import ActingScreen
from tui.text import named, one_line
from tui.widgets.review_words import asks_first
from tui.widgets.transcript import Transcript
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.notes import Confirm
    from tui.screens.picker import Choice
    from tui.widgets.review import ReviewPane

_BY: Final[tuple[Literal["command", "call", "todo", "turn"], ...]] = ("command", "call", "todo", "turn")


class ReviewingScreen(ActingScreen):
    """The review's messages are matched by name, so that the pane is not imported before it is needed."""

    @property
    def _review(self) -> ReviewPane | None:
        found: Any = self.panes.side.pane("review") if self.panes.side else None
        return found  # type: ignore[no-any-return]

    # Verdicts

    def on_review_pane_resolve(self, event: Any) -> None:
        """A verdict from the review."""
        verdict = commands.HunkResolve(path=event.path, hunks=event.hunks, verdict=event.verdict, reason=event.reason)
        begin(self, self.judge, verdict, group="commands")

    async def judge(self, verdict: commands.HunkResolve) -> None:
        """Send a verdict; one that accepts what is red, or what removes a file, is confirmed first."""
        change = self.state.changes.get(verdict.path)
        if change is not None and not change.protected and self._is_renamed(change):
            await self._give(verdict, verdict.path)
            return
        if verdict.verdict == "accept" and change is not None and asks_first(change):
            if not await self._consents(change, verdict.hunks[0] if verdict.hunks else ""):
                self.panes.verdict_failed(verdict.path)
                return
            verdict = replace(verdict, confirmed=True)
        elif verdict.verdict == "accept" and change is None and not await self._consents_to_all(verdict):
            for path in verdict.paths or ("",):
                self.panes.verdict_failed(path)
            return
        await self._give(verdict, verdict.path)

    def _is_renamed(self, change: Change) -> bool:
        """Whether a deletion is one path of a rename, so that nothing is gone."""
        return change.operation == "delete" and change.path not in {each.path for each in listed(self.state.changes)}

    async def _consents(self, change: Change, hunk: str) -> bool:
        """Asks about one change, with its lines."""
        from tui.screens.consent import ChangeConsent

        answer = await self.bridge.query(queries.DiffQuery(path=change.path))
        diff = answer.diff if isinstance(answer, queries.Diff) else None
        return await self._agrees(ChangeConsent(change, diff, hunk=hunk))

    async def _agrees(self, dialog: Confirm) -> bool:
        agreed: bool | None = await self.app.push_screen_wait(dialog)
        return bool(agreed)

    async def _consents_to_all(self, verdict: commands.HunkResolve) -> bool:
        """Asks about the files that would be gone if several are accepted."""
        from tui.screens.consent import deletions

        meant = [each for each in listed(self.state.changes) if not verdict.paths or each.path in verdict.paths]
        if not verdict.paths and verdict.origin is not None:
            meant = [each for each in meant if _is_of(each, verdict.origin)]
        dialog = deletions(meant)
        return dialog is None or await self._agrees(dialog)

    async def _give(self, verdict: commands.HunkResolve | commands.BulkResolve, name: str) -> None:
        """Submit a verdict on a file or a bulk; the review says there, too, what it is refused for."""
        reply = await self.bridge.submit(verdict)
        if isinstance(reply, commands.Reject):
            self.say(reply.message, reply.hint, is_error=True)
            self.panes.verdict_failed(name, f"{reply.message} {reply.hint}".strip())

    def on_review_pane_resolve_files(self, event: Any) -> None:
        """A verdict on a directory of the list; none of it is red."""
        begin(
            self,
            self.judge,
            commands.HunkResolve(path="", paths=event.paths, verdict=event.verdict),
            group="commands",
        )

    def on_review_pane_resolve_bulk(self, event: Any) -> None:
        """A verdict on a bulk."""
        begin(self, self._judge_bulk, event.root, event.verdict, group="commands")

    async def _git_consent(self, root: str) -> bool:
        from tui.screens.git_consent import GitConsent

        found = await self.bridge.query(queries.GitPreviewQuery(root=root))
        if not isinstance(found, queries.GitPreviewed):
            self.say(getattr(found, "message", "The state of git can't be shown."), is_error=True)
            return False
        return await self._agrees(GitConsent(found.preview))

    async def _bulk_consent(self, root: str, risk: str) -> bool:
        from tui.screens.notes import Confirm

        if not risk:
            return await self._git_consent(root)
        about = f"It {one_line(risk, 300)}."
        question = f"Accept {one_line(root, 200)}?"
        return await self._agrees(Confirm(question, "accept it", about=about, no="leave it pending"))

    async def _judge_bulk(self, root: str, verdict: Verdict) -> None:
        bulk = next((each for each in self.state.bulks if each.root == root), None)
        is_git = bulk is not None and bulk.kind == "git" and verdict == "accept"
        risk = bulk.risk if bulk is not None and verdict == "accept" else ""
        command = commands.BulkResolve(root=root, verdict=verdict, confirmed=is_git or bool(risk))
        gone = bulk.deleted if bulk is not None and verdict == "accept" and not is_git else 0
        if await (self._bulk_consent(root, risk) if is_git or risk else self._consents_to_bulk(root, gone)):
            await self._give(command, root)
        else:
            self.panes.verdict_failed(root)

    async def _consents_to_bulk(self, root: str, gone: int) -> bool:
        from tui.screens.notes import Confirm

        about = f"Accepting {named(root, 100)} removes {gone:,} file{'' if gone == 1 else 's'} from your disk."
        return not gone or await self._agrees(
            Confirm("Delete what is gone there?", "accept it", about=about, no="leave it pending")
        )

    def on_review_pane_undo(self) -> None:
        """The last verdict is to be taken back."""
        self.action_undo_verdict()

    # Hunks

    def on_review_pane_wants(self, event: Any) -> None:
        """A command of the review."""
        self.send(event.command)

    def on_review_pane_wants_room(self, event: Any) -> None:
        """The review takes the whole window for what needs it, as every pane does in a narrow one."""
        here = self.size.width
        if event.width > here:
            self.say(f"Two columns need a window of {event.width} columns; this one has {here}.")
        elif (review := self._review) is not None:
            self.set_class(event.width > review.size.width, "-whole")

    async def on_review_pane_open_file(self, event: Any) -> None:
        """Show the file of a change."""
        await self.panes.preview(event.path, event.line)

    def on_review_pane_wants_text(self, event: Any) -> None:
        """A hunk is to be edited."""
        begin(self, self._edit, event.path, event.hunk, group="review.edit", exclusive=True)

    async def _edit(self, path: str, hunk: str) -> None:
        from tui.widgets.hunk_editor import is_plain

        found = await self.bridge.query(queries.HunkQuery(path=path, hunk=hunk))
        if not isinstance(found, queries.HunkText):
            self.say(getattr(found, "message", "The hunk can't be edited."), is_error=True)
        elif not is_plain(found.text):
            self.say("This hunk has unusual line endings inside that an editor here would change.", is_error=True)
        elif (review := self._review) is not None and review.has_focus_within:  # else the user is somewhere else now
            await review.edit(found)

    # Comments

    def on_review_pane_wants_comments(self) -> None:
        """Look at the comments and send them."""
        self.action_send_comments()

    def action_send_comments(self, argument: str = "") -> None:
        """Look at the comments and send them as one message."""
        if not self.state.comments:
            self.say("There is no comment to send.", "c comments a hunk in the review, or lines of the plan's text.")
            return
        from tui.screens.comments import Comments

        dialog = Comments(list(self.state.comments.values()), change=self.send, plans=self.state.plans)
        _ = self.app.push_screen(dialog, self._comments_decided)

    def _comments_decided(self, sends: bool | None) -> None:
        if sends:
            self.query_one(Transcript).follow()  # what is said and what is answered is seen, as after a prompt
            self.send(commands.CommentsSend())

    # Origins

    def on_review_pane_wants_origin(self, event: Any) -> None:
        """Judge all of one origin at once."""
        begin(self, self._judge_origin, event.change, group="picker", exclusive=True)

    async def _judge_origin(self, change: Change) -> None:
        from tui.screens.picker import DeedPicker

        choices = self._origins(change)
        if not choices:
            self.say("It is not known where this change came from.")
            return
        picked = await self.app.push_screen_wait(DeedPicker("All of one origin (what is red is left out)", choices))
        if picked and change.origin is not None:
            verdict, _, field = picked.partition(" ")
            origin = Origin(**{field: getattr(change.origin, field)})
            await self.judge(
                commands.HunkResolve(path="", verdict="accept" if verdict == "accept" else "reject", origin=origin)
            )

    def _origins(self, change: Change) -> list[Choice]:
        from tui.screens.picker import Choice

        if (origin := change.origin) is None:
            return []
        todos = {each.id: each.content for each in self.state.todos}
        shown = {
            "command": f"command {one_line(origin.command, 50)}",
            "call": f"this call of {one_line(origin.over or origin.tool, 30)}",
            "todo": f"todo “{one_line(todos.get(origin.todo, origin.todo), 50)}”",
            "turn": f"turn {self.state.turns.get(origin.turn, '')}".rstrip(),
        }
        found = []
        for verdict in ("accept", "reject"):
            for field in _BY:
                if getattr(origin, field):
                    meant = Origin(**{field: getattr(origin, field)})
                    count = sum(_is_of(each, meant) and not each.protected for each in listed(self.state.changes))
                    note = f"{count} file{'' if count == 1 else 's'}"
                    found.append(Choice(f"{verdict} {field}", f"{verdict} all of {shown[field]}", note))
        return found

    # Conflicts

    def on_review_pane_wants_conflict(self, event: Any) -> None:
        """Settle a conflict."""
        begin(self, self._settle, event.path, group="picker", exclusive=True)

    async def _settle(self, path: str) -> None:
        from tui.screens.conflict import ConflictScreen

        answer = await self.bridge.query(queries.ConflictQuery(path=path))
        if isinstance(answer, queries.Refused):
            self.say(answer.message, answer.hint, is_error=True)
            return
        sides = answer.sides if isinstance(answer, queries.Conflict) else None
        if sides is None or sides.problem:
            self.say(sides.problem if sides else f"{named(path, 100)} is in no conflict.")
            return
        choices = await self.app.push_screen_wait(ConflictScreen(sides)) if sides.clashes else ()
        if choices is not None:
            await self.deliver(
                commands.ConflictSettle(path=path, choices=choices, mine=sides.mine.blob, theirs=sides.theirs.blob)
            )


def _is_of(change: Change, origin: Origin) -> bool:
    """Whether a change, or hunks of it, are of an origin."""
    if origin.todo and any(hunk.todo for hunk in change.hunks):
        return any(hunk.todo == origin.todo for hunk in change.hunks)
    return origin.covers(change.origin)
