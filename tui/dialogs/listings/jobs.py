"""The dialog of background commands: their current output, and their changes so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.queries import JobInfo
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.quantities import format_elapsed
from tui.text import fit_line, format_path, to_content
from tui.widgets.key_hints import KeyHints
from tui.workers import start_worker

REFRESH_SECONDS: Final = 1.0
SHOWN_PATHS: Final = 6
_KEYS: Final = (
    ("jobs.stop", "stop"),
    ("jobs.take", "take in"),
    ("jobs.restart", "restart"),
    ("jobs.follow", "after edits"),
    ("jobs.page_up", "earlier output"),
    ("jobs.leave", "back"),
)
Load = Callable[[], Awaitable[tuple[JobInfo, ...]]]
JobAct = Callable[[JobInfo], None]


class JobActions(NamedTuple):
    """The actions on a running job. `follow`: it is restarted after edits from now on, or no longer."""

    stop: JobAct
    take: JobAct
    restart: JobAct
    follow: JobAct


class JobsDialog(Dialog[None]):
    """Shows jobs; `load` asks for them again, once a second while one runs."""

    DEFAULT_CSS = """
    JobsDialog OptionList { height: auto; max-height: 30%; margin: 0 0 1 0; border: none; text-wrap: nowrap; }
    JobsDialog OptionList { text-overflow: ellipsis; }
    JobsDialog > .dialog { height: 90%; }
    JobsDialog #jobs-changed { height: auto; max-height: 4; }
    """

    BINDINGS = get_bindings("jobs")
    shape = "page"

    def __init__(self, jobs: tuple[JobInfo, ...], load: Load, actions: JobActions) -> None:
        super().__init__("Background commands")
        self._jobs, self._load, self._actions = jobs, load, actions

    def compose_body(self) -> ComposeResult:
        rows = OptionList(compact=True, markup=False)
        rows.can_focus = False
        yield rows
        yield Static(id="jobs-changed")
        with VerticalScroll(id="jobs-view", can_focus=False):
            yield Static(id="jobs-output")
        yield KeyHints(_KEYS, id="listing-keys")

    def set_up(self) -> None:
        self._show()
        self.query_one(OptionList).highlighted = 0
        self.set_interval(REFRESH_SECONDS, self._refresh_soon)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_marked, from_end=True)

    def _refresh_soon(self) -> None:
        if any(not job.ended for job in self._jobs):
            start_worker(self, self._reload, group="jobs", exclusive=True)

    async def _reload(self) -> None:
        jobs = await self._load()
        if jobs and jobs != self._jobs and self.is_attached and self.query(OptionList):
            self._jobs = jobs
            self._show()

    def _show(self) -> None:
        rows = self.query_one(OptionList)
        index = rows.highlighted
        rows.set_options(Option(_format_job(job)) for job in self._jobs)
        rows.highlighted = min(index or 0, len(self._jobs) - 1)
        self._show_marked()

    @property
    def _marked(self) -> JobInfo | None:
        index = self.query_one(OptionList).highlighted
        return self._jobs[index] if index is not None and index < len(self._jobs) else None

    def on_option_list_option_highlighted(self) -> None:
        self._show_marked(from_end=True)

    def _show_marked(self, *, from_end: bool = False) -> None:
        """Show the output of the marked job; its end is followed unless the user has scrolled up."""
        if not self.query(OptionList) or (job := self._marked) is None:
            return
        view = self.query_one(VerticalScroll)
        follows = from_end or view.scroll_offset.y >= view.max_scroll_y
        self.query_one("#jobs-changed", Static).update(_format_changed(job))
        text = to_content(job.output) if job.output.strip() else Content.styled("no output yet", "$foreground 60%")
        self.query_one("#jobs-output", Static).update(text)
        if follows:
            view.scroll_end(animate=False)

    def action_move(self, step: int) -> None:
        rows = self.query_one(OptionList)
        rows.highlighted = ((rows.highlighted or 0) + step) % max(rows.option_count, 1)

    def action_page(self, step: int) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=step * max(view.size.height - 1, 1), animate=False)

    def action_stop(self) -> None:
        self._act(self._actions.stop)

    def action_take(self) -> None:
        self._act(self._actions.take)

    def action_restart(self) -> None:
        self._act(self._actions.restart)

    def action_follow(self) -> None:
        self._act(self._actions.follow)

    def _act(self, action: JobAct) -> None:
        if (job := self._marked) is not None and not job.ended:
            action(job)
            start_worker(self, self._reload, group="jobs", exclusive=True)


def _format_job(job: JobInfo) -> Content:
    state = "ended" if job.ended else f"running for {format_elapsed(job.duration_ms)}"
    style = "$foreground 60%" if job.ended else "$text-success"
    return Content.assemble((f"{job.id}  ", "bold"), (f"{state}  ", style), fit_line(job.command, 200))


def _format_changed(job: JobInfo) -> Content:
    if job.ended:
        return Content.styled(fit_line(f"Ended: {job.ended}", 400), "$foreground 60%")
    restarts = [part for part in _describe_restarts(job) if part[0]]
    if not job.changed_count:
        return Content.assemble(*restarts, ("No changes so far.", "$foreground 60%"))
    names = [format_path(path, 60) for path in job.changed[:SHOWN_PATHS]]
    hidden_count = job.changed_count - len(names)
    summary = ", ".join([*names, *([f"{hidden_count:,} more"] if hidden_count else [])])
    return Content.assemble(
        *restarts, (f"{count('path', job.changed_count)} changed so far: ", "$text-warning"), summary
    )


def _describe_restarts(job: JobInfo) -> Iterator[tuple[str, str]]:
    """Yield what a job sees of later changes of the project, with the styles."""
    if job.missed_count:
        way = "it restarts when all is quiet" if job.restarts_on_edit else "r restarts it, e after every edit"
        yield f"{count('later change', job.missed_count)} not seen: {way}. ", "$text-warning"
    elif not job.sees_edits and job.restarts_on_edit:
        yield "Restarts after edits, which it can't see while it runs (e: only on r). ", "$foreground 60%"
    elif not job.sees_edits:
        yield "Can't see edits while it runs: r restarts it, e after every edit. ", "$foreground 60%"
    if job.restart_count:
        times = "once" if job.restart_count == 1 else f"{job.restart_count:,} times"
        yield f"Restarted {times}. ", "$foreground 60%"
