"""A pending state of git: its preview, the layer that accepting it writes, and notes on what is left out.

Every omission has a note: files that are no state, commits of submodules, and signatures that the user's settings
require.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec import Struct

from core.errors import AgentTuiError, ReviewConflict
from core.filesystem.overlay_support import make_whiteout
from core.git.history import is_object_name, read_commit
from core.git.layout import read_small_file
from core.git.repository import GitFailed
from core.patterns import compile_lazily
from core.protocol.review import GitPreview
from core.shadow.content.paths import format_paths
from core.shadow.gitstate.accepted_content import AcceptedContent
from core.shadow.gitstate.git_layer import GitLayer
from core.shadow.gitstate.git_objects import render_commits, render_tags
from core.shadow.gitstate.lost_repositories import describe_lost_repository
from core.shadow.gitstate.outcome import STASH, GitOutcome, compute_outcome, iterate_changed_paths
from core.shadow.gitstate.repository_copy import RepositoryCopy, copy_repository
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_layer_path
from core.shadow.layers.path_classes import is_git_protected

_STATE = compile_lazily(r"(?:HEAD|index|packed-refs|refs|logs|objects)(?:/|\Z)|sharedindex\.[0-9a-f]+\Z")
# Files that git writes all the time and never reads again by itself.
_QUIETLY_LEFT = compile_lazily(r"(?:COMMIT_EDITMSG|TAG_EDITMSG|AUTO_MERGE|gc\.pid|gc\.log)\Z|.*\.lock\Z")
_SIGNATURE = compile_lazily(rb"(?m)^gpgsig(?:-sha256)? ")
_LEFT_OUT = "left out, not a reference, HEAD, index or object: {}"
_SUBMODULE = "the commit {} of the submodule {} is left out: accept its files, then commit in {}"
_UNSIGNED = (
    "not signed, though commit.gpgSign is set, as commands reach no key: git commit --amend --no-edit -S signs the last"
)
_LOG = "/logs/HEAD"
_MODULES = "modules"  # the directory in `.git` with the repositories of submodules
_MAX_NAMED = 30  # paths in a note
_MAX_SINGLE = 3  # files of one directory that are listed individually
_MAX_LOG = 16 << 20  # bytes
GIT_REFUSED = "git_refused"
MAX_PREVIEW_CHARS = 400_000  # characters of commits
HINT = (
    "Accept the hunks that belong to it, or have the agent commit again what you accepted; rejecting "
    "the git state leaves your repository as it is."
)
_NOT_HERE = "{} stayed where the agent ran; its files are in the review. Accept those, then commit them here."
_NOTHING = "Nothing changes in your repository."
_ONLY_INDEX = "No reference moves: only the staged content changes."
FindDenials = Callable[[Iterable[str]], dict[str, str]]


def list_notes(tree: MergedTree, repository: RepositoryCopy, outcome: GitOutcome) -> Iterator[str]:
    """Yield a line for every change in a repository that is not accepted with its state. Raises `GitFailed`."""
    yield from outcome.notes
    modules = dict(_list_submodules(tree, repository.rel))
    for name, oid in modules.items():
        yield _SUBMODULE.format(oid[:10], name, name)
    omissions = [path for path in _list_left_out(tree, repository, outcome) if not _is_below(path, modules)]
    if omissions:
        yield _LEFT_OUT.format(format_paths(_join_directories(omissions), _MAX_NAMED))
    if repository.signs and not outcome.refused:
        commits = (read_commit(repository.now, oid) for oid in outcome.list_resulting())
        if any(not _SIGNATURE.search(commit.head) for commit in commits):
            yield _UNSIGNED


def _is_below(path: str, modules: Iterable[str]) -> bool:
    return any(path.startswith(f"{_MODULES}/{name}/") for name in modules)


def _list_submodules(tree: MergedTree, rel: str) -> Iterator[tuple[str, str]]:
    """Yield the submodules in which commands committed, with their checked-out commits."""
    top = f"{rel}/{_MODULES}/"
    for path, entry in tree.stack.walk(top.rstrip("/")):
        if entry is not None and path.endswith(_LOG):
            node = tree.find_node(path)
            now = _read_last(tree.read(path, node, _MAX_LOG)) if node is not None else ""
            before = _read_last(tree.workspace.read_bytes(path)) if tree.find_on_disk(path) is not None else ""
            if now and now != before:
                yield path.removeprefix(top).removesuffix(_LOG), now


def _read_last(log: bytes) -> str:
    """Return the new object of the last line of a reference's log; "" = none."""
    words = log.rstrip(b"\n").rpartition(b"\n")[2].split(b" ", 2)
    return words[1].decode("ascii", "replace") if len(words) > 1 and is_object_name(words[1]) else ""


def _list_left_out(tree: MergedTree, repository: RepositoryCopy, outcome: GitOutcome) -> list[str]:
    """List the files of a repository that commands changed and that are not accepted."""
    rel, omissions = repository.rel, dict.fromkeys(outcome.strange)
    known_names = {*outcome.before, *outcome.after}
    log_paths = {f"logs/{name}" for name in known_names}
    for path, entry in tree.stack.walk(rel):
        inside = path.removeprefix(rel).lstrip("/")
        is_directory = entry is not None and entry.is_directory
        if not inside or is_directory or is_git_protected(path) or _QUIETLY_LEFT.match(inside):
            continue
        is_unknown = not _STATE.match(inside) or (inside.startswith("logs/") and inside not in log_paths)
        if inside.startswith("refs/") and not outcome.refused:
            is_unknown = inside not in known_names or (entry is not None and stat.S_ISLNK(entry.stats.st_mode))
        if is_unknown and (entry is not None or tree.find_on_disk(path) is not None):
            omissions[inside] = None
    omissions |= dict.fromkeys(_list_unread_packed(tree, repository, known_names))
    return list(omissions)


def _list_unread_packed(tree: MergedTree, repository: RepositoryCopy, known_names: set[str]) -> Iterator[str]:
    """Yield the invalid reference names that commands wrote to `packed-refs`."""
    path, file = f"{repository.rel}/packed-refs", repository.now.directory / "packed-refs"
    node = tree.find_on_disk(path)
    if not file.is_file() or not isinstance(tree.stack.find(path), LayeredEntry):
        return
    old = tree.workspace.read_bytes(path) if node is not None and node.kind == "file" else b""
    before = set(old.split(b"\n"))
    for line in file.read_bytes().split(b"\n"):
        name = os.fsdecode(line.partition(b" ")[2])
        if line not in before and name and not line.startswith((b"#", b"^")) and name not in known_names:
            yield f"{name} of packed-refs"


def _join_directories(names: Iterable[str]) -> list[str]:
    by_directory = defaultdict[str, list[str]](list)
    for name in sorted(names):
        by_directory[name.partition("/")[0] if "/" in name else ""].append(name)
    entries = by_directory.pop("", [])
    for directory, files in by_directory.items():
        entries += files if len(files) <= _MAX_SINGLE or directory == "refs" else [f"{directory}/ ({len(files)} files)"]
    return sorted(entries)


class GitState(Struct, eq=False):
    """The states of git of one session; the verdicts of its `state` determine the accepted content. `find_denials`
    returns the paths that the user's rules deny, with texts that complete the sentence "it …"."""

    tree: MergedTree
    find_denials: FindDenials

    def prepare(self, rel: str, directory: Path) -> tuple[str, ...]:
        """Write the layer for the repository `rel` below `directory`. Return notes on the differences from the state
        that commands left. Raises `ReviewConflict` if it must not be accepted, and OSError."""
        if reason := describe_lost_repository(self.tree, rel):
            raise ReviewConflict(f"{rel} can't be accepted: {reason}", hint=HINT, code=GIT_REFUSED)
        if self._is_removal(rel):
            target = get_layer_path(directory, rel)
            target.parent.mkdir(parents=True, exist_ok=True)
            make_whiteout(target)
            return ()
        try:
            self._refuse_strange(rel)
            with copy_repository(self.tree, rel) as repository:
                outcome = self._compute_outcome(repository)
                if outcome.refused:
                    raise ReviewConflict(f"{rel} can't be accepted: {outcome.refused}", hint=HINT, code=GIT_REFUSED)
                GitLayer(self.tree, repository, outcome, directory).write()
                return tuple(list_notes(self.tree, repository, outcome))
        except GitFailed as problem:
            raise ReviewConflict(
                f"{rel} can't be accepted: {problem.message}", hint=HINT, code=GIT_REFUSED
            ) from problem

    def preview(self, rel: str) -> GitPreview:
        """Return the effects of accepting: moved references, commits with their diffs, and reasons against it."""
        if reason := describe_lost_repository(self.tree, rel):
            return GitPreview(root=rel, refused=reason)
        if self._is_removal(rel):
            return GitPreview(root=rel, moves=(_NOTHING,))
        try:
            self._refuse_strange(rel)
            with copy_repository(self.tree, rel) as repository:
                outcome = self._compute_outcome(repository)
                return _build_preview(repository, outcome, tuple(list_notes(self.tree, repository, outcome)))
        except (AgentTuiError, OSError) as problem:
            return GitPreview(root=rel, refused=str(problem))

    def _compute_outcome(self, repository: RepositoryCopy) -> GitOutcome:
        accepted_content = AcceptedContent(self.tree, repository)
        outcome = compute_outcome(accepted_content)
        if outcome.refused:
            return outcome
        denials = self.find_denials(iterate_changed_paths(accepted_content, outcome))
        for path, reason in denials.items():
            suffix = f"; so are {format_paths(list(denials)[1:])}" if len(denials) > 1 else ""
            refusal = f"it changes git's content for {path}, which {reason}{suffix}."
            return GitOutcome(refused=refusal, before=outcome.before, after=outcome.before, fresh=outcome.fresh)
        return outcome

    def _is_removal(self, rel: str) -> bool:
        return self.tree.stack.find(rel) == "hidden"

    def _refuse_strange(self, rel: str) -> None:
        entry = self.tree.stack.find(rel)
        if entry is None:
            raise GitFailed(_NOT_HERE.format(rel))
        if rel.rpartition("/")[2] != ".git" or not isinstance(entry, LayeredEntry) or not entry.is_directory:
            raise GitFailed(f"{rel} is not a directory that git here takes for a repository.")


def _build_preview(repository: RepositoryCopy, outcome: GitOutcome, notes: tuple[str, ...]) -> GitPreview:
    text = _render_objects(repository, outcome)
    return GitPreview(
        root=repository.rel,
        moves=() if outcome.refused else (*_describe_moves(outcome), *_describe_stash(repository, outcome)),
        commits=len(outcome.fresh),
        text=text[:MAX_PREVIEW_CHARS],
        clipped=len(text) > MAX_PREVIEW_CHARS,
        refused=outcome.refused,
        notes=notes,
    )


def _describe_moves(outcome: GitOutcome) -> list[str]:
    """Describe all changes: references, HEAD, and staged paths."""
    moves = []
    for name in sorted({*outcome.before, *outcome.after}):
        old, new = outcome.before.get(name, ""), outcome.after.get(name, "")
        if name == "HEAD" and outcome.head[0] != outcome.head[1]:
            continue
        if old != new:
            moves.append(f"{name}: {old[:10] or 'new'} → {new[:10] or 'removed'}")
    moves += [f"{name}: points to {target}" for name, target in sorted(outcome.symbolic.items())]
    old_head, new_head = outcome.head
    if old_head != new_head:
        before, after = (references.get("HEAD", "")[:10] for references in (outcome.before, outcome.after))
        moves.append(f"HEAD: {_describe_head(old_head, before)} → {_describe_head(new_head, after)}")
    if not moves:
        moves = [_ONLY_INDEX if outcome.staged else _NOTHING]
    return [*moves, *outcome.staged]


def _describe_stash(repository: RepositoryCopy, outcome: GitOutcome) -> Iterator[str]:
    """Describe the entries of a changed stash, newest first; they exist only in its log."""
    if outcome.before.get(STASH) != outcome.after.get(STASH):
        layout = repository.layout
        rows = [_read_stash(layout.common) if layout else [], _read_stash(repository.now.directory)]
        before, after = (format_paths(row[::-1], _MAX_NAMED) or "none" for row in rows)
        yield f"Entries of the stash: {before} → {after}"


def _read_stash(directory: Path) -> list[str]:
    try:
        lines = read_small_file(directory / "logs" / STASH).split(b"\n")
    except OSError:
        return []
    names = [line.split(b" ")[1] for line in lines if b" " in line]
    return [name[:10].decode() for name in names if is_object_name(name)]


def _describe_head(head: str, oid: str) -> str:
    if not head:
        return "new"
    branch = head.removeprefix("ref: refs/heads/")
    if branch == head:
        return f"commit {oid}, on no branch"
    return f"branch {branch} ({oid or 'no commit yet'})"


def _render_objects(repository: RepositoryCopy, outcome: GitOutcome) -> str:
    """Render new tags and commits, up to `MAX_PREVIEW_CHARS`."""
    fresh = {*outcome.after.values(), *outcome.others} - set(outcome.before.values())
    texts, size = list[str](), 0
    for text in chain(
        render_tags(repository.now, sorted(fresh)), render_commits(repository.now, outcome.list_resulting())
    ):
        texts.append(text)
        size += len(text)
        if size > MAX_PREVIEW_CHARS:
            break
    return "".join(texts).removesuffix("\n")
