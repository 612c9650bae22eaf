"""The state of git that waits: how it is shown before it is accepted, and the layer that is taken over then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from core.errors import AgentTuiError, ReviewConflict
from core.git.room import GitFailed
from core.protocol.review import GitPreview
from core.shadow.contents import Contents
from core.shadow.gitstate.accepted import Accepted
from core.shadow.gitstate.laid import LaidRepository, laid_out
from core.shadow.gitstate.outcome import Outcome, judged
from core.shadow.gitstate.prepared import GitLayer
from core.shadow.overlay import make_whiteout
from core.shadow.review import ReviewState
from core.shadow.seen import Seen
from core.shadow.stack import Layered
from core.workspace import Workspace
from core.workspace.names import to_os

GIT_REFUSED = "git_refused"
SHOWN = 400_000  # characters of commits
HINT = (
    "Accept the hunks that belong to it, or have the agent commit again what you accepted; "
    "rejecting the state of git leaves your repository as it is."
)
_FORMAT = "commit %H%nAuthor: %an <%ae>%nDate:   %ad%n%n%w(0,4,4)%B"


class GitState:
    """For one session; the verdicts of its `state` are what was accepted."""

    def __init__(self, workspace: Workspace, contents: Contents, seen: Seen, state: ReviewState) -> None:
        self._workspace = workspace
        self._contents = contents
        self._seen = seen
        self._state = state

    def prepare(self, rel: str, place: Path) -> tuple[str, ...]:
        """Write the layer of what is taken over of the directory `rel` below `place`. Returns what is not as commands
        left it. `ReviewConflict`: it can't be taken over. Raises OSError."""
        if self._is_removal(rel):
            target = place / os.fsdecode(to_os(rel))
            target.parent.mkdir(parents=True, exist_ok=True)
            make_whiteout(target)
            return ()
        try:
            self._refuse_strange(rel)
            with laid_out(self._workspace, self._seen, rel) as laid:
                outcome = judged(laid, self._accepted(laid))
                if outcome.refused:
                    raise ReviewConflict(f"{rel} can't be accepted: {outcome.refused}", hint=HINT, code=GIT_REFUSED)
                prepared = GitLayer(self._workspace, self._seen, laid, outcome, place)
                prepared.write()
                return (*outcome.notes, *_left(prepared.left))
        except GitFailed as problem:
            raise ReviewConflict(
                f"{rel} can't be accepted: {problem.message}", hint=HINT, code=GIT_REFUSED
            ) from problem

    def preview(self, rel: str) -> GitPreview:
        """What accepting would do: references that move, commits with message and diff, and what stands against it."""
        if self._is_removal(rel):
            return GitPreview(root=rel, moves=("The whole repository is removed.",))
        try:
            self._refuse_strange(rel)
            with laid_out(self._workspace, self._seen, rel) as laid:
                return _preview(laid, judged(laid, self._accepted(laid)))
        except (AgentTuiError, OSError) as problem:
            return GitPreview(root=rel, refused=str(problem))

    def _accepted(self, laid: LaidRepository) -> Accepted:
        return Accepted(self._workspace, self._contents, self._seen, self._state, laid)

    def _is_removal(self, rel: str) -> bool:
        return self._seen.stack.find(rel) == "hidden"

    def _refuse_strange(self, rel: str) -> None:
        found = self._seen.stack.find(rel)
        if rel.rpartition("/")[2] != ".git" or not isinstance(found, Layered) or not found.is_directory:
            raise GitFailed(f"{rel} is no directory that git here takes for a repository.")


def _preview(laid: LaidRepository, outcome: Outcome) -> GitPreview:
    moves = []
    for name in sorted({*outcome.before, *outcome.after}):
        old, new = outcome.before.get(name, ""), outcome.after.get(name, "")
        if old != new:
            moves.append(f"{name}: {old[:10] or 'new'} → {new[:10] or 'removed'}")
    become = outcome.become()
    text = _shown(laid, become) if become else ""
    return GitPreview(
        root=laid.rel,
        moves=tuple(moves),
        commits=len(outcome.fresh),
        text=text[:SHOWN],
        clipped=len(text) > SHOWN,
        refused=outcome.refused,
        notes=outcome.notes,
    )


def _shown(laid: LaidRepository, oids: list[str]) -> str:
    asked = "".join(f"{each}\n" for each in oids).encode()
    show = ("log", "--no-walk=unsorted", "--stdin", "--no-color", "--no-show-signature", f"--format={_FORMAT}")
    safe = ("--no-ext-diff", "--no-textconv", "--no-renames", "-m", "--first-parent")
    try:
        found = laid.now.run(*show, "--patch", *safe, stdin=asked, seconds=20.0)
    except GitFailed:  # too much to show
        found = laid.now.run(*show, "--stat=120", *safe, stdin=asked, seconds=20.0)
    return found.decode("utf-8", "replace")


def _left(paths: list[str]) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        yield f"not taken over, since it is no state that is known: {', '.join(sorted(paths)[:3])}{more}"
