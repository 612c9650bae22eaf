"""Messages of the review to the main screen, whose handlers are typed without a widget being imported."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from core.protocol.commands import AnyCommand, HunkResolve
from core.protocol.review import Change, Verdict


@dataclass
class VerdictRequested(Message, namespace="review_pane"):
    """Requests a verdict on hunks or files, which the user may have to confirm."""

    command: HunkResolve


@dataclass
class BulkResolved(Message, namespace="review_pane"):
    """A verdict on a bulk."""

    root: str
    verdict: Verdict


@dataclass
class WidthRequested(Message, namespace="review_pane"):
    """The diff needs so many columns; 0 = no more than the pane has."""

    width: int


@dataclass
class CommandRequested(Message, namespace="review_pane"):
    """Requests that the engine runs `command`."""

    command: AnyCommand


@dataclass
class HunkTextRequested(Message, namespace="review_pane"):
    """Requests an editor for the new side of a hunk; the answer is a call of `edit_hunk`."""

    path: str
    hunk: str


class CommentsRequested(Message, namespace="review_pane"):
    """Requests the dialog that reviews and sends the comments."""


@dataclass
class OriginVerdictRequested(Message, namespace="review_pane"):
    """Requests one verdict on all changes of an origin; `change` is the current one."""

    change: Change


@dataclass
class ProvenVerdictRequested(Message, namespace="review_pane"):
    """The changes that passing tests prove when they are run again are to be accepted. `changes`: those over which they
    have passed already."""

    changes: tuple[Change, ...]


@dataclass
class ShownVerdictRequested(Message, namespace="review_pane"):
    """The hunks that a filtered list shows are to have a verdict: changes, each with the ids of its hunks. `by_hunk`:
    the list has a row for each hunk."""

    verdict: Verdict
    hunks: tuple[tuple[Change, tuple[str, ...]], ...]
    pattern: str
    by_hunk: bool


@dataclass
class SeenVerdictRequested(Message, namespace="review_pane"):
    """The hunks that the user has seen are to be accepted, after a question: the verdicts by file."""

    verdicts: tuple[HunkResolve, ...]


class CommitRequested(Message, namespace="review_pane"):
    """Requests a commit of the accepted hunks."""


@dataclass
class ProofRequested(Message, namespace="review_pane"):
    """Requests what the check says about a hunk of a change ("" = of none), and the output of the check that ran over
    the change."""

    change: Change
    hunk: str = ""


class ProveRequested(Message, namespace="review_pane"):
    """Requests that the check is run over each hunk, or that this is stopped while it is being done."""


@dataclass
class TodoRequested(Message, namespace="review_pane"):
    """Requests the todo of the current hunk, "" = that of its change."""

    change: Change
    todo: str = ""


@dataclass
class ConflictRequested(Message, namespace="review_pane"):
    """Requests the resolution of a file's conflict."""

    path: str


@dataclass
class ChangeOpened(Message, namespace="review_pane"):
    """The change at `index` was opened in the list, or clicked in the header; the browser moves to it, and to its
    `hunk`, "" = the first."""

    index: int
    hunk: str = ""


class RowSelected(Message, namespace="review_pane"):
    """Another row of the list has the cursor."""


@dataclass
class FileRequested(Message, namespace="review_pane"):
    """Requests a file at `line`, from 1."""

    path: str
    line: int
