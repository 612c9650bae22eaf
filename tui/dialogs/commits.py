"""The dialogs of a commit and of a pull request: an editable draft, its contents, and git's output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, get_args

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from core.protocol.commands import (
    AnyCommand,
    CommitDraft,
    CommitMake,
    CommitSort,
    HookPlace,
    PlannedCommit,
    PullRequestDraft,
    PullRequestOpen,
)
from core.protocol.events import (
    AnyEvent,
    CommitDrafted,
    CommitFailed,
    CommitMade,
    CommitSorted,
    ErrorRaised,
    PullRequestDrafted,
    PullRequestOpened,
)
from core.protocol.queries import CommitAnswer, CommitFile, CommitGroup, CommitSplit, PullRequestAnswer
from core.protocol.review import CommitTopic
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.text import fit_line, render_output, shorten_path, to_content
from tui.widgets.key_hints import Hint, KeyHints

Submit = Callable[[AnyCommand], None]
Edit = Callable[[str, str], str | None]
MAX_OUTPUT: Final = 20_000  # maximum characters of hook output, from its end
_SPLITS: Final[tuple[CommitSplit, ...]] = get_args(CommitSplit)
_SPLIT_WORDS: Final = {
    "none": "one commit",
    "todo": "one per todo",
    "prompt": "one per prompt",
    "topic": "one per topic",
}
_HOOK_WORDS: Final = {
    "box": "sandboxed first",
    "machine": "on this machine only",
    "none": "not run (--no-verify)",
}
_SIGNS: Final = {"create": "+", "edit": "~", "delete": "-"}
_MAX_FILES: Final = 200
Edits = tuple[str, ...]  # of a commit; it keeps its message by them, however the others are split
Preview = Callable[[CommitSplit, Sequence[CommitTopic]], None]
_MAX_SUBJECTS: Final = 12


class DraftDialog(Dialog[None]):
    """Edits a text that one key sends. `submit` sends a command; `edit` opens a text with a file suffix in the
    user's editor. Results of the command are passed to `show_result`."""

    shape = "wide draft"
    asks_consent = True
    hints: ClassVar[tuple[Hint, ...]] = ()
    suffix: ClassVar[str] = ".md"

    def __init__(self, title: str, submit: Submit, edit: Edit) -> None:
        super().__init__(title)
        self._submit, self._edit = submit, edit
        self.is_busy = self._is_drafting = False
        self._untouched = ""

    def compose_body(self) -> ComposeResult:
        yield Static(id="draft-head")
        yield TextArea(id="draft-text", soft_wrap=True, tab_behavior="focus")
        yield Static(id="draft-facts")
        with VerticalScroll(id="draft-log"):
            yield Static(id="draft-output")
        yield KeyHints(id="draft-keys")

    def set_up(self) -> None:
        self.editor.cursor_blink = False
        self.editor.focus()
        self.query_one("#draft-log").can_focus = False
        self.query_one("#draft-log").display = False
        self.show_keys()

    @property
    def editor(self) -> TextArea:
        return self.query_one("#draft-text", TextArea)

    @property
    def is_at_work(self) -> bool:
        """True while a command is running."""
        return self.is_busy or self._is_drafting

    @property
    def is_touched(self) -> bool:
        """True if the user has written something."""
        return self.editor.text != self._untouched

    def show_text(self, text: str) -> None:
        """Show a proposed text, unless the user has edited it."""
        self._untouched = text
        self.editor.text = text
        self.editor.move_cursor((0, 0))

    def show_head(self, head: Content) -> None:
        self.query_one("#draft-head", Static).update(head)

    def show_facts(self, facts: Content) -> None:
        self.query_one("#draft-facts", Static).update(facts)

    def show_keys(self) -> None:
        useful = (hint for hint in self.hints if hint[0] not in self.list_useless())
        self.query_one(KeyHints).show(useful)

    def list_useless(self) -> tuple[str, ...]:
        """Return the ids of keys that do nothing now."""
        return ()

    def show_output(self, text: str) -> None:
        """Show the end of the output of hooks or git."""
        log = self.query_one("#draft-log", VerticalScroll)
        log.display = bool(text.strip())
        self.query_one("#draft-output", Static).update(to_content(render_output(text[-MAX_OUTPUT:]).rstrip()))
        log.scroll_end(animate=False)

    def show_result(self, event: AnyEvent) -> None:
        """Show the result of the command; after a failure it can be sent again."""
        if isinstance(event, CommitFailed | ErrorRaised):
            self.is_busy = False
            output = event.output if isinstance(event, CommitFailed) else ""
            message = f"{event.message[:1].upper()}{event.message[1:]} {event.hint}"
            self.show_output(f"{output}\n{message}".strip())
            self.query_one("#draft-log").add_class("-failed")

    def show_refusal(self) -> None:
        """Note that the command was rejected; a toast shows the reason."""
        self.is_busy = self._is_drafting = False
        self.show_output("")

    def send(self, command: AnyCommand) -> None:
        """Send a command, unless one is running or the dialog has just appeared."""
        if self.is_busy or not self.can_take_answer():
            return
        self.is_busy = True
        self.query_one("#draft-log").remove_class("-failed")
        self.show_output("…")
        self._submit(command)

    def action_edit(self) -> None:
        text = self._edit(self.editor.text, self.suffix)
        if text is not None:
            self.editor.text = text


class CommitDialog(DraftDialog):
    """Plans commits of accepted hunks. `preview(split, topics)` requests another split, which arrives at
    `show_preview`. `drafts`: a model sorts hunks and writes messages automatically, one request at a time; a split
    that changes meanwhile gets its messages afterwards."""

    BINDINGS = get_bindings("commit", priority=True)
    hints = (
        ("commit.make", "commit"),
        ("commit.draft", "generate message"),
        ("commit.split", "split"),
        ("commit.next", "next"),
        ("commit.hooks", "hooks"),
        ("commit.edit", "$EDITOR"),
        ("commit.leave", "back"),
    )

    def __init__(self, answer: CommitAnswer, submit: Submit, edit: Edit, preview: Preview, *, drafts: bool) -> None:
        super().__init__("Commit what you accepted", submit, edit)
        self._answer, self._preview, self._drafts = answer, preview, drafts
        self._split: CommitSplit = "none"
        self._hooks: HookPlace = "box"
        self._texts: dict[Edits, str] = {}
        self._proposed: dict[Edits, str] = {}  # a text that differs is the user's
        self._drafted_edits: tuple[Edits, ...] = ()  # of the current request for messages; (): for a sort
        self._requested_edits: set[Edits] = set()  # with requested messages
        self._topics: tuple[CommitTopic, ...] | None = None  # as a model has sorted the edits; None: it was not asked
        self._index = self._commit_count = 0

    def set_up(self) -> None:
        super().set_up()
        self._show_groups()

    @property
    def _group(self) -> CommitGroup:
        return self._answer.groups[self._index]

    def show_preview(self, answer: CommitAnswer) -> None:
        """Show the commits as they are planned now."""
        if answer.refused:
            self.notify(f"{answer.refused} {answer.hint}".strip(), markup=False)
            return
        self._save_text()
        self._answer, self._index = answer, 0
        self._show_groups()

    def _show_groups(self) -> None:
        for group in self._answer.groups:
            self._texts.setdefault(group.edits, group.message)
            self._proposed.setdefault(group.edits, group.message)
        self._show_group()
        self._ask_model()

    def _show_group(self) -> None:
        self.show_text(self._texts[self._group.edits])
        self._show_head()
        self.show_keys()
        self.show_facts(render_files(self._group.files, self._answer.left_out, self.size.width))

    def _show_head(self) -> None:
        answer, total = self._answer, len(self._answer.groups)
        parts = [f"on {answer.branch or 'a detached HEAD'}", _SPLIT_WORDS[self._split]]
        if answer.hooks:
            parts.append(f"{', '.join(answer.hooks)} {_HOOK_WORDS[self._hooks]}")
        if answer.staged:
            parts.append(f"{count('staged file', answer.staged)} of yours left as is")
        if self._is_drafting:
            parts.append("a model is writing the message…" if self._drafted_edits else "a model is sorting by topic…")
        head = Content.from_text(" · ".join(parts), markup=False).stylize("$foreground 60%")
        if total > 1:
            title = f"{self._index + 1} of {total}  {fit_line(self._group.title, 60)}\n"
            head = Content.assemble((title, "bold"), head)
        self.show_head(head)

    def list_useless(self) -> tuple[str, ...]:
        answer = self._answer
        return (
            *(() if len(answer.groups) > 1 else ("commit.next",)),
            *(() if answer.hooks else ("commit.hooks",)),
        )

    def _save_text(self) -> None:
        self._texts[self._group.edits] = self.editor.text

    def action_make(self) -> None:
        self._save_text()
        edit_groups = [group.edits for group in self._answer.groups]
        commits = tuple(PlannedCommit(message=self._texts[edits], edits=edits) for edits in edit_groups)
        self._commit_count = 0
        self.send(CommitMake(head=self._answer.head, commits=commits, hooks=self._hooks))

    def action_draft(self) -> None:
        if not self.is_busy and not self._is_drafting:
            self._is_drafting = True
            self._drafted_edits = tuple(group.edits for group in self._answer.groups)
            self._requested_edits.update(self._drafted_edits)
            self._submit(CommitDraft(groups=self._drafted_edits))
            self._show_head()

    def _ask_model(self) -> None:
        """Request the next missing part of the current split from a model, one at a time."""
        if self._split == "topic" and self._topics is None and not self._is_drafting:
            self._is_drafting, self._drafted_edits = True, ()
            self._submit(CommitSort(edits=tuple(edit for group in self._answer.groups for edit in group.edits)))
            self._show_head()
        elif self._drafts and not self._requested_edits.issuperset(group.edits for group in self._answer.groups):
            self.action_draft()

    def action_split(self) -> None:
        if not self.is_busy:
            splits = (
                _SPLITS if self._drafts else tuple[CommitSplit, ...](split for split in _SPLITS if split != "topic")
            )
            self._split = splits[(splits.index(self._split) + 1) % len(splits)]
            self._show_split()

    def _show_split(self) -> None:
        if self._split == "topic" and self._topics is None:
            self._ask_model()
        else:
            self._preview(self._split, self._topics or ())

    def action_hooks(self) -> None:
        places: tuple[HookPlace, ...] = get_args(HookPlace)
        if self._answer.hooks and not self.is_busy:
            self._hooks = places[(places.index(self._hooks) + 1) % len(places)]
            self._show_head()

    def action_show(self, step: int) -> None:
        self._save_text()
        self._index = (self._index + step) % len(self._answer.groups)
        self._show_group()

    def show_result(self, event: AnyEvent) -> None:
        self._is_drafting = self._is_drafting and not isinstance(event, CommitDrafted | CommitSorted | ErrorRaised)
        if isinstance(event, CommitDrafted):
            self._take_draft(event.messages)
            self._ask_model()
        elif isinstance(event, CommitSorted):
            self._topics = event.topics
            self._show_split()
        elif isinstance(event, ErrorRaised) and self._split == "topic" and self._topics is None:
            self._split = "none"
            self._show_split()
        elif isinstance(event, CommitMade):
            self._commit_count += 1
            if self._commit_count == len(self._answer.groups):
                _ = self.dismiss(None)
                return
        super().show_result(event)
        self._show_head()

    def _take_draft(self, messages: Sequence[str]) -> None:
        """Adopt a model's messages, except for those that the user has started to edit."""
        self._save_text()
        for edits, text in zip(self._drafted_edits, messages, strict=False):
            if self._texts[edits] == self._proposed[edits]:
                self._texts[edits] = text
            self._proposed[edits] = text
        if (text := self._texts[self._group.edits]) != self.editor.text:
            self.show_text(text)


def render_files(files: Sequence[CommitFile], left_out: Sequence[CommitFile], width: int) -> Content:
    """Render the files of a commit, one a line, and those left out with the reason."""
    rows: list[Content] = []
    room = max(width - 24, 20)
    for file in files[:_MAX_FILES]:
        path = Content.from_text(f"{_SIGNS[file.operation]} {shorten_path(file.path, room)}", markup=False)
        rows.append(Content.assemble(path, (f"  +{file.added}", "$text-success"), (f" −{file.removed}", "$text-error")))
    if len(files) > _MAX_FILES:
        rows.append(Content(f"… {len(files) - _MAX_FILES} more"))
    for file in left_out:
        reason = fit_line(f"Left out: {shorten_path(file.path, room)}: {file.problem}", 400)
        rows.append(Content.from_text(reason, markup=False).stylize("$text-warning"))
    return Content("\n").join(rows)


class PullRequestDialog(DraftDialog):
    """Pushes a branch and opens its pull request. The first line of the text is the title."""

    BINDINGS = get_bindings("pull_request", priority=True)
    hints = (
        ("pull_request.open", "push and open"),
        ("pull_request.draft", "generate text"),
        ("pull_request.ready", "draft or ready"),
        ("pull_request.edit", "$EDITOR"),
        ("pull_request.leave", "back"),
    )

    def __init__(self, answer: PullRequestAnswer, submit: Submit, edit: Edit, *, drafts: bool) -> None:
        super().__init__("Pull request", submit, edit)
        self._answer, self._drafts = answer, drafts
        self._is_draft = False

    def set_up(self) -> None:
        super().set_up()
        self.show_text(f"{self._answer.title}\n\n{self._answer.body}")
        commit_lines = [f"· {fit_line(commit, 100)}" for commit in self._answer.commits[:_MAX_SUBJECTS]]
        remaining = len(self._answer.commits) - _MAX_SUBJECTS
        facts = "\n".join([*commit_lines, *([f"… {remaining} more"] if remaining > 0 else [])])
        self.show_facts(Content.from_text(facts, markup=False).stylize("$foreground 60%"))
        self._show_head()
        if self._drafts:
            self.action_draft()

    def _show_head(self) -> None:
        answer = self._answer
        ways = f"git push {answer.remote} HEAD:{answer.branch} · {fit_line(answer.url, 100)}"
        state = " as a draft" if self._is_draft else ""
        opens = f"then {answer.program} opens it{state}" if answer.program else "push only: no gh or glab found"
        summary = f"{count('commit', len(answer.commits))} into {answer.base or '?'} · {opens}"
        writes = " · a model is writing the text…" if self._is_drafting else ""
        self.show_head(Content.from_text(f"{ways}\n{summary}{writes}", markup=False).stylize("$foreground 60%"))

    def action_open(self) -> None:
        title, _, body = self.editor.text.strip().partition("\n")
        answer = self._answer
        self.send(
            PullRequestOpen(
                branch=answer.branch,
                base=answer.base,
                remote=answer.remote,
                title=title.strip(),
                body=f"{body.strip()}\n",
                is_draft=self._is_draft,
            )
        )

    def action_draft(self) -> None:
        if not self.is_busy and not self._is_drafting:
            self._is_drafting = True
            self._submit(PullRequestDraft())
            self._show_head()

    def action_ready(self) -> None:
        self._is_draft = not self._is_draft
        self._show_head()

    def show_result(self, event: AnyEvent) -> None:
        self._is_drafting = False
        if isinstance(event, PullRequestOpened):
            _ = self.dismiss(None)
            return
        if isinstance(event, PullRequestDrafted) and not self.is_touched:
            self.show_text(f"{event.title}\n\n{event.body}")
        super().show_result(event)
        self._show_head()
