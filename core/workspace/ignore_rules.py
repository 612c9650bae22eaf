"""The paths that git ignores, and those that the user withholds from the agent (`.cursorignore`).

The nearest file with a matching pattern wins, and nothing below an ignored directory can be re-included (gitignore(5)).
In a workspace that is part of a repository the files above it count as well, up to the repository's root, unless they
exclude the whole workspace: a user who works there wants to see it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from core.errors import PathRefused
from core.git.layout import RepositoryLayout, find_repository, read_small_file
from core.workspace.file_names import from_os_name, to_os_name
from core.workspace.ignore_patterns import IgnorePatterns, OuterPatterns
from core.workspace.tree import Workspace

_MAX_BYTES = 1_000_000
_GIT, _WITHHELD, NOT_INDEXED = ".gitignore", ".cursorignore", ".cursorindexingignore"
_EXCLUDE = ".git/info/exclude"
_Signature = tuple[int, int, int] | bytes
ReadContent = Callable[[str], bytes | None]
_RuleStack = list[tuple[str, IgnorePatterns | OuterPatterns]]  # rules with the directory of their file


class IgnoreRules:
    """The ignore rules of a workspace, read when first needed and again when their file has changed.

    `content` returns the bytes of a file (None: there is none) for the rules of an overlay instead of those on disk.
    """

    def __init__(self, workspace: Workspace, content: ReadContent | None = None) -> None:
        self._workspace = workspace
        self._read_signature: Callable[[str], _Signature | None] = content or workspace.read_signature
        self._patterns: dict[str, tuple[_Signature, IgnorePatterns | None]] = {}

    def is_ignored(self, rel: str, is_dir: bool) -> bool:
        """True if git would ignore the path. `.git` itself and withheld paths count as ignored."""
        directory, _, name = rel.rpartition("/")
        return rel != "." and self.match_in(directory or ".")(name, is_dir)

    def match_in(self, directory: str) -> Callable[[str, bool], bool]:
        """Return `is_ignored` for the names of one directory, with a single lookup of its rules."""
        above = "" if directory == "." else f"{directory}/"
        stacks = [stack for file in (_GIT, _WITHHELD) if (stack := self._collect_rules(f"{above}x", file))]
        if ".git" in directory.split("/") or any(_is_excluded(stack, directory, True) for stack in stacks):
            return lambda _name, _is_dir: True
        return lambda name, is_dir: (
            name == ".git" or any(_matches(rule_stack, above + name, is_dir) for rule_stack in stacks)
        )

    def open_snapshot(self, *extra_files: str) -> Callable[[str], Callable[[str, bool], bool]]:
        """Return `match_in` for a tree that does not change meanwhile, so that every rules file is read once.

        `extra_files`: names of other files with rules, such as `NOT_INDEXED`.
        """
        files = (_GIT, _WITHHELD, *extra_files)
        return _RulesSnapshot(self._load_patterns, files, [self._load_general(file) for file in files]).match_in

    def match_withheld_in(self, directory: str) -> Callable[[str, bool], bool]:
        """Return a test for withheld names of a directory that is itself not withheld."""
        above = "" if directory == "." else f"{directory}/"
        stack = self._collect_rules(f"{above}x", _WITHHELD)
        return lambda name, is_dir: _matches(stack, above + name, is_dir)

    def refuse_withheld(self, rel: str, *, is_dir: bool = False) -> None:
        """Raise `PathRefused` for a path that a `.cursorignore` withholds from the agent."""
        stack = self._collect_rules(rel, _WITHHELD)
        if stack and _is_excluded(stack, rel, is_dir):
            raise PathRefused(f"{rel!r} is excluded by .cursorignore.", code="path_withheld")

    def _collect_rules(self, rel: str, file: str) -> _RuleStack:
        """Return the rules that apply to a path, the nearest last."""
        above = ["", *accumulate(f"{part}/" for part in rel.split("/")[:-1])]
        own_rules: _RuleStack = [
            (directory, spec) for directory in above if (spec := self._load_patterns(directory, file))
        ]
        return [*self._load_general(file), *own_rules]

    # rules for all paths of the workspace

    def is_in_repository(self) -> bool:
        """True if the workspace is a repository of git, or part of one."""
        return self._repository is not None

    def has_outer_rules(self) -> bool:
        """True if rules above the workspace apply in it."""
        if self._outer is None:
            return False
        rules, inside = self._outer
        return not _is_excluded(rules._collect_rules(inside, _GIT), inside, True)

    def list_outer_files(self) -> list[Path]:
        """Return the absolute paths outside of the workspace of files that may hold rules for it."""
        paths = [self._linked_exclude] if self._linked_exclude else []
        if self._outer is None:
            return paths
        rules, inside = self._outer
        above = [rules._workspace.root / prefix for prefix in ("", *accumulate(inside.split("/")[:-1], "{}/{}".format))]
        return [
            *paths,
            *rules.list_outer_files(),
            *(directory / file for directory in above for file in (_GIT, _WITHHELD)),
        ]

    @cached_property
    def _repository(self) -> RepositoryLayout | None:
        return find_repository(self._workspace.root)

    @cached_property
    def _outer(self) -> tuple[IgnoreRules, str] | None:
        """The rules of the repository that contains the workspace, and the workspace's path in it."""
        repository, root = self._repository, self._workspace.root
        if repository is None or repository.root == root:
            return None
        with suppress(PathRefused):
            return IgnoreRules(Workspace(repository.root)), from_os_name(os.fsencode(root.relative_to(repository.root)))
        return None

    @property
    def _linked_exclude(self) -> Path | None:
        """The path of the repository's own rules, if a `.git` file refers to another directory."""
        repository, root = self._repository, self._workspace.root
        if repository is None or repository.root != root or repository.common == root / ".git":
            return None
        return repository.common / "info" / "exclude"

    def _load_general(self, file: str) -> _RuleStack:
        stack = self._load_outer(file)
        if file != _GIT:
            return stack
        return [("", spec), *stack] if (spec := self._load_patterns("", _EXCLUDE) or self._load_linked()) else stack

    def _load_outer(self, file: str) -> _RuleStack:
        if self._outer is None:
            return []
        rules, inside = self._outer
        stack = rules._collect_rules(inside, file)
        if _is_excluded(stack, inside, True):
            return []
        prefix = to_os_name(inside) + b"/"
        return [
            ("", OuterPatterns(spec, prefix[len(to_os_name(above)) :]))
            for above, spec in stack
            if isinstance(spec, IgnorePatterns)
        ]

    def _load_linked(self) -> IgnorePatterns | None:
        with suppress(OSError):
            if self._linked_exclude:
                return IgnorePatterns(read_small_file(self._linked_exclude), folds=self._workspace.folds_names)
        return None

    def _load_patterns(self, directory: str, file: str) -> IgnorePatterns | None:
        rel = f"{directory}{file}"
        signature = self._read_signature(rel)
        if signature is None:
            self._patterns.pop(rel, None)
            return None
        cache_entry = self._patterns.get(rel)
        if cache_entry is None or cache_entry[0] != signature:
            cache_entry = self._patterns[rel] = (signature, self._parse_file(rel, signature))
        return cache_entry[1]

    def _parse_file(self, rel: str, signature: _Signature) -> IgnorePatterns | None:
        with suppress(PathRefused):
            return IgnorePatterns(
                signature if isinstance(signature, bytes) else self._workspace.read_bytes(rel, _MAX_BYTES),
                folds=self._workspace.folds_names,
            )
        return None


class _RulesSnapshot:
    """Derives the rules of a directory from those of its parent."""

    def __init__(
        self, load: Callable[[str, str], IgnorePatterns | None], files: Sequence[str], first: Iterable[_RuleStack]
    ) -> None:
        self._load = load
        self._files = files
        self._first = tuple(first)  # rules for all paths, per rules file
        self._known: dict[str, tuple[_RuleStack, ...] | None] = {}  # None: ignored as a whole

    def match_in(self, directory: str) -> Callable[[str, bool], bool]:
        above = "" if directory == "." else f"{directory}/"
        stacks = self._find_rules(above)
        if stacks is None:
            return lambda _name, _is_dir: True
        return lambda name, is_dir: name == ".git" or any(_matches(stack, above + name, is_dir) for stack in stacks)

    def _find_rules(self, directory: str) -> tuple[_RuleStack, ...] | None:
        missing = []
        ancestor = directory
        while ancestor not in self._known and ancestor:
            missing.append(ancestor)
            ancestor = ancestor[: ancestor.rfind("/", 0, -1) + 1]
        stacks = self._known[ancestor] if ancestor in self._known else self._add_rules("", self._first)
        for descendant in reversed(missing):
            stacks = self._add_rules(descendant, stacks)
        return stacks

    def _add_rules(self, directory: str, above: tuple[_RuleStack, ...] | None) -> tuple[_RuleStack, ...] | None:
        path = directory.removesuffix("/")
        if above is None or path.rpartition("/")[2] == ".git" or (path and any(_matches(s, path, True) for s in above)):
            self._known[directory] = None
            return None
        stacks = tuple(
            [*stack, (directory, spec)] if spec else stack
            for stack, spec in zip(above, (self._load(directory, file) for file in self._files), strict=True)
        )
        self._known[directory] = stacks
        return stacks


def _is_excluded(stack: _RuleStack, rel: str, is_dir: bool) -> bool:
    if rel == ".":
        return False
    prefixes = accumulate(rel.split("/"), "{}/{}".format)
    return any(_matches(stack, prefix, is_dir or len(prefix) < len(rel)) for prefix in prefixes)


def _matches(stack: _RuleStack, rel: str, is_dir: bool) -> bool:
    for above, spec in reversed(stack):
        if not rel.startswith(above):
            continue
        verdict = spec.match(to_os_name(rel[len(above) :]), is_dir)
        if verdict is not None:
            return verdict
    return False
