"""The controllers of the review, of a code review's findings, and of commits and pull requests of accepted changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace
from textual import on

from core.protocol import commands, queries
from core.protocol.commands import AnyCommand
from core.protocol.events import AnyEvent, CommitMade, ErrorRaised, PullRequestOpened
from core.protocol.named_verdicts import build_named_verdict
from core.protocol.renames import list_changes
from core.protocol.review import Bulk, Change, CommitTopic, Finding, Origin, Verdict
from core.text.counting import count
from tui.dialogs.commits import CommitDialog, DraftDialog, PullRequestDialog
from tui.dialogs.pages import ConfirmDialog
from tui.dialogs.patch import PatchDialog
from tui.dialogs.picker import ActionPickerDialog, PickerOption
from tui.findings import FindingList, format_finding
from tui.review import messages
from tui.review.descriptions import needs_confirmation
from tui.review.messages import CommitRequested
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.copying import CopyController
from tui.screens.controllers.editor import EditorController
from tui.screens.controllers.panes import PaneController
from tui.state.fold import describe_commit_end
from tui.text import fit_line, format_path

_ORIGIN_FIELDS: Final = ("command", "call", "todo", "turn")
MAX_NAMED_FILES: Final = 5
_VERDICTS: Final[tuple[Verdict, Verdict]] = ("accept", "reject")
NOTHING_OPEN = "No open findings."
Which = Literal["pending", "accepted"]
TITLES: Final[dict[Which, str]] = {
    "pending": "Pending review",
    "accepted": "Accepted, not committed yet",
}


def _build_shown_dialog(
    event: messages.ShownVerdictRequested, open_hunks: Sequence[tuple[Change, tuple[str, ...]]]
) -> ConfirmDialog:
    """Build the question about what a filtered list shows, with its size and what is left out."""
    hunk_count = sum(len(ids) for _, ids in open_hunks)
    number, noun = (hunk_count, "hunk") if event.by_hunk else (len(open_hunks), "change")
    subject = f"{number:,} shown {noun}s" if number > 1 else f"shown {noun}"
    other_count = count("file", len(open_hunks)) if event.by_hunk else count("hunk", hunk_count)
    parts = [f"{other_count} matching “{fit_line(event.pattern, 40)}”" if event.pattern else other_count]
    if protected := len(event.hunks) - len(open_hunks):
        parts.append(f"{count('protected file', protected)} left out")
    question = f"{event.verdict.capitalize()} the {subject}?"
    return ConfirmDialog(question, event.verdict, explanation=f"{', '.join(parts)}.", no="keep pending")


class ReviewController(Controller):
    """Carries out the user's decisions in the review."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes
        self._has_waited = False

    # Verdicts

    def action_accept_all(self, path: str = "") -> None:
        self._resolve(path, "accept")

    def action_reject_all(self, path: str = "") -> None:
        self._resolve(path, "reject")

    def _resolve(self, path: str, verdict: Verdict) -> None:
        if not path:
            message = f"Say which file to {verdict}, or /{verdict} all."
            self.context.notify_user(message, "Ctrl+R to review hunk by hunk.")
            return
        state = self.context.state
        if path == "all" and not (state.changes or state.bulks):
            self.context.notify_user(f"Nothing to {verdict}.")
        command = build_named_verdict(path, verdict, state.changes, state.bulks)
        if isinstance(command, commands.BulkResolve):
            self._resolve_bulk(messages.BulkResolved(command.root, verdict))
            return
        command = replace(command, confirmed=False)  # a dialog asks
        self.context.start(self.submit_verdict, command, group="commands")

    def action_undo_verdict(self, _: str = "") -> None:
        self.context.submit_soon(commands.VerdictUndo())

    @on(messages.VerdictRequested)
    def _take_verdict(self, event: messages.VerdictRequested) -> None:
        self.context.start(self.submit_verdict, event.command, group="commands")

    @on(messages.SeenVerdictRequested)
    @in_worker("commands", exclusive=False)
    async def _accept_seen(self, event: messages.SeenVerdictRequested) -> None:
        hunks, paths = sum(len(verdict.hunks) for verdict in event.verdicts), [item.path for item in event.verdicts]
        names = ", ".join(format_path(path, 60) for path in paths[:MAX_NAMED_FILES])
        names += f" and {count('more file', len(paths) - MAX_NAMED_FILES)}" if len(paths) > MAX_NAMED_FILES else ""
        question = f"Accept {count('hunk', hunks)} in {count('file', len(paths))}?"
        explanation = f"You have had them in view: {names}. Protected files and deletions are left out."
        if await self._confirm(question, explanation):
            for verdict in event.verdicts:
                await self.submit_verdict(verdict)

    async def submit_verdict(self, verdict: commands.HunkResolve) -> None:
        """Submit a verdict; accepting protected changes or deletions requires confirmation."""
        change = self.context.state.changes.get(verdict.path)
        if verdict.verdict == "accept" and change is None:
            if not await self._confirm_deletions(verdict):
                for path in verdict.paths or ("",):
                    self._panes.restore_verdict(path)
                return
        elif verdict.verdict == "accept" and change is not None and self._is_asked_about(change):
            if not await self._confirm_change(change, verdict.hunks[0] if verdict.hunks else ""):
                self._panes.restore_verdict(verdict.path)
                return
            verdict = replace(verdict, confirmed=True)
        await self._send_verdict(verdict, verdict.path)

    def _is_asked_about(self, change: Change) -> bool:
        """True if a change needs confirmation. The deletion of a rename loses nothing."""
        listed_paths = {candidate.path for candidate in list_changes(self.context.state.changes)}
        is_renamed = change.operation == "delete" and change.path not in listed_paths
        return needs_confirmation(change) and (change.protected or not is_renamed)

    async def _confirm_change(self, change: Change, hunk: str) -> bool:
        from tui.dialogs.consent import ChangeConsentDialog

        answer = await self.context.query(queries.DiffQuery(path=change.path), queries.DiffAnswer)
        dialog = ChangeConsentDialog(change, answer.diff if answer else None, hunk=hunk)
        return await self.context.ask(dialog) is True

    async def _confirm_deletions(self, verdict: commands.HunkResolve) -> bool:
        from tui.dialogs.consent import build_deletion_dialog

        changes = list_changes(self.context.state.changes)
        if verdict.paths:
            changes = tuple(change for change in changes if change.path in verdict.paths)
        elif verdict.origin is not None:
            changes = tuple(change for change in changes if _has_origin(change, verdict.origin))
        dialog = build_deletion_dialog(changes)
        return dialog is None or await self.context.ask(dialog) is True

    async def _send_verdict(self, verdict: commands.HunkResolve | commands.BulkResolve, name: str) -> None:
        """Submit a verdict on a file or a bulk; the review shows a refusal, too."""
        reply = await self.context.bridge.submit(verdict)
        if isinstance(reply, commands.Reject):
            self.context.notify_user(reply.message, reply.hint, is_error=True)
            self._panes.restore_verdict(name, f"{reply.message} {reply.hint}".strip())

    def offer_commit(self) -> None:
        """Offer a commit after the last verdict, unless the review itself does."""
        state, side = self.context.state, self._panes.side
        is_waiting = bool(state.changes) or any(bulk.needs_verdict for bulk in state.bulks)
        is_over, self._has_waited = self._has_waited and not is_waiting, is_waiting
        is_review_open = side is not None and side.current == "review"
        if is_over and not is_review_open and state.branch and state.can_commit:
            self.context.notify_user("All reviewed.", "/commit commits what you accepted.")

    @on(messages.ShownVerdictRequested)
    @in_worker("commands", exclusive=False)
    async def _resolve_shown(self, event: messages.ShownVerdictRequested) -> None:
        """Ask about the verdict on what a filtered list shows, and submit it. What has changed meanwhile is left."""
        open_hunks = [(change, ids) for change, ids in event.hunks if not change.protected]
        if not open_hunks:
            self.context.notify_user(f"Nothing that is shown can be {event.verdict}ed together.")
            return
        if await self.context.ask(_build_shown_dialog(event, open_hunks)) is not True:
            return
        same = [(change, ids) for change, ids in open_hunks if self._is_unchanged(change)]
        whole_paths = tuple(change.path for change, ids in same if len(ids) == len(change.hunks))
        if whole_paths:
            await self.submit_verdict(commands.HunkResolve(path="", paths=whole_paths, verdict=event.verdict))
        for change, ids in same:
            if change.path not in whole_paths:
                await self.submit_verdict(commands.HunkResolve(path=change.path, hunks=ids, verdict=event.verdict))
        if number := len(open_hunks) - len(same):
            self.context.notify_user(f"Changed meanwhile, so still pending: {count('file', number)}.")

    def _is_unchanged(self, change: Change) -> bool:
        present = self.context.state.changes.get(change.path)
        return present is not None and (present.pending, present.hunks) == (change.pending, change.hunks)

    # Bulks

    @on(messages.BulkResolved)
    @in_worker("commands", exclusive=False)
    async def _resolve_bulk(self, event: messages.BulkResolved) -> None:
        root = event.root
        bulk = next((candidate for candidate in self.context.state.bulks if candidate.root == root), None)
        is_confirmed = False
        if bulk is not None and event.verdict == "accept":
            is_confirmed = bulk.kind == "git" or bool(bulk.risk)
            if not await self._confirm_bulk(bulk):
                self._panes.restore_verdict(root)
                return
        await self._send_verdict(commands.BulkResolve(root=root, verdict=event.verdict, confirmed=is_confirmed), root)

    async def _confirm_bulk(self, bulk: Bulk) -> bool:
        if bulk.risk:
            return await self._confirm(f"Accept {fit_line(bulk.root, 200)}?", f"It {fit_line(bulk.risk, 300)}.")
        if bulk.kind == "git":
            return await self._confirm_git(bulk.root)
        explanation = f"Accepting {format_path(bulk.root, 100)} removes {count('file', bulk.deleted)} from your disk."
        return not bulk.deleted or await self._confirm("Delete these files?", explanation)

    async def _confirm_git(self, root: str) -> bool:
        from tui.dialogs.consent import GitConsentDialog

        question = queries.GitPreviewQuery(root=root)
        answer = await self.context.query(question, queries.GitPreviewAnswer, "Can't show the git state.")
        return answer is not None and await self.context.ask(GitConsentDialog(answer.preview)) is True

    async def _confirm(self, question: str, explanation: str) -> bool:
        dialog = ConfirmDialog(question, "accept", explanation=explanation, no="keep pending")
        return await self.context.ask(dialog) is True

    # Hunks

    @on(messages.CommandRequested)
    def _submit_command(self, event: messages.CommandRequested) -> None:
        self.context.submit_soon(event.command)

    @on(messages.WidthRequested)
    def _widen(self, event: messages.WidthRequested) -> None:
        """Widen the review to the whole window on request, as any pane in a narrow window."""
        window_width = self.context.screen.size.width
        if event.width > window_width:
            self.context.notify_user(f"Two columns need a window {event.width} wide; this one is {window_width}.")
        elif (review := self._panes.review) is not None:
            self._panes.wants_whole = event.width > review.size.width
            self._panes.fit_review()

    @on(messages.FileRequested)
    async def _preview_file(self, event: messages.FileRequested) -> None:
        await self._panes.preview_file(event.path, event.line)

    @on(messages.HunkTextRequested)
    @in_worker("review.edit")
    async def _edit_hunk(self, event: messages.HunkTextRequested) -> None:
        from tui.review.hunk_editor import is_line_editable

        question = queries.HunkQuery(path=event.path, hunk=event.hunk)
        answer = await self.context.query(question, queries.HunkAnswer, "Can't edit this hunk.")
        if answer is None:
            return
        if not is_line_editable(answer.text):
            problem = "Can't edit here: its unusual line endings would change."
            self.context.notify_user(problem, is_error=True)
        elif (review := self._panes.review) is not None and review.has_focus_within:  # else the user is elsewhere now
            await review.edit_hunk(answer)

    # Comments

    @on(messages.CommentsRequested)
    def action_send_comments(self, _: object = "") -> None:
        if not self.context.state.comments:
            hint = "Press c on a hunk in the review, or in the plan's text."
            self.context.notify_user("No comments to send.", hint)
            return
        from tui.dialogs.comments import CommentsDialog

        state = self.context.state
        dialog = CommentsDialog(list(state.comments.values()), change=self.context.submit_soon, plans=state.plans)
        self.context.show(dialog, self._submit_comments)

    def _submit_comments(self, is_agreed: bool | None) -> None:
        if is_agreed:
            self.context.transcript.follow_end()  # the comments and their answer are seen, as after a prompt
            self.context.submit_soon(commands.CommentsSend())

    # Origins

    @on(messages.OriginVerdictRequested)
    @in_worker("picker")
    async def _resolve_origin(self, event: messages.OriginVerdictRequested) -> None:
        change = event.change
        options = self.build_origin_options(change)
        if not options:
            self.context.notify_user("The origin of this change is unknown.")
            return
        choice = await self.context.ask(ActionPickerDialog("All of one origin (protected files are left out)", options))
        if choice and change.origin is not None:
            word, _, field = choice.partition(" ")
            origin, verdict = Origin(**{field: getattr(change.origin, field)}), _VERDICTS[word == "reject"]
            await self.submit_verdict(commands.HunkResolve(path="", verdict=verdict, origin=origin))

    def build_origin_options(self, change: Change) -> list[PickerOption]:
        """Return the verdicts on all changes that share an origin with this one."""
        state = self.context.state
        if (origin := change.origin) is None:
            return []
        todos = {todo.id: todo.content for todo in state.todos}
        labels = {
            "command": f"command {fit_line(origin.command, 50)}",
            "call": f"subagent “{fit_line(origin.subagent, 50)}”"
            if origin.subagent
            else f"this call to {fit_line(origin.over or origin.tool, 30)}",
            "todo": f"todo “{fit_line(todos.get(origin.todo, origin.todo), 50)}”",
            "turn": f"turn {state.turn_numbers.get(origin.turn, '')}".rstrip(),
        }
        options, changes = [], list_changes(state.changes)
        for verdict in _VERDICTS:
            for field in _ORIGIN_FIELDS:
                if getattr(origin, field):
                    target_origin = Origin(**{field: getattr(origin, field)})
                    number = sum(
                        _has_origin(candidate, target_origin) and not candidate.protected for candidate in changes
                    )
                    label = f"{verdict} all of {labels[field]}"
                    options.append(PickerOption(f"{verdict} {field}", label, count("file", number)))
        return options

    # Conflicts

    @on(messages.ConflictRequested)
    @in_worker("picker")
    async def _resolve_conflict(self, event: messages.ConflictRequested) -> None:
        from tui.dialogs.conflict import ConflictDialog

        path = event.path
        answer = await self.context.bridge.query(queries.ConflictQuery(path=path))
        if isinstance(answer, queries.RefusedAnswer):
            self.context.notify_user(answer.message, answer.hint, is_error=True)
            return
        sides = answer.sides if isinstance(answer, queries.ConflictAnswer) else None
        if sides is None or sides.problem:
            self.context.notify_user(sides.problem if sides else f"{format_path(path, 100)} is not in conflict.")
            return
        resolution = commands.ConflictResolve(path=path, choices=(), mine=sides.mine.blob, theirs=sides.theirs.blob)
        if sides.clashes:
            if (choices := await self.context.ask(ConflictDialog(sides))) is None:
                return
            resolution = replace(resolution, choices=choices)
        await self.context.submit(resolution)


def _has_origin(change: Change, origin: Origin) -> bool:
    """True if a change, or hunks of it, have this origin."""
    if origin.todo and any(hunk.todo for hunk in change.hunks):
        return any(hunk.todo == origin.todo for hunk in change.hunks)
    return origin.covers(change.origin)


class FindingController(Controller):
    """Has code reviewed, and findings fixed, dismissed, opened and copied."""

    def __init__(self, context: ScreenContext, panes: PaneController, copying: CopyController) -> None:
        super().__init__(context)
        self._panes, self._copying = panes, copying

    def action_review(self, target: str = "") -> None:
        """Let the agent review the current branch, or the argument."""
        text = f"/review {target}".strip()
        self.context.prompt.past.add(text)
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.TurnSubmit(text=text, anyway=True))

    async def action_show_findings(self, _: str = "") -> None:
        await self._panes.show("findings")

    @on(FindingList.Chosen)
    async def _use(self, event: FindingList.Chosen) -> None:
        match event.use:
            case "open":
                await self._open(event.findings[0])
            case "copy":
                self._copying.copy(format_finding(event.findings[0]))
            case "dismiss":
                ids = tuple(finding.id for finding in event.findings)
                self.context.submit_soon(commands.FindingsDismiss(ids=ids))
            case "fix":
                self._fix(event.findings)

    async def _open(self, finding: Finding) -> None:
        if not finding.path:
            self.context.notify_user("This finding has no location.")
            return
        await self._panes.preview_file(finding.path, finding.start)
        if self._panes.preview is not None:
            self._panes.preview.focus()

    def _fix(self, findings: tuple[Finding, ...]) -> None:
        if not findings:
            self.context.notify_user(NOTHING_OPEN, "x reopens a dismissed one.")
            return
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.FindingsFix(ids=tuple(finding.id for finding in findings)))


class CommitController(Controller):
    """Commits accepted changes, and opens pull requests of the branch."""

    def __init__(
        self, context: ScreenContext, editor: EditorController, copying: CopyController, panes: PaneController
    ) -> None:
        super().__init__(context)
        self._editor, self._copying, self._panes = editor, copying, panes
        self._dialog: DraftDialog | None = None
        self._paths: tuple[str, ...] = ()  # paths to commit, () = all

    @on(CommitRequested)
    @in_worker("commit")
    async def action_commit(self, argument: object = "") -> None:
        """Show the pending commit, of the given paths if any; otherwise report why there is none."""
        names = argument.split() if isinstance(argument, str) else []
        self._paths = tuple(name.removeprefix("./").rstrip("/") for name in names)
        preview = await self._ask_preview("none")
        if preview is not None:
            self._show(
                CommitDialog(preview, self._submit, self._editor.edit, self._preview_again, drafts=self._can_draft())
            )

    @in_worker("commit")
    async def action_open_pull_request(self, _: str = "") -> None:
        """Show the pending pull request; otherwise report why there is none."""
        answer = await self.context.query(queries.PullRequestQuery(), queries.PullRequestAnswer, "Git did not answer.")
        if answer is None:
            return
        if answer.refused:
            self.context.notify_user(_begin(answer.refused), answer.hint, is_error=True)
            return
        self._show(PullRequestDialog(answer, self._submit, self._editor.edit, drafts=self._can_draft()))

    @in_worker("diff")
    async def action_show_diff(self, path: str = "") -> None:
        """Show pending changes as a patch, of one path if it is given; without any, the uncommitted accepted ones."""
        paths = (path.removeprefix("./").rstrip("/"),) if path else ()
        has_pending = bool(self.context.state.changes or self.context.state.bulks)
        for patch_kind in ("pending", "accepted") if has_pending else ("accepted",):
            question = queries.PatchQuery(which=patch_kind, paths=paths)
            answer = await self.context.query(question, queries.PatchAnswer, "Can't show the changes.")
            if answer is None:
                return
            if answer.patch or answer.left_out:
                self._show_patch(patch_kind, answer)
                return
        location = f" in {format_path(path, 100)}" if path else ""
        self.context.notify_user(f"Nothing pending and nothing to commit{location}.")

    def _show_patch(self, patch_kind: Which, answer: queries.PatchAnswer) -> None:
        patch = answer.patch.decode("utf-8", "replace")
        lines = patch.split("\n")
        additions = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
        deletions = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
        title = f"{TITLES[patch_kind]} · {count('file', len(answer.paths))} +{additions:,} -{deletions:,}"
        omissions = "; ".join(f"{format_path(path, 60)}: {reason}" for path, reason in answer.left_out[:3])
        note = f"Left out: {omissions}{' …' if len(answer.left_out) > 3 else ''}" if omissions else ""
        self.context.show(PatchDialog(title, patch, note, self._copying.copy))

    async def _ask_preview(
        self, split: queries.CommitSplit, topics: Sequence[CommitTopic] = ()
    ) -> queries.CommitAnswer | None:
        question = queries.CommitQuery(split=split, topics=tuple(topics), paths=self._paths)
        answer = await self.context.query(question, queries.CommitAnswer, "Git did not answer.")
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
        """Show new output and results."""
        progress = self.context.state.commits
        ends, progress.ends = progress.ends, list[AnyEvent]()
        if self._dialog is None or not self._dialog.is_mounted:
            return
        if progress.output:
            self._dialog.show_output(progress.output)
        is_at_work = self._dialog.is_at_work
        for event in (end for end in ends if is_at_work or not isinstance(end, ErrorRaised)):
            if self._dialog is not None:
                self._dialog.show_result(event)
            if isinstance(event, CommitMade | PullRequestOpened) and self._panes.covers_chat:
                self.context.notify_user(*describe_commit_end(event))


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]
