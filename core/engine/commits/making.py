"""Make commits of accepted hunks: hooks in the box first, then the user's own git, then the user's index follows.

The trial in the box runs the hooks over the project as it is on the disk, without pending changes, and is then
dropped. Files of the commit that the hooks change are brought back as text, for the review.

Git commits a separate index that holds the last commit and the accepted hunks; the user's index is changed only where
the commit changed a path, and keeps what was staged there. A kill between two steps must not leave them half done: the
commit is noted, and the next index is written as the lock of the index, before git runs (`pending_commit`). The shell
that runs git then renames it to the index, even if this process is gone by then.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.engine.commits.basis import NOT_COMMITTABLE, CommitBasis, open_basis
from core.engine.session.commit_recovery import INDEX_VARIABLE, forget_commit
from core.engine.session.session import Session
from core.errors import AgentTuiError, CommandRejected, StateError
from core.git.history import GitEntry, update_index
from core.git.index_lock import LOCK, build_draft, take_lock
from core.git.layout import read_small_file
from core.git.repository import find_git
from core.git.temporary_directories import hold_temporary_directory
from core.git.tree_entries import list_index_entries, write_index
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import FileState, Origin
from core.sandbox.box import Box, BoxLimits, BoxResult
from core.sandbox.output import OUTPUT_LIMIT
from core.sandbox.plain_text import strip_escapes
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_user_paths
from core.shadow.commits.commit_content import CommitContent, plan_index, store_entry
from core.shadow.commits.path_version import AcceptedEdit
from core.shadow.commits.pending_commit import PendingCommit, save_pending_commit, settle_commit
from core.shell.command_host import CommandHost, build_unsandboxed_environment
from core.workspace.file_names import to_os_name

TIME_LIMIT: Final = 900.0  # seconds
_IDENTITY: Final = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_MAX_FILE: Final = 16 << 20  # bytes of a file; larger ones are not compared
# The files of the commit are copied out even if the hooks failed: formatters change files and then fail.
_TRIAL_SCRIPT: Final = """\
place={place}
GIT_INDEX_FILE="$place/index" git {settings} commit --quiet --file="$place/message"
code=$?
if [ "$code" = 0 ]; then git rev-parse 'HEAD^{{tree}}' > "$place/tree"; fi
while IFS= read -r -d '' path; do
  if [ -f "$path" ] && [ ! -L "$path" ]; then
    mkdir -p "$place/after/$(dirname "$path")" && cp -- "$path" "$place/after/$path"
  fi
done < "$place/paths"
exit "$code"
"""
_UNSANDBOXED_HINT: Final = "If they need what the sandbox lacks (the network, a cache), run them unsandboxed."
_CHANGED_HINT: Final = "Their changes are pending review: accept them, and commit again."
_HOOK_TOOL: Final = "git_hook"
_COMMIT_SCRIPT: Final = """\
{commit}
code=$?
if [ {lock} -ef {draft} ] && [ "$({git} rev-parse --verify --quiet 'HEAD^{{tree}}')" = {tree} ]; then
  mv -f -- {lock} {index} && rm -f -- {draft}
fi
exit "$code"
"""
_LOCKED: Final = "another git is running here: {} exists."
_NO_GIT_RUNS: Final = "Commit again when it is done; if none is running, delete that file."


class CommitProblem(AgentTuiError, code="commit_failed"):
    """A commit was not made."""

    def __init__(self, failure: ev.CommitFailed) -> None:
        super().__init__(failure.message, hint=failure.hint)
        self.failed = failure


class _Prepared(Struct, frozen=True):
    """A commit whose objects are stored, and the name of its tree."""

    contents: list[CommitContent]
    entries: dict[bytes, GitEntry]
    tree: str


class _GitRun(Struct, frozen=True, kw_only=True):
    """A run of the user's git. `directory`: temporary, with index and message; `lock`: its descriptor."""

    directory: Path
    lock: int
    pending: PendingCommit
    skips_hooks: bool

    def render_script(self, git: str, git_directory: Path) -> str:
        """Render the shell script: the commit, and then the rename to the next index, unless a hook changed the commit.
        The outcome is read from the repository, not from the exit code."""
        skip_options = ("--no-verify",) if self.skips_hooks else ()
        words = (
            git,
            "commit",
            "--quiet",
            "--cleanup=whitespace",
            f"--file={self.directory / 'message'}",
            *skip_options,
        )
        draft = self.pending.draft.name
        return _COMMIT_SCRIPT.format(
            commit=shlex.join(words),
            git=shlex.quote(git),
            lock=shlex.quote(str(git_directory / LOCK)),
            draft=shlex.quote(str(git_directory / draft)),
            index=shlex.quote(str(git_directory / "index")),
            tree=self.pending.tree,
        )


async def make_commits(session: Session, command: cmd.CommitMake) -> None:
    """Make the commits of a command, one after the other, with an event for each; a failure ends the sequence."""
    head = command.head
    for planned_commit in command.commits:
        try:
            head = (await _make_commit(session, planned_commit, command.hooks, head)).id
        except CommitProblem as problem:
            session.emit_outside_turn(problem.failed)
            return
        except AgentTuiError as problem:
            session.emit_outside_turn(ev.CommitFailed(stage="check", message=problem.message, hint=problem.hint))
            return


async def _make_commit(
    session: Session, planned_commit: cmd.PlannedCommit, hooks: cmd.HookPlace, head: str
) -> ev.CommitMade:
    with ExitStack() as stack:
        directory, lock = stack.enter_context(hold_temporary_directory())
        basis = await asyncio.to_thread(stack.enter_context, open_basis(session))
        if basis.head.commit != head:
            raise CommandRejected(
                "there is a new commit since you opened this preview.", hint="See them again: /commit"
            )
        edits = basis.select(planned_commit.edits)
        preparation = await asyncio.to_thread(_prepare, basis, edits, directory)
        (directory / "message").write_text(
            planned_commit.message.strip() + "\n", encoding="utf-8", errors="surrogateescape"
        )
        if hooks == "box" and basis.hooks:
            await _try_hooks(session, basis, preparation, directory)
        pending, next_index = await asyncio.to_thread(
            _plan_commit, basis, preparation, edits, planned_commit, directory
        )
        await asyncio.to_thread(_lock_index, session, basis, pending, next_index)
        run = _GitRun(directory=directory, lock=lock, pending=pending, skips_hooks=hooks == "none")
        files = [content.path for content in preparation.contents if content.after.kind == "file"]
        earlier = session.shadow.read_disk_states(files if basis.hooks and hooks == "machine" else ())
        command_result, output = None, ""
        try:
            command_result, output = await _run_git(session, basis, run)
        finally:  # also if the session is closed meanwhile, since git may have moved the branch already
            commit = settle_commit(session.workspace.root, pending)
            if commit is not None:
                commit = replace(commit, output=output)
                session.recorder.emit(commit, in_turn=False, may_defer=True)
            forget_commit(session)
        if commit is None:
            changed_paths = _propose_disk_changes(session, basis, earlier)
            raise CommitProblem(_describe_end(command_result, output, changed_paths))
        return commit


def _prepare(basis: CommitBasis, edits: Sequence[AcceptedEdit], directory: Path) -> _Prepared:
    lock = basis.layout.own / LOCK
    if lock.exists():  # the user's index could not be updated
        raise CommandRejected(_LOCKED.format(lock), hint=_NO_GIT_RUNS, code=NOT_COMMITTABLE)
    contents = basis.compute(edits)
    if faulty_contents := [content for content in contents if content.problem]:
        first = faulty_contents[0]
        raise CommandRejected(f"{first.path} can't be committed: {first.problem}.", code=NOT_COMMITTABLE)
    if not contents:
        raise CommandRejected("the last commit already has all of it.", code=NOT_COMMITTABLE)
    entries = {
        content.name: store_entry(basis.repository, content, basis.heads.rules[content.name]) for content in contents
    }
    plan_index(basis.repository, contents, entries)  # raises before hooks run if the index can't be updated
    _copy_index(basis, directory / "index")
    write_index(basis.repository, directory / "index", basis.head.commit, entries.values())
    tree = basis.repository.run("write-tree", variables={"GIT_INDEX_FILE": str(directory / "index")}, seconds=60.0)
    return _Prepared(contents, entries, tree.decode().strip())


def _copy_index(basis: CommitBasis, target: Path) -> None:
    """Copy the user's index with its modification time, which git compares with that of files."""
    with suppress(FileNotFoundError):
        shutil.copy2(basis.layout.own / "index", target)


def _plan_commit(
    basis: CommitBasis,
    preparation: _Prepared,
    edits: Sequence[AcceptedEdit],
    planned_commit: cmd.PlannedCommit,
    directory: Path,
) -> tuple[PendingCommit, bytes]:
    """Return the note of the commit, and the user's next index."""
    names = [content.name for content in preparation.contents]
    before = list_index_entries(basis.repository, names)
    git_entries = plan_index(basis.repository, preparation.contents, preparation.entries)
    _copy_index(basis, directory / "next")
    if not (directory / "next").exists():
        basis.repository.run("read-tree", "--empty", variables={"GIT_INDEX_FILE": str(directory / "next")})
    update_index(basis.repository, git_entries, str(directory / "next"))
    next_index = (directory / "next").read_bytes()
    pending = PendingCommit(
        head=basis.head.commit,
        branch=basis.head.branch,
        tree=preparation.tree,
        subject=planned_commit.message.strip().partition("\n")[0],
        edits=tuple(edit.id for edit in edits),
        files=tuple(content.path for content in preparation.contents),
        entries=tuple(preparation.entries.values()),
        before=tuple(entry for name in names for entry in before[name]),
        after=tuple(git_entries),
        draft=build_draft(basis.layout.own, next_index),
        place=str(directory),
    )
    return pending, next_index


def _lock_index(session: Session, basis: CommitBasis, pending: PendingCommit, next_index: bytes) -> None:
    """Write the note of the commit, and take the lock of the index. Raises `CommandRejected`, with no effect."""
    try:
        session.log.flush()
        session.log.sync()
        save_pending_commit(session.directory.path, pending)
    except (OSError, StateError) as error:
        message = error.message if isinstance(error, StateError) else f"{session.directory.path}: {error.strerror}."
        raise CommandRejected(
            f"nothing was committed, because it can't be recorded: {message}",
            hint="Fix that, then commit again: without the record, a crash could leave half a commit.",
            code=NOT_COMMITTABLE,
        ) from error
    try:
        take_lock(basis.layout.own, pending.draft, next_index)
    except OSError as error:
        forget_commit(session)
        raise CommandRejected(
            f"nothing was committed: {basis.layout.own} is not writable: {error.strerror}.", code=NOT_COMMITTABLE
        ) from error
    except BaseException:
        forget_commit(session)
        raise


async def _try_hooks(session: Session, basis: CommitBasis, preparation: _Prepared, directory: Path) -> None:
    """Run the hooks in the box. Raises `CommitProblem` if they refuse or change the commit."""
    paths = [content.path for content in preparation.contents if content.after.kind == "file"]
    trial_directory = directory / "trial"
    trial_directory.mkdir()
    for name in ("index", "message"):
        (trial_directory / name).write_bytes((directory / name).read_bytes())
    hooks_directory = basis.layout.common / "hooks"
    folder = next((hook.parent for hook in basis.hooks.values() if hook.parent != hooks_directory), None)
    trial = await try_commit(session.terminal.host, trial_directory, paths, folder, _build_progress_callback(session))
    is_other = trial.has_passed and trial.tree != preparation.tree
    if trial.has_passed and not is_other and not trial.changed:
        return
    changed_paths = _propose(session, trial.changed, basis)
    raise CommitProblem(_describe_trial(trial, changed_paths, is_other=is_other))


def _build_progress_callback(session: Session) -> Callable[[str], None]:
    def report_progress(text: str) -> None:
        session.emit_outside_turn(ev.CommitProgressed(text=text))

    return report_progress


def _describe_trial(trial: HookTrial, changed_paths: tuple[str, ...], *, is_other: bool) -> ev.CommitFailed:
    if trial.problem:
        message = f"the repository's hooks did not finish in the sandbox ({trial.problem})."
    elif trial.changed or is_other:
        message = "the repository's hooks changed files of the commit."
    else:
        message = "the repository's hooks refused the commit."
    hint = _CHANGED_HINT if changed_paths else _UNSANDBOXED_HINT
    return ev.CommitFailed(stage="box", message=message, hint=hint, output=trial.output, changed=changed_paths)


def _propose(session: Session, changed_files: dict[str, bytes], basis: CommitBasis) -> tuple[str, ...]:
    """Propose the files that hooks changed, unless another change of them is pending; return their paths."""
    proposed_paths = []
    origin = Origin(tool=_HOOK_TOOL, command=", ".join(basis.hooks))
    for path, data in changed_files.items():
        if path not in session.state.changes:
            with suppress(AgentTuiError):
                session.shadow.write(path, data, origin)
                proposed_paths.append(path)
    return tuple(proposed_paths)


async def _run_git(session: Session, basis: CommitBasis, run: _GitRun) -> tuple[CommandResult, str]:
    """Commit by the user's git in their environment, with their identity, signature and hooks. Return the result and
    the output."""
    git = await asyncio.to_thread(find_git, basis.layout.root)
    environment = build_unsandboxed_environment(restore_user_paths(os.environ)) | {
        INDEX_VARIABLE: str(run.directory / "index")
    }
    chunks: list[str] = []

    def record_output(text: str) -> None:
        chunks.append(text)
        session.emit_outside_turn(ev.CommitProgressed(text=text))

    command_result = await run_unboxed(
        run.render_script(git, basis.layout.own),
        cwd=basis.layout.root,
        env=environment,
        time_limit=TIME_LIMIT,
        on_output=record_output,
        descriptors=(run.lock,),
    )
    return command_result, "".join(chunks).strip()


def _propose_disk_changes(session: Session, basis: CommitBasis, earlier: dict[str, FileState]) -> tuple[str, ...]:
    """Propose the files that hooks changed outside of the box, as for hooks in the box; return their paths."""
    with suppress(AgentTuiError):
        return session.shadow.capture_disk_edits(earlier, Origin(tool=_HOOK_TOOL, command=", ".join(basis.hooks)))
    return ()


def _describe_end(command_result: CommandResult | None, output: str, changed_paths: tuple[str, ...]) -> ev.CommitFailed:
    if changed_paths:
        message = "the repository's hooks changed files of the commit."
        return ev.CommitFailed(stage="git", message=message, hint=_CHANGED_HINT, output=output, changed=changed_paths)
    if command_result is not None and command_result.exit_code == 0:
        message = "git commit succeeded, but there is no new commit."
    else:
        outcome = (
            "took too long"
            if command_result is None or command_result.timed_out
            else f"ended with {command_result.exit_code}"
        )
        message = f"git commit {outcome}."
    return ev.CommitFailed(stage="git", message=message, output=output)


class HookTrial(Struct, frozen=True, kw_only=True):
    """The result of a trial. `changed`: files of the commit that the hooks changed, by path; `tree`: the tree of the
    trial's commit."""

    has_passed: bool
    output: str
    problem: str = ""
    tree: str = ""
    changed: dict[str, bytes] = {}


async def try_commit(
    host: CommandHost,
    directory: Path,
    paths: Sequence[str],
    hooks_directory: Path | None,
    on_output: Callable[[str], None],
) -> HookTrial:
    """Try the commit in `directory` (files `index`, `message`). `hooks_directory`: the hooks' directory in the user's
    git configuration. Raises `AgentTuiError` if the box can't start it."""
    box = await host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise AgentTuiError("hooks can't be sandboxed on this machine.", code="not_contained")
    (directory / "after").mkdir()
    (directory / "paths").write_bytes(b"".join(to_os_name(path) + b"\0" for path in paths))
    chunks: list[str] = []

    def record_output(text: str) -> None:
        plain = strip_escapes(text)
        if sum(map(len, chunks)) < OUTPUT_LIMIT:
            chunks.append(plain)
            on_output(plain)

    box_result = await _run_trial(host, box, directory, hooks_directory, record_output)
    return HookTrial(
        has_passed=box_result.exit_code == 0,
        output="".join(chunks).strip(),
        problem="" if box_result.exit_code is not None else box_result.end_reason.replace("_", " "),
        tree=_read(directory / "tree").decode("ascii", "replace").strip(),
        changed=await asyncio.to_thread(_read_changed, host.workspace.root, directory, paths),
    )


async def _run_trial(
    host: CommandHost, box: Box, directory: Path, hooks_directory: Path | None, on_output: Callable[[str], None]
) -> BoxResult:
    settings = f"-c core.hooksPath={shlex.quote(str(hooks_directory))}" if hooks_directory else ""
    command = _TRIAL_SCRIPT.format(place=shlex.quote(str(directory)), settings=settings)
    limits = BoxLimits(seconds=TIME_LIMIT)
    request = await host.build_passing_request(command, lowers=(), cwd=".", limits=limits)
    view = await asyncio.to_thread(host.repository)
    readable = (*request.readable, *([hooks_directory] if hooks_directory else ()))
    request = replace(
        request,
        env={**request.env, **view.get_environment(), **_build_identity(os.environ, is_known=bool(view.settings))},
        repository=view.directory,
        git_settings=view.settings,
        readable=readable,
        writable=((directory, directory),),
    )
    running = await box.start(request, on_output)
    try:
        return await running.wait()
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(running.stop()))
        raise


def _build_identity(environment: Mapping[str, str], *, is_known: bool) -> dict[str, str]:
    """Return the variables of author and committer. Without a name in environment or configuration a placeholder is
    used: git itself decides at the real commit whether a name is required."""
    identity = {variable: environment[variable] for variable in _IDENTITY if variable in environment}
    return identity if is_known or identity else dict.fromkeys(_IDENTITY, "nobody")


def _read_changed(root: Path, directory: Path, paths: Sequence[str]) -> dict[str, bytes]:
    changed_files: dict[str, bytes] = {}
    for path in paths:
        with suppress(OSError):
            data = read_small_file(directory / "after" / path, _MAX_FILE)
            if data != read_small_file(root / path, _MAX_FILE):
                changed_files[path] = data
    return changed_files


def _read(path: Path) -> bytes:
    try:
        return read_small_file(path)
    except OSError:
        return b""
