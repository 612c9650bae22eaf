"""Make commits of accepted hunks: hooks in the box first, then the user's own git, then the user's index follows.

Git commits an index of its own that holds the last commit and the accepted hunks; the user's index is touched only
where the commit changed a path, and keeps what was staged there.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.engine.commits.basis import NOT_COMMITTABLE, CommitBasis, open_basis
from core.engine.commits.hook_trial import TIME_LIMIT, HookTrial, try_commit
from core.engine.session.session import Session
from core.errors import AgentTuiError, CommandRejected
from core.git.history import MISSING_MODE, GitEntry, diff_trees, update_index
from core.git.repository import GitFailed, find_git
from core.git.temporary_directories import make_temporary_directory
from core.git.tree_entries import list_index_entries, write_index
from core.git.work_state import read_head
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import Origin
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_users
from core.shadow.commits.commit_content import CommitContent, plan_index, store_entry
from core.shadow.commits.path_version import AcceptedEdit
from core.shell.outside.machine_run import build_machine_environment

_ON_MACHINE: Final = "If they need what the box does not have (the network, a cache), run them on this machine."
_HOOK_TOOL: Final = "git_hook"
_LOCKED: Final = "another git is at work here: there is {}."
_NO_GIT_RUNS: Final = "Commit again when it is done; if none runs, delete that file."
_LEFT_BEHIND: Final = "Your index did not follow ({}). This brings it up: git reset -q -- {}"


class CommitProblem(AgentTuiError, code="commit_failed"):
    """A commit was not made."""

    def __init__(self, failed: ev.CommitFailed) -> None:
        super().__init__(failed.message, hint=failed.hint)
        self.failed = failed


class _Prepared(Struct, frozen=True):
    """A commit whose objects are stored. `index`: entries by which the user's index follows."""

    contents: list[CommitContent]
    entries: dict[bytes, GitEntry]
    index: dict[bytes, GitEntry]


async def make_commits(session: Session, command: cmd.CommitMake) -> None:
    """Make the commits of a command, one after the other; each is told by an event, and a failure ends it."""
    head = command.head
    for planned in command.commits:
        try:
            made = await _make_commit(session, planned, command.hooks, head)
        except CommitProblem as problem:
            session.emit_outside_turn(problem.failed)
            return
        except AgentTuiError as problem:
            session.emit_outside_turn(ev.CommitFailed(stage="check", message=problem.message, hint=problem.hint))
            return
        head = made.id
        session.emit_outside_turn(made)


async def _make_commit(session: Session, planned: cmd.PlannedCommit, hooks: cmd.HookPlace, head: str) -> ev.CommitMade:
    with ExitStack() as stack:
        place = stack.enter_context(make_temporary_directory())
        basis = await asyncio.to_thread(stack.enter_context, open_basis(session))
        if basis.head.commit != head:
            raise CommandRejected("there is a new commit since this one was planned.", hint="Look again: /commit")
        edits = basis.select(planned.edits)
        prepared = await asyncio.to_thread(_prepare, basis, edits, place)
        (place / "message").write_text(planned.message.strip() + "\n", encoding="utf-8", errors="surrogateescape")
        if hooks == "box" and basis.hooks:
            await _try_hooks(session, basis, prepared, place)
        output = await _run_git(session, basis, place, skips_hooks=hooks == "none")
        return await asyncio.to_thread(_finish, basis, prepared, edits, planned, output)


def _prepare(basis: CommitBasis, edits: Sequence[AcceptedEdit], place: Path) -> _Prepared:
    lock = basis.places.own / "index.lock"
    if lock.exists():  # the user's index could not follow
        raise CommandRejected(_LOCKED.format(lock), hint=_NO_GIT_RUNS, code=NOT_COMMITTABLE)
    contents = basis.compute(edits)
    if refused := [each for each in contents if each.problem]:
        first = refused[0]
        raise CommandRejected(f"{first.path} can't be committed: {first.problem}.", code=NOT_COMMITTABLE)
    if not contents:
        raise CommandRejected("the last commit has all of it already.", code=NOT_COMMITTABLE)
    entries = {each.name: store_entry(basis.repository, each) for each in contents}
    followed = plan_index(basis.repository, contents, entries)
    with suppress(FileNotFoundError):
        (place / "index").write_bytes((basis.places.own / "index").read_bytes())
    write_index(basis.repository, place / "index", basis.head.commit, entries.values())
    return _Prepared(contents, entries, {each.path: each for each in followed})


async def _try_hooks(session: Session, basis: CommitBasis, prepared: _Prepared, place: Path) -> None:
    """Run the hooks in the box. Raises `CommitProblem` if they refuse, or want the commit otherwise."""
    paths = [each.path for each in prepared.contents if each.after.kind == "file"]
    expected = await asyncio.to_thread(
        basis.repository.run, "write-tree", more={"GIT_INDEX_FILE": str(place / "index")}, seconds=60.0
    )
    trial_place = place / "trial"
    trial_place.mkdir()
    for name in ("index", "message"):
        (trial_place / name).write_bytes((place / name).read_bytes())
    own = basis.places.common / "hooks"
    folder = next((each.parent for each in basis.hooks.values() if each.parent != own), None)
    trial = await try_commit(session.terminal.host, trial_place, paths, folder, _tell(session))
    is_other = trial.has_passed and trial.tree != expected.decode().strip()
    if trial.has_passed and not is_other and not trial.changed:
        return
    changed = _propose(session, trial.changed, basis)
    raise CommitProblem(_describe_trial(trial, changed, is_other=is_other))


def _tell(session: Session) -> Callable[[str], None]:
    def tell(text: str) -> None:
        session.emit_outside_turn(ev.CommitProgressed(text=text))

    return tell


def _describe_trial(trial: HookTrial, changed: tuple[str, ...], *, is_other: bool) -> ev.CommitFailed:
    if trial.problem:
        message = f"the repository's hooks did not come to an end in the box ({trial.problem})."
    elif trial.changed or is_other:
        message = "the repository's hooks changed files of the commit."
    else:
        message = "the repository's hooks refused the commit."
    hint = "What they changed waits for your review: accept it, and commit again." if changed else _ON_MACHINE
    return ev.CommitFailed(stage="box", message=message, hint=hint, output=trial.output, changed=changed)


def _propose(session: Session, changed: dict[str, bytes], basis: CommitBasis) -> tuple[str, ...]:
    """Propose what hooks made of files, where nothing else is pending; return their paths."""
    proposed = []
    origin = Origin(tool=_HOOK_TOOL, command=", ".join(basis.hooks))
    for path, data in changed.items():
        if path not in session.state.changes:
            with suppress(AgentTuiError):
                session.shadow.write(path, data, origin)
                proposed.append(path)
    return tuple(proposed)


async def _run_git(session: Session, basis: CommitBasis, place: Path, *, skips_hooks: bool) -> str:
    """Commit by the user's git in their environment: their identity, signature and hooks. Return what was printed."""
    git = await asyncio.to_thread(find_git, basis.places.root)
    skipped = ("--no-verify",) if skips_hooks else ()
    words = (git, "commit", "--quiet", "--cleanup=whitespace", f"--file={place / 'message'}", *skipped)
    environment = build_machine_environment(restore_users(os.environ)) | {"GIT_INDEX_FILE": str(place / "index")}
    heard: list[str] = []

    def take(text: str) -> None:
        heard.append(text)
        session.emit_outside_turn(ev.CommitProgressed(text=text))

    ended = await run_unboxed(
        shlex.join(words), cwd=basis.places.root, env=environment, time_limit=TIME_LIMIT, on_output=take
    )
    output = "".join(heard).strip()
    if ended.exit_code != 0:
        how = "took too long" if ended.timed_out else f"ended with {ended.exit_code}"
        raise CommitProblem(ev.CommitFailed(stage="git", message=f"git commit {how}.", output=output))
    return output


def _finish(
    basis: CommitBasis,
    prepared: _Prepared,
    edits: Sequence[AcceptedEdit],
    planned: cmd.PlannedCommit,
    output: str,
) -> ev.CommitMade:
    """Let the user's index follow the new commit; return what it is."""
    repository, old = basis.repository, basis.head.commit
    head = (basis.places.own / "HEAD").read_bytes()
    (repository.directory / "HEAD").write_bytes(head)
    now = read_head(repository)
    if not now.commit or now.commit == old:
        raise GitFailed("git commit ended well, and there is no new commit.")
    problem, files = "", tuple(each.path for each in prepared.contents)
    try:
        _follow_commit(basis, prepared, diff_trees(repository, old, now.commit))
    except GitFailed as failed:
        problem = _LEFT_BEHIND.format(failed.message, shlex.join(files))
    subject = planned.message.strip().partition("\n")[0]
    return ev.CommitMade(
        id=now.commit,
        branch=now.branch,
        subject=subject,
        edits=tuple(each.id for each in edits),
        files=files,
        output=output,
        problem=problem,
    )


def _follow_commit(basis: CommitBasis, prepared: _Prepared, changed: Sequence[GitEntry]) -> None:
    """Set the user's index where the commit (and its hooks) changed something and nothing else is staged."""
    known = list_index_entries(basis.repository, [each.path for each in changed])
    found = []
    for entry in changed:
        planned, staged = prepared.index.get(entry.path), known[entry.path]
        now = (staged[0].mode, staged[0].oid) if staged else (MISSING_MODE, "")
        was = (entry.old_mode, entry.old if entry.old_mode != MISSING_MODE else "")
        if planned is not None and (entry.mode, entry.oid) == _key(prepared.entries[entry.path]):
            found.append(planned)
        elif now == was:
            found.append(entry)
    update_index(basis.repository, found, str(basis.places.own / "index"))


def _key(entry: GitEntry) -> tuple[str, str]:
    return entry.mode, entry.oid
