"""The controller of the user's attention: the window's title, the tab's progress, and notifications.

Every question and every end of a turn causes one notification, unless this window has the focus; every end of a
background command, unless the conversation is visible, too. Title and progress show the same state as the status bar.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Final, NamedTuple

from textual.content import Content
from textual.widgets import Static

from core.protocol.events import JobEnded
from core.protocol.queries.sessions import NotificationSettings
from core.protocol.renames import list_changes
from core.state.recap import describe_absence, describe_resume
from core.text.counting import count
from tui.background_commands import describe_job_end
from tui.block import TranscriptBlock
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.state import ViewState
from tui.terminal.capabilities import detect_capabilities
from tui.terminal.driver import TerminalDriver
from tui.terminal.sequences import MAX_BODY, MAX_TITLE, ProgressState, clean_line, format_notification
from tui.themes.appearance import is_read_out

PROGRAM: Final = "agent-tui"
MAX_ANNOUNCEMENTS: Final = 3
LONG_GAP: Final = 4 * 60 * 60_000  # ms after which a resumed session is told of
FRESH: Final = 60_000  # ms; an older resumption is one of another screen
COMMAND_TIMEOUT: Final = 10.0  # seconds that the user's command for a notification may take


def read_clock() -> int:
    """Return the time in ms."""
    return round(time.time() * 1000)


class Situation(NamedTuple):
    """The state for the title: whether something runs, the pending hunks and the verified ones among them, and open
    questions."""

    is_working: bool = False
    verified: int = 0
    pending: int = 0
    questions: int = 0

    @classmethod
    def read(cls, state: ViewState) -> Situation:
        changes = [
            change for change in list_changes(state.changes) if change.check is not None and change.check.is_verified
        ]
        return cls(
            is_working=state.is_running or state.is_running_command,
            verified=sum(max(len(change.hunks), 1) for change in changes),
            pending=state.pending_hunk_count,
            questions=len(state.approvals) + len(state.questions) + (state.trust_question is not None),
        )

    def describe(self) -> str:
        """Describe the situation in a few words; "" = idle."""
        hunks = f"{count('hunk', self.verified)} verified" if self.verified else ""
        hunks = f"{count('hunk', self.pending)} to review" if self.pending and not hunks else hunks
        questions = count("question", self.questions) if self.questions else ""
        return " · ".join(filter(None, ("working" if self.is_working else "", hunks, questions)))

    @property
    def progress(self) -> ProgressState:
        return "waiting" if self.questions else "busy" if self.is_working else "none"


class Announcements(Static):
    """The last announcements, one per line, for screen readers."""

    DEFAULT_CSS = "Announcements { height: auto; max-height: 3; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines: list[str] = []

    def add(self, text: str) -> None:
        self.lines = [*self.lines, clean_line(text, MAX_BODY)][-MAX_ANNOUNCEMENTS:]
        self.update(Content("\n".join(self.lines)))


class AttentionController(Controller):
    """Reports the session's state to terminal and desktop. `settings`: the user's configuration of that."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self.settings = NotificationSettings()
        self._capabilities = detect_capabilities()
        self._situation = Situation()
        self._known_questions: frozenset[str] | None = None
        self._known_job_ends: frozenset[str] = frozenset()
        self._left_at = 0  # ms; 0 = the user is here
        self._is_adopted = False
        self._resumed_at = 0  # the resumption that was told of last

    def adopt(self, settings: NotificationSettings) -> None:
        """Adopt the user's settings, and apply them."""
        self.settings = settings
        self._show()
        if not self._is_adopted:
            self._is_adopted = True
            app = self.context.screen.app
            self.context.screen.watch(app, "app_focus", self._note_focus, init=False)
        self.recap_resumption()

    def _note_focus(self, has_focus: bool) -> None:
        """Note when the user leaves; when they are back after long enough, tell them what happened."""
        now = read_clock()
        if not has_focus:
            self._left_at = now
            return
        since, self._left_at = self._left_at, 0
        if since and self.settings.recap and now - since >= self.settings.recap * 60_000:
            self._recap(describe_absence(self.context.state, since, now))

    @in_worker("recap")
    async def recap_resumption(self) -> None:
        """Tell a user who resumes a session hours later what it was about."""
        await self.context.bridge.wait_until_caught_up()
        state = self.context.state
        resumed = state.resumed
        if not self._is_adopted or not self.settings.recap or resumed is None or resumed.at == self._resumed_at:
            return
        self._resumed_at = resumed.at
        if resumed.gap >= LONG_GAP and read_clock() - resumed.at < FRESH:
            self._recap(describe_resume(state, resumed.gap))

    def _recap(self, text: str) -> None:
        if text:
            state = self.context.state
            block = TranscriptBlock(f"recap:{read_clock()}", "notice", text=text, level="info")
            state.transcript.add(block)
            self.context.transcript.show(state.blocks)

    def update(self) -> None:
        """Report the session's state, and notify the user of news that need their attention."""
        before, self._situation = self._situation, Situation.read(self.context.state)
        state = self.context.state
        question_keys = frozenset((*state.approvals, *state.questions))
        known_keys, self._known_questions = self._known_questions, question_keys
        known_job_ends, self._known_job_ends = self._known_job_ends, frozenset(state.job_ends)
        self._show()
        if before.is_working != self._situation.is_working and self._situation.is_working:
            self._announce("The agent is working.")
        if (
            known_keys is None or not self.context.bridge.caught_up.is_set()
        ):  # replayed events of an old session are no news
            return
        self._report_job_ends([event for name, event in state.job_ends.items() if name not in known_job_ends])
        if new := question_keys - known_keys:
            self._notify(self._describe_question(new))
        elif before.is_working and not self._situation.is_working and not self._situation.questions:
            self._notify(" · ".join(filter(None, ("Done", self._situation.describe()))))

    def _report_job_ends(self, ends: list[JobEnded]) -> None:
        """Notify the user of background commands that have ended by themselves; of failures on the screen, too, where a
        pane may cover the conversation."""
        for event in ends:
            if event.is_failure:
                self.context.notify_user(f"{describe_job_end(event)}.", "/jobs shows its output.", is_error=True)
            if event.ended != "stopped":
                self._notify(describe_job_end(event), is_shown=self._is_conversation_visible)

    @property
    def _is_conversation_visible(self) -> bool:
        screen = self.context.screen
        return screen.app.screen is screen and screen.query_one("#centre").display

    def _describe_question(self, new: frozenset[str]) -> str:
        state = self.context.state
        for key, approval in state.approvals.items():
            if key in new:
                return f"Asks for approval: {approval.subject}"
        question = next(state.questions[key] for key in state.questions if key in new)
        return f"Asks: {question.title or question.questions[0].text}"

    @property
    def _terminal(self) -> TerminalDriver | None:
        """The terminal that the screen is on; None where it is in a page, or nowhere."""
        driver = self.context.screen.app._driver
        return driver if isinstance(driver, TerminalDriver) else None

    def _format_title(self, detail: str = "") -> str:
        project = self.context.state.workspace.rstrip("/").rpartition("/")[2]
        return " · ".join(filter(None, (PROGRAM, project, detail)))

    def _show(self) -> None:
        if (terminal := self._terminal) is None:
            return
        if self.settings.title:
            terminal.show_title(self._format_title(self._situation.describe()))
        if self.settings.progress:
            terminal.show_progress(self._situation.progress)

    def _notify(self, body: str, *, is_shown: bool = True) -> None:
        """Notify the user. `is_shown`: someone who looks at the terminal sees it there."""
        self._announce(f"{body}.")
        settings, title = self.settings, self._format_title()
        is_seen = is_shown and self.context.screen.app.app_focus
        if settings.when == "never" or (settings.when == "unfocused" and is_seen):
            return
        if (terminal := self._terminal) is not None:
            terminal.write_sequence(format_notification(settings.terminal, title, body, self._capabilities))
        if settings.command:
            words = (*settings.command, clean_line(title, MAX_TITLE), clean_line(body, MAX_BODY))
            self.context.start(self._run_command, words, group="notifying", exclusive=True)

    def _announce(self, text: str) -> None:
        """Announce something as a line for a screen reader."""
        if is_read_out(self.context.screen.app):
            self.context.start(self._add_line, text, group="announcing")

    async def _add_line(self, text: str) -> None:
        (await self.context.ensure_bar(Announcements, "announcements")).add(text)

    async def _run_command(self, words: tuple[str, ...]) -> None:
        """Run the user's command with title and text as its last words; no shell reads them."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as fault:
            self.context.notify_user(f"notify.command: {words[0]} did not start: {fault.strerror}.", is_error=True)
            return
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                await process.wait()
        except TimeoutError:
            self.context.notify_user(f"notify.command: {words[0]} took longer than {COMMAND_TIMEOUT:.0f} s.")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
