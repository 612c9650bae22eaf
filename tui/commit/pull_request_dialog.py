"""The dialog of a pull request: where it goes, its title and text, and what is run for it."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.commands import PullRequestDraft, PullRequestOpen
from core.protocol.events import AnyEvent, PullRequestDrafted, PullRequestOpened
from core.protocol.queries import PullRequestAnswer
from core.text.counting import count
from tui.commit.draft_dialog import DraftDialog, Edit, Submit
from tui.keymap import get_bindings
from tui.text import fit_line

_MAX_SHOWN: Final = 12  # subjects


class PullRequestDialog(DraftDialog):
    """Sends a branch on its way. The first line of the text is the title."""

    BINDINGS = get_bindings("pull_request", priority=True)
    hints = (
        ("pull_request.open", "push and open"),
        ("pull_request.draft", "have it written"),
        ("pull_request.ready", "ready for review or not"),
        ("pull_request.edit", "$EDITOR"),
        ("pull_request.leave", "back"),
    )

    def __init__(self, answer: PullRequestAnswer, submit: Submit, edit: Edit, *, drafts: bool) -> None:
        super().__init__("Pull request", submit, edit)
        self._found, self._drafts = answer, drafts
        self._is_draft = False

    def set_up(self) -> None:
        super().set_up()
        self.show_text(f"{self._found.title}\n\n{self._found.body}")
        commit_lines = [f"· {fit_line(commit, 100)}" for commit in self._found.commits[:_MAX_SHOWN]]
        remaining = len(self._found.commits) - _MAX_SHOWN
        facts = "\n".join([*commit_lines, *([f"… {remaining} more"] if remaining > 0 else [])])
        self.show_facts(Content.from_text(facts, markup=False).stylize("$foreground 60%"))
        self._show_head()
        if self._drafts:
            self.action_draft()

    def _show_head(self) -> None:
        answer = self._found
        ways = f"git push {answer.remote} HEAD:{answer.branch} · {fit_line(answer.url, 100)}"
        state = " as not ready for review" if self._is_draft else ""
        opens = f"then {answer.program} opens it{state}" if answer.program else "only pushed: no gh or glab here for it"
        summary = f"{count('commit', len(answer.commits))} into {answer.base or '?'} · {opens}"
        writes = " · a model writes the text…" if self._is_drafting else ""
        self.show_head(Content.from_text(f"{ways}\n{summary}{writes}", markup=False).stylize("$foreground 60%"))

    def action_open(self) -> None:
        title, _, body = self.editor.text.strip().partition("\n")
        answer = self._found
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

    def show_end(self, event: AnyEvent) -> None:
        self._is_drafting = False
        if isinstance(event, PullRequestOpened):
            _ = self.dismiss(None)
            return
        if isinstance(event, PullRequestDrafted) and not self.is_touched:
            self.show_text(f"{event.title}\n\n{event.body}")
        super().show_end(event)
        self._show_head()
