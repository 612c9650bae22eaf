"""The content of a commit of accepted hunks, path by path, and its effect on the user's own index.

A path is left out with a reason where its accepted hunks cannot be separated from the user's own edits. What the user
has staged stays staged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError
from core.git.history import LINK_MODE, MISSING_MODE, GitEntry
from core.git.repository import GitFailed, GitRepository
from core.git.tree_entries import (
    PathRule,
    TreeFile,
    find_ignored,
    find_outside_sparse,
    find_submodules,
    list_index_entries,
    read_path_rules,
    read_tree_files,
    store_blob,
)
from core.shadow.commits.path_version import AcceptedEdit, PathVersion, apply_edits
from core.shadow.diff.three_way_merge import merge_three_way
from core.workspace.file_names import from_os_name, to_os_name

_EXECUTABLE, _PLAIN = "100755", "100644"
_IGNORED = "ignored by git: git add --force adds it anyway"
_SKIPPED = "skipped by git: it is outside the sparse checkout, or marked skip-worktree"
_OTHER_KIND = "it is a {} in the last commit"
_ELSEWHERE = "it belongs to {} {}: commit it there"
_ENCODING = "git can't convert it from {}, the encoding in .gitattributes"
_BY_FILTER = "git stores it with a filter of the repository (LFS, encryption), which is not run here"
_STAGED = "{} is staged with other changes of the same lines. Unstage it first: git restore --staged -- {}"


class CommitContent(Struct, frozen=True, kw_only=True):
    """One path: `before` in the last commit, `after` in the next; with a `problem` it cannot be committed. `edits`: the
    accepted edits in `after`."""

    path: str
    name: bytes
    before: TreeFile
    after: PathVersion
    edits: tuple[AcceptedEdit, ...]
    problem: str = ""

    @property
    def head(self) -> PathVersion:
        """The version of the last commit."""
        return _to_version(self.before)

    @property
    def is_new(self) -> bool:
        """True if the commit would change the path."""
        return bool(self.problem) or self.head != self.after


class HeadFiles(Struct, frozen=True):
    """Paths in the last commit: their names in the repository, their files, the rules by which git stores them, and the
    reasons why some cannot be committed."""

    names: dict[str, bytes]
    files: dict[bytes, TreeFile]
    rules: dict[bytes, PathRule]
    problems: dict[bytes, str]


def read_head_files(repository: GitRepository, commit: str, paths: Iterable[str], prefix: str) -> HeadFiles:
    """Read paths of the last commit ("" = there is none). `prefix`: the workspace's path in the repository (`app/`).
    Raises `GitFailed`."""
    names = {path: to_os_name(prefix + path) for path in paths}
    every = list(names.values())
    rules = read_path_rules(repository, every)
    files = read_tree_files(repository, commit, every, rules)
    return HeadFiles(names, files, rules, dict(_find_problems(repository, commit, files, rules)))


def _find_problems(
    repository: GitRepository, commit: str, files: Mapping[bytes, TreeFile], rules: Mapping[bytes, PathRule]
) -> Iterator[tuple[bytes, str]]:
    """Yield the paths that no commit of this repository can contain, and why; the most severe reason comes last."""
    elsewhere = dict(_find_elsewhere(repository, commit, files))
    names = [name for name in files if name not in elsewhere]
    for name in find_ignored(repository, [name for name in names if files[name].is_absent]):
        yield name, _IGNORED
    for name in find_outside_sparse(repository, names):
        yield name, _SKIPPED
    for name in names:
        if rules[name].has_filter:
            yield name, _BY_FILTER
        if files[name].kind != "blob":
            yield name, _OTHER_KIND.format("directory" if files[name].kind == "tree" else "submodule")
    yield from elsewhere.items()


def _find_elsewhere(repository: GitRepository, commit: str, names: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
    """Yield the paths that belong to a nested repository."""
    directories = {above for name in names for above in _list_above(name)}
    submodules = find_submodules(repository, commit, directories)
    others = {
        directory for directory in directories if os.path.lexists(repository.root / os.fsdecode(directory) / ".git")
    }
    for name in names:
        for above in _list_above(name):
            if above in submodules | others:
                kind = "the submodule" if above in submodules else "a separate repository,"
                yield name, _ELSEWHERE.format(kind, from_os_name(above))
                break


def _list_above(name: bytes) -> Iterator[bytes]:
    """Yield the directories above a path, outermost first."""
    parts = name.split(b"/")
    return (b"/".join(parts[:count]) for count in range(1, len(parts)))


def compute_contents(
    heads: HeadFiles, edits: Sequence[AcceptedEdit], read_disk: Callable[[str], PathVersion | None]
) -> list[CommitContent]:
    """Compute the changes of the next commit with these edits, by path. `read_disk(path)` may raise `AgentTuiError`;
    None: see `apply_edits`."""
    by_path: dict[str, list[AcceptedEdit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    contents = (
        _compute_content(heads, path, tuple(path_edits), read_disk) for path, path_edits in sorted(by_path.items())
    )
    return [content for content in contents if content.is_new]


def _compute_content(
    heads: HeadFiles, path: str, edits: tuple[AcceptedEdit, ...], read_disk: Callable[[str], PathVersion | None]
) -> CommitContent:
    name = heads.names[path]
    before = heads.files[name]

    def convert(version: PathVersion) -> PathVersion:
        data = (
            heads.rules[name].store_line_ends(version.data, before.stored) if version.kind == "file" else version.data
        )
        return replace(version, data=data)

    head, problem = _to_version(before), heads.problems.get(name, "")
    after = head
    if not problem:
        steps = [replace(edit, before=convert(edit.before), after=convert(edit.after)) for edit in edits]
        try:
            disk = read_disk(path)
            after = apply_edits(head, steps, None if disk is None else convert(disk))
        except AgentTuiError as error:
            problem = error.message
    return CommitContent(path=path, name=name, before=before, after=after, edits=edits, problem=problem)


def find_unstorable(repository: GitRepository, heads: HeadFiles, contents: Sequence[CommitContent]) -> dict[str, str]:
    """Return the paths whose new content git cannot convert to the encoding of their attributes, and why."""
    problems = dict[str, str]()
    for content in contents:
        rule = heads.rules[content.name]
        if rule.encoding and content.after.kind == "file" and not content.problem:
            try:
                store_blob(repository, content.name, content.after.data, rule, is_trial=True)
            except GitFailed:
                problems[content.path] = _ENCODING.format(rule.encoding)
    return problems


def _to_version(file: TreeFile) -> PathVersion:
    if file.is_absent:
        return PathVersion()
    if file.mode == LINK_MODE:
        return PathVersion(kind="symlink", data=file.data)
    return PathVersion(kind="file", data=file.data, is_executable=file.mode == _EXECUTABLE)


def store_entry(repository: GitRepository, content: CommitContent, rule: PathRule) -> GitEntry:
    """Store the content of a path as an object; return the entry of the next commit's tree. Raises `GitFailed`."""
    after, before = content.after, content.before
    if after.kind == "absent":
        return GitEntry(content.name, MISSING_MODE, "0" * len(before.oid), before.mode, before.oid)
    is_link = after.kind == "symlink"
    is_same = not before.is_absent and (before.mode == LINK_MODE) == is_link and before.data == after.data
    oid = before.oid if is_same else store_blob(repository, content.name, after.data, None if is_link else rule)
    mode = LINK_MODE if is_link else _EXECUTABLE if after.is_executable else _PLAIN
    return GitEntry(content.name, mode, oid, before.mode, before.oid)


def plan_index(
    repository: GitRepository, contents: Sequence[CommitContent], entries: Mapping[bytes, GitEntry]
) -> list[GitEntry]:
    """Return the entries that update the user's index to the commit of `entries`; other staged changes stay staged.
    Raises `GitFailed` where that is not possible."""
    index_entries = list_index_entries(repository, [content.name for content in contents])
    return list(_plan_entries(repository, contents, entries, index_entries))


def _plan_entries(
    repository: GitRepository,
    contents: Sequence[CommitContent],
    entries: Mapping[bytes, GitEntry],
    index_entries: Mapping[bytes, list[GitEntry]],
) -> Iterator[GitEntry]:
    for content in contents:
        new, staged_entries = entries[content.name], index_entries[content.name]
        if any(entry.stage for entry in staged_entries):
            raise GitFailed(f"{content.path} is not merged yet.")
        now = (staged_entries[0].mode, staged_entries[0].oid) if staged_entries else (MISSING_MODE, "")
        if now == (new.mode, new.oid) or (not staged_entries and new.mode == MISSING_MODE):
            continue
        if now == (content.before.mode, content.before.oid) or _is_only_intended(repository, content, staged_entries):
            yield new
        else:
            yield _merge_staged(repository, content, staged_entries, new)


def _is_only_intended(repository: GitRepository, content: CommitContent, staged_entries: Sequence[GitEntry]) -> bool:
    """True for `git add --intent-to-add`: an entry without content where the last commit has no file."""
    return (
        content.before.is_absent
        and bool(staged_entries)
        and not repository.run("cat-file", "blob", staged_entries[0].oid)
    )


def _merge_staged(
    repository: GitRepository, content: CommitContent, staged_entries: Sequence[GitEntry], new: GitEntry
) -> GitEntry:
    """Return the entry of the new commit merged with the user's staged changes."""
    refusal = GitFailed(_STAGED.format(content.path, content.path))
    is_text = bool(staged_entries) and LINK_MODE not in {staged_entries[0].mode, new.mode} and new.mode != MISSING_MODE
    if not is_text or content.before.is_absent:
        raise refusal
    base, ours, theirs = (
        repository.run("cat-file", "blob", oid) for oid in (content.before.oid, staged_entries[0].oid, new.oid)
    )
    merged_content = merge_three_way(base, ours, theirs)
    if merged_content is None:
        raise refusal
    oid = repository.run("hash-object", "-w", "--no-filters", "--stdin", stdin=merged_content).decode().strip()
    return GitEntry(
        content.name, new.mode if staged_entries[0].mode == content.before.mode else staged_entries[0].mode, oid
    )
