"""The review pane: the pending changes grouped by intent, their verdicts and comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol.commands import (
    HunkComment,
    HunkJoin,
    HunkResolve,
    HunkSplit,
    HunkTestRequest,
    MutantDismiss,
    VerdictUndo,
)
from core.protocol.queries import HunkAnswer
from core.protocol.renames import list_changes
from core.protocol.review import Change, Verdict
from core.state.proof import ProofState
from core.text.counting import count
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import PaneSource, StatePane
from tui.review import messages
from tui.review.browser import ANSWERED, IN_LIST, NONE_SEEN, NOT_LOADED, ChangeBrowser
from tui.review.change_list import UNFILTER_HINT
from tui.review.descriptions import (
    UserRequests,
    arrange_by_intent,
    describe_verification,
    is_proven,
    needs_confirmation,
)
from tui.review.diff.verdicts import SentVerdicts
from tui.review.diff.view import DiffView, LoadLines
from tui.review.hunk_editor import EditorContext, HunkEditor
from tui.review.list_rows import ChangeRow
from tui.review.proof_view import HunkPlace
from tui.text import format_path
from tui.widgets.input_line import InputLine, InputPurpose
from tui.widgets.key_hints import Hint, HintsChanged

if TYPE_CHECKING:
    from tui.state import ViewState

HINTS: Final[tuple[Hint, ...]] = (
    *((f"review.{word}", word) for word in ("accept", "reject", "next", "undo", "comment", "edit")),
    *(("review.reason", "why"), ("review.divide", "split"), ("review.list", "list")),
)
MORE_HINTS: Final[tuple[Hint, ...]] = (
    ("review.split", "columns"),
    ("review.mark_down review.mark_up", "mark line"),
    ("review.accept_file", "accept file"),
    ("review.accept_seen", "accept seen"),
)


class ReviewInput(InputLine):
    """Asks for the reason of a rejection, for a comment, or for words to filter by."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "reason": InputPurpose("Why? Enter rejects and tells the model, Esc back", "reject"),
        "comment": InputPurpose("Your comment. Enter saves it until you send, empty removes it", "keep"),
        "filter": InputPurpose(
            "Words of a path or command. Enter keeps the filter, Esc shows all",
            "go",
            "show all",
        ),
    }

    def ask(self, purpose: str, value: str = "") -> None:
        super().ask(purpose, value)
        self.set_class(purpose == "reason", "-reason")


class ReviewPane(StatePane):
    """The pane that submits verdicts, edits and comments on the hunks of its browser; `load` as in `ChangeBrowser`."""

    DEFAULT_CSS = """
    ReviewPane { width: 1fr; height: 1fr; background: $background; }
    ReviewPane > ReviewInput { background: $primary-muted; }
    ReviewPane > .review--verification { height: 1; text-wrap: nowrap; text-overflow: ellipsis; display: none; }
    ReviewPane > .review--proof { height: auto; max-height: 3; padding: 0 1; display: none; background: $surface; }
    ReviewPane > ReviewInput.-reason { background: $error-muted; }
    """

    BINDINGS = get_bindings("review")

    def __init__(
        self,
        load: LoadLines,
        *,
        clock: Callable[[], float] = monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._sent = SentVerdicts(self.read_clock)
        self.browser = ChangeBrowser(load, self._sent, clock=self.read_clock)
        self._before_undo: frozenset[str] | None = None
        self._last_split: tuple[str, str] | None = None  # path and hunk; None: `undo` is about a verdict
        self._input_target = ("", "")  # path and hunk
        self._shown: tuple[object, ...] = ()  # the session, its last event that was shown, and what is in no log
        self._is_visited = False  # since the end of the last visit
        self._seen: frozenset[HunkPlace] | None = (
            None  # what waited at the end of the last visit, None = there was none
        )

    @classmethod
    def from_source(cls, source: PaneSource) -> ReviewPane:
        return cls(source.load_diff)

    def read_clock(self) -> float:
        return self._clock()

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The keys for the current hunk; those about its evidence only where they do something."""
        place, proof = self.browser.current_place, self.browser.proof
        own = [("review.settle", "test")] if place is not None and proof.needs_test(place) else []
        own += [("review.dismiss", "not useful")] if place is not None and proof.has_gap(place) else []
        proven = ("review.accept_proven", "accept proven")
        own += [proven] if proof.summary.proven else []
        own = [UNFILTER_HINT, *own] if self.browser.is_filtered else own
        more = [("review.wrap", "wrap")] if self.browser.has_long_lines else []
        more += [] if proof.summary.proven else [proven]
        return (*HINTS[:3], *own, *HINTS[3:], *more, *MORE_HINTS)

    def compose(self) -> ComposeResult:
        yield Static(classes="review--proof")
        yield self.browser
        yield Static(classes="review--verification")
        yield ReviewInput()

    def on_key(self) -> None:
        self.browser.explain("")

    def on_mouse_down(self) -> None:
        self.browser.explain("")

    # Input from the screen

    def show_state(self, state: ViewState) -> None:
        seen, self._shown = self._shown, (state.session_id, state.seq, len(state.refused_edits))
        if seen == self._shown and not state.refusals:  # a lossy event: nothing but the progress of a check is new
            self._show_progress(state)
            return
        self._last_split = state.review.last_split
        todos = {todo.id: todo.content for todo in state.todos}
        diagnostics = state.review.diagnostics
        self.browser.set_surroundings(state.bulks, state.comments, diagnostics, (state.turn_numbers, todos))
        requests = UserRequests(state.turn_prompts, state.turn_numbers, todos)
        changes, intents = arrange_by_intent(list_changes(state.changes), requests)
        self.browser.set_review(
            state.judged, intents, can_commit=state.can_commit, accepts_at_once=state.accepts_at_once
        )
        self.show_proof(state.review.proof, changes, version=state.review.version)
        self.set_changes(changes)
        refusals, state.refusals = state.refusals, {}
        self.show_refused(refusals)
        self._show_progress(state)

    def _show_progress(self, state: ViewState) -> None:
        """Show which check runs again, and how far the proof is that runs."""
        self.browser.show_proving(state.proving)
        progress = self.query_one(".review--verification", Static)
        progress.display = bool(state.verifying)
        progress.update(Content.assemble(*describe_verification(state.verifying, state.verifying_line)))

    def show_proof(self, proof: ProofState, changes: Sequence[Change], *, version: object) -> None:
        """Show what the check says; `set_changes` follows. It is worked out again for another `version`."""
        before = (self.browser.proof.judgements, self.browser.proof.summary)
        self.browser.proof.update(proof, changes, version=version)
        trouble = self.browser.proof.describe_trouble()
        line = self.query_one(".review--proof", Static)
        line.display = bool(trouble)
        line.update(Content.assemble(*trouble))
        if before != (self.browser.proof.judgements, self.browser.proof.summary):
            self.post_message(HintsChanged())

    def set_changes(self, changes: tuple[Change, ...]) -> None:
        """Set the pending changes; after an undo the cursor moves to the first restored hunk."""
        if self.browser.set_changes(changes, before_undo=self._before_undo):
            self._before_undo = None

    def show_refused(self, refusals: Mapping[str, str]) -> None:
        """Show why verdicts failed, by file or bulk; the cursor returns to a hunk that was judged in this pane."""
        for path, reason in refusals.items():
            verdicts = self._sent.get_hunks(path)
            if verdicts or path in self._sent.bulks:
                self.reopen(path, reason)
                self.browser.return_to_hunk((path, next(iter(verdicts), "")))

    def reopen(self, path: str = "", reason: str = "") -> None:
        """Allow another verdict on `path` ("" = any) after a refusal, and show its `reason`."""
        self._sent.reopen(path, reason)
        self.browser.render_header()

    def focus(self, scroll_visible: bool = True) -> ReviewPane:
        self.browser.focus(scroll_visible)
        return self

    # Moving

    def action_move_hunk(self, step: int) -> None:
        self.browser.move_hunk(step)

    def action_move_file(self, step: int) -> None:
        self.browser.move_file(step)

    def action_toggle_list(self) -> None:
        self.browser.toggle_list()

    def action_toggle_columns(self) -> None:
        self.browser.toggle_columns()

    def action_toggle_wrap(self) -> None:
        if self.browser.is_list_shown:
            self.browser.explain(IN_LIST)
        else:
            self.browser.diff_view.action_toggle_wrap()

    # Verdicts

    def _is_blocked(self, change: Change, verdict: Verdict, hunk: str = "") -> bool:
        """True if the hunk ("" = the whole file) cannot be accepted; this shows the reason."""
        is_refused = self._sent.refuse_conflict(change, verdict, hunk)
        if is_refused:
            self.browser.render_header()
        return is_refused

    def action_resolve_hunk(self, verdict: Verdict) -> None:
        self._resolve(verdict)

    def action_resolve_file(self, verdict: Verdict) -> None:
        self._resolve(verdict, whole_file=True)

    @on(DiffView.ButtonClicked)
    def _on_button_clicked(self, event: DiffView.ButtonClicked) -> None:
        event.stop()
        if event.button == "settle":
            self.action_settle_or_test()
        else:
            self._resolve(event.button, by_mouse=True)

    def _resolve(self, verdict: Verdict, *, whole_file: bool = False, by_mouse: bool = False) -> None:
        browser = self.browser
        if browser.is_too_early(by_mouse=by_mouse):
            return
        if whole_file and browser.is_list_shown and browser.is_filtered:
            self._resolve_shown(verdict)
            return
        if browser.is_unseen(by_mouse=by_mouse):
            return
        if self._sent.reopen_unanswered():
            browser.render_header()
        if browser.is_list_shown:
            self._resolve_row(verdict)
            return
        diff, hunk_index = browser.get_diff(), browser.diff_view.current
        if diff is None or (not whole_file and (hunk_index < 0 or browser.is_sent(hunk_index))):
            if browser.changes:
                browser.explain(NOT_LOADED if diff is None else ANSWERED)
            return
        hunk = "" if whole_file else diff.change.hunks[hunk_index].id
        ids = self._sent.list_resolvable(diff.change, verdict) if whole_file else (hunk,)
        if not self._is_blocked(diff.change, verdict, hunk):
            if ids:
                self._send_verdict(diff.change, ids, verdict)
            else:
                browser.explain(ANSWERED)

    def _resolve_shown(self, verdict: Verdict) -> None:
        """Offer one verdict on everything that a filtered list shows."""
        change_list, hunks = self.browser.change_list, []
        for change, ids in change_list.list_shown():
            resolvable = self._sent.list_resolvable(change, verdict)
            hunks.append((change, tuple(id_ for id_ in ids if id_ in resolvable)))
        by_hunk, shown_hunks = change_list.arrangement == "hunks", tuple(pair for pair in hunks if pair[1])
        self.post_message(messages.ShownVerdictRequested(verdict, shown_hunks, change_list.pattern, by_hunk))

    def _resolve_row(self, verdict: Verdict) -> None:
        row = self.browser.change_list.current_row
        if row is None:
            return
        self._before_undo = None
        changes = [self.browser.changes[index] for index in row.members]
        if row.kind in {"hunk", "fold"}:
            self._resolve_hunks(row, changes, verdict)
        elif row.kind == "bulk":
            if self._sent.add_bulk(row.name):
                self.post_message(messages.BulkResolved(row.name, verdict))
        elif row.kind != "file":
            self._resolve_directory(changes, verdict)
        elif self._is_blocked(changes[0], verdict):
            return
        elif ids := self._sent.list_resolvable(changes[0], verdict):
            self._sent.add_hunks(row.name, ids, verdict)
            self.post_message(messages.VerdictRequested(HunkResolve(path=row.name, hunks=ids, verdict=verdict)))
        self.browser.render_header()
        if row.kind in {"file", "hunk"} and not (verdict == "accept" and needs_confirmation(changes[0])):
            self.browser.change_list.action_move(1)

    def _resolve_hunks(self, row: ChangeRow, changes: Sequence[Change], verdict: Verdict) -> None:
        """Submit a verdict on a hunk of the list, or on those that are folded into a row, except protected ones and
        deletions, which are confirmed one by one."""
        is_fold, left_out = row.kind == "fold", 0
        for change in changes:
            ids = [id_ for path, id_ in row.hunks if path == change.path]
            if is_fold and verdict == "accept" and needs_confirmation(change):
                left_out += len(ids)
                continue
            if not is_fold and self._is_blocked(change, verdict, ids[0]):
                continue
            resolvable = self._sent.list_resolvable(change, verdict)
            if hunks := tuple(id_ for id_ in ids if id_ in resolvable):
                self._sent.add_hunks(change.path, hunks, verdict)
                command = HunkResolve(path=change.path, hunks=hunks, verdict=verdict)
                self.post_message(messages.VerdictRequested(command))
        if left_out:
            text = f"{count('hunk', left_out)} of protected or deleted files: decide on them separately."
            self.app.notify(text, markup=False)

    def _resolve_directory(self, changes: list[Change], verdict: Verdict) -> None:
        """Submit a verdict on the files of a directory, except protected ones and accepted conflicts."""
        allowed_changes = [candidate for candidate in changes if not self._is_blocked(candidate, verdict)]
        resolvable = {
            candidate.path: self._sent.list_resolvable(candidate, verdict)
            for candidate in allowed_changes
            if not candidate.protected
        }
        paths = tuple(path for path, ids in resolvable.items() if ids)
        for path in paths:
            self._sent.add_hunks(path, resolvable[path], verdict)
        if paths:
            self.post_message(messages.VerdictRequested(HunkResolve(path="", paths=paths, verdict=verdict)))
        if number := sum(change.protected for change in allowed_changes):
            rest = "decide on it separately." if number == 1 else "decide on each separately."
            self.app.notify(f"{count('protected file', number)}: {rest}", markup=False)

    def _send_verdict(self, change: Change, ids: tuple[str, ...], verdict: Verdict, reason: str = "") -> None:
        """Send a verdict and go on; a change that needs confirmation stays on screen."""
        path = change.path
        self._before_undo = None
        self.browser.attention.note_moved(by_hand=False)
        self._sent.refused.pop(path, None)
        self._sent.add_hunks(path, ids, verdict)
        command = HunkResolve(path=path, hunks=ids, verdict=verdict, reason=reason)
        self.post_message(messages.VerdictRequested(command))
        self.browser.render_header()
        if not (verdict == "accept" and needs_confirmation(change)):
            self.browser.go_to_next_unsent()

    def action_accept_proven(self) -> None:
        """Offer to run the tests again and accept the changes that they prove."""
        if not self.browser.is_too_early():
            proven = [change for change in self.browser.changes if is_proven(change) and self._sent.list_unsent(change)]
            self.post_message(messages.ProvenVerdictRequested(tuple(proven)))

    def action_accept_seen(self) -> None:
        """Offer to accept the hunks that have been in view, except those that are confirmed one by one."""
        if self.browser.is_too_early():
            return
        verdicts = []
        for change in self.browser.changes:
            seen = self.browser.list_seen(change) if not needs_confirmation(change) else ()
            if ids := tuple(id_ for id_ in self._sent.list_resolvable(change, "accept") if id_ in seen):
                verdicts.append(HunkResolve(path=change.path, hunks=ids, verdict="accept"))
        if verdicts:
            self.post_message(messages.SeenVerdictRequested(tuple(verdicts)))
        else:
            self.browser.explain(NONE_SEEN)

    def action_show_proof(self) -> None:
        if (change := self.browser.current_change) is not None:
            place = self.browser.current_place
            self.post_message(messages.ProofRequested(change, place[1] if place is not None else ""))

    def action_prove(self) -> None:
        """Have the check run over each hunk, or stop that."""
        if self.browser.changes:
            self.post_message(messages.ProveRequested())

    def action_settle_or_test(self) -> None:
        """Resolve the file's conflict; else have the agent write a test that notices the hunk."""
        change, place = self.browser.current_change, self.browser.current_place
        if change is None or self.browser.is_too_early():
            return
        if change.conflict or place is None or place not in self.browser.proof.judgements:
            self.post_message(messages.ConflictRequested(change.path))
        elif self.browser.proof.needs_test(place):
            self.post_message(messages.CommandRequested(HunkTestRequest(path=place[0], hunk=place[1])))
            self.app.notify("The agent is asked for a test that notices this hunk.", markup=False)
        else:
            self.app.notify(insert_keys(self._explain_no_test(place), get_keymap(self.app)), markup=False)

    def _explain_no_test(self, place: HunkPlace) -> str:
        judgement = self.browser.proof.judgements[place]
        if judgement.word == "unknown":
            return "The check has not looked into this hunk. {review.prove} runs it over each hunk."
        return f"This hunk asks for no test: {judgement.text}."

    def action_dismiss_gap(self) -> None:
        """Say that what was not noticed about the hunk is not useful."""
        place = self.browser.current_place
        if place is None or self.browser.is_too_early():
            return
        if self.browser.proof.has_gap(place):
            self.post_message(messages.CommandRequested(MutantDismiss(path=place[0], hunk=place[1])))
            self.app.notify("Such a small change is not tried again in this project.", markup=False)
        else:
            self.app.notify("Nothing to dismiss: no small change of this hunk went unnoticed.", markup=False)

    @on(DiffView.ProofClicked)
    def _on_proof_clicked(self, event: DiffView.ProofClicked) -> None:
        event.stop()
        change = next((candidate for candidate in self.browser.changes if candidate.path == event.path), None)
        if change is not None:
            self.post_message(messages.ProofRequested(change))

    def action_undo(self) -> None:
        if self.browser.is_too_early():
            return
        self.reopen()
        self._before_undo = frozenset(hunk.id for change in self.browser.changes for hunk in change.hunks)
        command = HunkJoin(path=self._last_split[0], hunk=self._last_split[1]) if self._last_split else VerdictUndo()
        self.post_message(messages.CommandRequested(command))

    def action_reject_with_reason(self) -> None:
        if target := self.browser.find_judgeable_hunk():
            self._input_target = (target[0], target[1].id)
            self.query_one(ReviewInput).ask("reason")

    @property
    def current_place(self) -> tuple[str, int] | None:
        """The file and the line, from 1, of the current hunk; of a file in the list, its first."""
        if (change := self.browser.current_change) is None:
            return None
        diff, hunk_index = self.browser.get_diff(), self.browser.diff_view.current
        hunk = (
            diff.change.hunks[hunk_index]
            if diff is not None and hunk_index >= 0 and not self.browser.is_list_shown
            else None
        )
        return change.path, max(hunk.new_start, 1) if hunk else 1

    def action_open_file(self) -> None:
        if (location := self.current_place) is not None:
            self.post_message(messages.FileRequested(*location))

    # A hunk

    def action_mark_line(self, step: int) -> None:
        if self.browser.is_list_shown:
            self.browser.explain(IN_LIST)
        else:
            self.browser.diff_view.move_line_mark(step)

    def action_split_hunk(self) -> None:
        if target := self.browser.find_judgeable_hunk():
            line = self.browser.diff_view.marked_line
            split = HunkSplit(path=target[0], hunk=target[1].id, line=line if line > 1 else 0)
            self.post_message(messages.CommandRequested(split))

    def action_edit_hunk(self) -> None:
        if target := self.browser.find_judgeable_hunk():
            self.post_message(messages.HunkTextRequested(target[0], target[1].id))

    async def edit_hunk(self, hunk: HunkAnswer) -> None:
        view = self.browser.diff_view
        above, below = await self.browser.load_around(hunk)
        if not self.query(HunkEditor):
            parts = (EditorContext(is_above=True), HunkEditor(), EditorContext(is_above=False))
            await self.browser.mount_all(parts, after=view)
        editor, (over, under) = self.query_one(HunkEditor), self.query(EditorContext)
        editor.open_hunk(hunk)
        editor.display, view.display = True, False
        editor.digits = max((len(str(number)) for number, _ in (*above, *below)), default=1)
        over.show_lines(above, editor.gutter_width - 2, f" {format_path(hunk.path)}")
        under.show_lines(below, editor.gutter_width - 2)
        editor.focus()

    @on(HunkEditor.Closed)
    def _close_editor(self) -> None:
        for widget in (self.query_one(HunkEditor), *self.query(EditorContext)):
            widget.display = False
        self.browser.diff_view.display = True
        self.browser.restart_grace()
        self.focus()

    def action_comment(self) -> None:
        """Comment on the hunk; with nothing pending, open the commit dialog."""
        if self.browser.is_settled:
            self.post_message(messages.CommitRequested())
        elif target := self.browser.find_judgeable_hunk():
            self._input_target = (target[0], target[1].id)
            comment = self.browser.comments.get((target[0], target[1].id))
            self.query_one(ReviewInput).ask("comment", comment.text if comment else "")

    def action_send_comments(self) -> None:
        self.post_message(messages.CommentsRequested())

    # More than a hunk

    def action_resolve_origin(self) -> None:
        if (change := self.browser.current_change) is not None and not self.browser.is_too_early():
            hunk = self.browser.pending_hunk
            if change.origin is not None and hunk is not None and hunk.todo:
                change = replace(change, origin=replace(change.origin, todo=hunk.todo))
            self.post_message(messages.OriginVerdictRequested(change))

    def action_show_todo(self) -> None:
        if (change := self.browser.current_change) is not None:
            hunk = self.browser.pending_hunk
            self.post_message(messages.TodoRequested(change, hunk.todo if hunk is not None else ""))

    def action_show_news(self) -> None:
        """List only the hunks that are new or different since the end of the last visit; again: all of them."""
        if self.browser.is_list_shown and self.browser.change_list.only is not None:
            self.browser.show_only(None)
        elif self._seen is None:
            self.app.notify("This is your first look at these changes.", markup=False)
        elif news := self._list_places() - self._seen:
            self.browser.show_only(news)
        else:
            self.app.notify("Nothing is new since you last looked.", markup=False)

    def _list_places(self) -> frozenset[HunkPlace]:
        return frozenset((change.path, hunk.id) for change in self.browser.changes for hunk in change.hunks)

    @on(events.DescendantFocus)
    def _begin_visit(self) -> None:
        self._is_visited = True

    @on(events.DescendantBlur)
    def _note_blur(self) -> None:
        self.call_later(self._end_visit)

    def _end_visit(self) -> None:
        """Remember what waits, once the user has gone elsewhere; a dialog over the review is no other place."""
        if self._is_visited and self.is_attached and self.app.screen is self.screen and not self.has_focus_within:
            self._is_visited, self._seen = False, self._list_places()

    def action_unfilter(self) -> None:
        """Show everything again, before the next press leaves the review."""
        self.browser.show_only(None)
        self.browser.set_filter("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the key that ends a filter while there is none, so that it goes back to the prompt."""
        return self.browser.is_filtered if action == "unfilter" else True

    def action_switch_arrangement(self) -> None:
        self.browser.switch_arrangement()

    def action_filter(self) -> None:
        if not self.browser.changes and not self.browser.bulks:
            return
        if not self.browser.is_list_shown:
            self.browser.show_list(True)
        self.query_one(ReviewInput).ask("filter", self.browser.change_list.pattern)

    # The line at the foot

    @on(Input.Changed)
    def _on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        review_input = self.query_one(ReviewInput)
        if review_input.display and review_input.purpose == "filter":
            self.browser.set_filter(event.value)

    @on(Input.Submitted)
    def _on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        (path, hunk), purpose, text = self._input_target, self._close_input(), event.value.strip()
        if purpose == "reason":
            change = next((candidate for candidate in self.browser.changes if candidate.path == path), None)
            if change is not None:
                self._send_verdict(change, (hunk,), "reject", text)
        elif purpose == "comment" and (text or (path, hunk) in self.browser.comments):
            self.post_message(messages.CommandRequested(HunkComment(path=path, hunk=hunk, text=text)))

    @on(ReviewInput.Cancelled)
    def _on_input_cancelled(self) -> None:
        if self._close_input() == "filter":
            self.browser.set_filter("")

    def _close_input(self) -> str:
        purpose = self.query_one(ReviewInput).close()
        self.focus()
        return purpose
