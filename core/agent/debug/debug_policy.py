"""The rules of a Debug turn: no edit before a cause is confirmed, and no probe left at the end.

Probes are in no file, unless a command writes marks itself: those are removed from pending changes, exact to the byte.
Marks in the user's own files or in ignored paths are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Struct, field

from core.agent.base.permissions import CallPermissions
from core.agent.context.reminders import append_reminder
from core.agent.debug.fix_verdict import FixReview
from core.debug.probe_regions import has_regions, remove_probes
from core.edits.text_file import decode_text
from core.errors import AgentTuiError, PathRefused, ToolFailed
from core.modes import Access
from core.prompts import render
from core.protocol.events import AnyEvent, Notice, ProbeRemoved
from core.protocol.review import Change, Origin
from core.shadow.bulk.bulk_summary import list_retained_files
from core.shadow.shadow import Shadow
from core.shell.command_host import CommandHost
from core.state.debugging import DebugState
from core.state.session import SessionState

EDIT_BLOCKED = (
    "Not run: debug mode changes nothing before a cause is confirmed. Nothing was changed. Set "
    "hypotheses with hypotheses_set, gather evidence with probe_add and reproduce, and give a verdict "
    "with hypothesis_verdict. If this is not about finding a fault, propose agent mode with "
    "switch_mode."
)
MAX_FILE_SIZE = 8 << 20  # bytes of a file that is searched
MAX_IGNORED_FILES = 20_000  # files of ignored paths
REMOVAL_ORIGIN = Origin(tool="probe_check")


def explain_blocked_edit(state: SessionState, access: Access | None) -> str | None:
    """Explain why an edit has to wait; None: it may be made."""
    is_edit = access is Access.PROPOSE and state.mode == "debug"
    return EDIT_BLOCKED if is_edit and not state.debug.has_confirmed_cause else None


def check_no_marks(data: bytes) -> None:
    """Raise `ToolFailed` for content with the marks of a probe: probes are in no file."""
    if has_regions(data):
        raise ToolFailed(
            "This content has probe markers; probes are never stored in files. Nothing was changed.",
            hint="Leave the markers out. In debug mode, probe_add adds probes.",
        )


class DebugPolicy(Struct, eq=False):
    """The debugging policy of one turn."""

    _host: CommandHost
    _fix: FixReview
    _permissions: CallPermissions
    _turn_id: str
    _reminded_topics: set[str] = field(default_factory=set)

    async def should_continue(self) -> bool:
        """True if the turn continues, with a reminder: probes are left, or a fix was not run or did not help."""
        debug, emit = self._host.state.debug, self._host.emit
        if debug.probes and self._remind_once("probes_left", probes=", ".join(debug.probes)):
            return True
        if self._is_fix_unshown and self._remind_once("fix_unshown", files=", ".join(debug.fixes)):
            return True
        verdict = await self._fix.ask_for_verdict(Origin(turn=self._turn_id))
        if verdict is not None and verdict.outcome == "broken":
            append_reminder(emit, verdict.message)
            return True
        remove_all_probes(debug, emit, "the turn ended")
        return False

    @property
    def _is_fix_unshown(self) -> bool:
        """True if no run includes the fix. Without a box a run does not see pending changes."""
        state, debug = self._host.state, self._host.state.debug
        can_be = self._permissions.terminal.is_contained and state.mode == "debug" and bool(debug.runs)
        return can_be and bool(debug.fixes) and not debug.fix_run

    def _remind_once(self, topic: str, **variables: str) -> bool:
        if topic in self._reminded_topics:
            return False
        self._reminded_topics.add(topic)
        append_reminder(self._host.emit, render(f"reminders/{topic}", **variables))
        return True


def remove_all_probes(debug: DebugState, emit: Callable[[AnyEvent], None], reason: str) -> None:
    """Remove all probes and notify the user."""
    if debug.probes:
        count = "1 probe was" if len(debug.probes) == 1 else f"{len(debug.probes)} probes were"
        emit(ProbeRemoved(ids=tuple(debug.probes), by="program"))
        emit(Notice(level="info", message=f"{count} removed: {reason}."))


class LeftoverMarks(Struct, frozen=True, kw_only=True):
    """The number of searched files, and the paths of files with a mark."""

    file_count: int
    paths: tuple[str, ...] = ()


def remove_marks(shadow: Shadow, paths: Iterable[str] = (), *, includes_ignored: bool = False) -> LeftoverMarks:
    """Remove regions between marks from pending files; return the files with marks that are left.

    `paths`: further files to search. Raises `StateError`."""
    pending = {change.path: change for change in shadow.list_changes()}
    searched_paths = sorted({*pending, *paths})
    for path in searched_paths:
        if path in pending:
            _remove_pending_marks(shadow, pending[path])
    marked_paths = [path for path in searched_paths if _is_marked(shadow, path)]
    ignored_paths = (
        [path for path in islice(list_retained_files(shadow.merged_tree), MAX_IGNORED_FILES) if path not in pending]
        if includes_ignored
        else []
    )
    marked_paths += [path for path in ignored_paths if has_regions(_read_merged(shadow, path) or b"")]
    return LeftoverMarks(file_count=len({*searched_paths, *ignored_paths}), paths=tuple(dict.fromkeys(marked_paths)))


def _remove_pending_marks(shadow: Shadow, change: Change) -> None:
    state = change.pending
    if state.kind != "file" or state.size > MAX_FILE_SIZE:
        return
    data = shadow.blobs.get(state.blob)
    file = decode_text(data) if has_regions(data) else None
    if file is not None and (text := remove_probes(file.text)) != file.text:
        shadow.edit(change.path, file.encode(text), REMOVAL_ORIGIN)


def _is_marked(shadow: Shadow, path: str) -> bool:
    return any(has_regions(data) for data in (_read_merged(shadow, path), _read_disk(shadow, path)) if data)


def _read_merged(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.read(path, MAX_FILE_SIZE)
    except PathRefused:
        return None


def _read_disk(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.workspace.read_bytes(path, MAX_FILE_SIZE)
    except AgentTuiError:
        return None
