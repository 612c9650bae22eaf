"""Which paths git ignores, and which the user keeps from the agent (`.cursorignore`).

The nearest file that decides wins, and nothing below an ignored directory can be brought back (gitignore(5)).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from core.errors import PathRefused
from core.workspace.names import to_os
from core.workspace.tree import Workspace
from core.workspace.wildmatch import IgnoreLines

_LARGEST = 1_000_000
_GIT, _WITHHELD = ".gitignore", ".cursorignore"
_Signature = tuple[int, int, int] | bytes
Content = Callable[[str], bytes | None]
_Stack = list[tuple[str, IgnoreLines]]  # each with the directory it stands in


class IgnoreRules:
    """Rules are read when first needed and again when their file has changed. `content`: gives the bytes of a file
    (None: there is none) where the rules are not those on disk but those of a tree that is laid over it."""

    def __init__(self, workspace: Workspace, content: Content | None = None) -> None:
        self._workspace = workspace
        self._content = content
        self._specs: dict[str, tuple[_Signature, IgnoreLines | None]] = {}

    def is_ignored(self, rel: str, is_dir: bool) -> bool:
        """Whether git would ignore the path; `.git` itself is, what is withheld is too."""
        directory, _, name = rel.rpartition("/")
        return rel != "." and self.within(directory or ".")(name, is_dir)

    def within(self, directory: str) -> Callable[[str, bool], bool]:
        """`is_ignored` for the names of one directory, with the rules that bind it looked up once."""
        above = "" if directory == "." else f"{directory}/"
        stacks = [stack for file in (_GIT, _WITHHELD) if (stack := self._stack(f"{above}x", file))]
        if ".git" in directory.split("/") or any(_decided(stack, directory, True) for stack in stacks):
            return lambda _name, _is_dir: True
        return lambda name, is_dir: name == ".git" or any(_matches(each, above + name, is_dir) for each in stacks)

    def look(self) -> Callable[[str], Callable[[str, bool], bool]]:
        """`within` for many directories of a tree that does not change meanwhile: each file with rules is read once."""
        everywhere = self._spec("", ".git/info/exclude")
        return _Look(self._own, [("", everywhere)] if everywhere else []).within

    def _own(self, directory: str) -> tuple[IgnoreLines | None, IgnoreLines | None]:
        """What the files with rules of one directory ("" or ending in "/") say."""
        return self._spec(directory, _GIT), self._spec(directory, _WITHHELD)

    def withheld_within(self, directory: str) -> Callable[[str, bool], bool]:
        """`is_withheld` for the names of a directory that is not withheld itself, with its rules looked up once."""
        above = "" if directory == "." else f"{directory}/"
        stack = self._stack(f"{above}x", _WITHHELD)
        return lambda name, is_dir: _matches(stack, above + name, is_dir)

    def is_withheld(self, rel: str, is_dir: bool = False) -> bool:
        """Whether a `.cursorignore` keeps the path from the agent."""
        return _decided(self._stack(rel, _WITHHELD), rel, is_dir)

    def refuse_withheld(self, rel: str) -> None:
        """Raise `PathRefused` for a path that the user keeps from the agent."""
        if self.is_withheld(rel):
            raise PathRefused(f"{rel!r} is excluded by .cursorignore.", code="path_withheld")

    def _stack(self, rel: str, file: str) -> _Stack:
        """The rules that bind a path, the nearest last."""
        stack = [(above, spec) for above in _above(rel.split("/")) if (spec := self._spec(above, file))]
        if file == _GIT and (spec := self._spec("", ".git/info/exclude")):
            stack.insert(0, ("", spec))
        return stack

    def _spec(self, directory: str, file: str) -> IgnoreLines | None:
        rel = f"{directory}{file}"
        signature = self._signature(rel)
        if signature is None:
            self._specs.pop(rel, None)
            return None
        known = self._specs.get(rel)
        if known is None or known[0] != signature:
            known = self._specs[rel] = (signature, self._load(rel, signature))
        return known[1]

    def _signature(self, rel: str) -> _Signature | None:
        """What tells one content of a rules file from another; None: there is none."""
        if self._content is not None:
            return self._content(rel)
        return self._workspace.signature(rel)

    def _load(self, rel: str, signature: _Signature) -> IgnoreLines | None:
        try:
            data = signature if isinstance(signature, bytes) else self._workspace.read_bytes(rel, _LARGEST)
        except PathRefused:
            return None
        return IgnoreLines(data)


class _Look:
    """Knows the rules that bind a directory from those that bind the one above it."""

    def __init__(self, own: Callable[[str], tuple[IgnoreLines | None, IgnoreLines | None]], first: _Stack) -> None:
        self._own = own
        self._first: tuple[_Stack, ...] = (first, [])
        self._known: dict[str, tuple[_Stack, ...] | None] = {}  # None: ignored as a whole

    def within(self, directory: str) -> Callable[[str, bool], bool]:
        above = "" if directory == "." else f"{directory}/"
        stacks = self._stacks(above)
        if stacks is None:
            return lambda _name, _is_dir: True
        return lambda name, is_dir: name == ".git" or any(_matches(each, above + name, is_dir) for each in stacks)

    def _stacks(self, directory: str) -> tuple[_Stack, ...] | None:
        missing = []
        at = directory
        while at not in self._known and at:
            missing.append(at)
            at = at[: at.rfind("/", 0, -1) + 1]
        stacks = self._known[at] if at in self._known else self._bound("", self._first)
        for each in reversed(missing):
            stacks = self._bound(each, stacks)
        return stacks

    def _bound(self, directory: str, above: tuple[_Stack, ...] | None) -> tuple[_Stack, ...] | None:
        path = directory.removesuffix("/")
        if above is None or path.rpartition("/")[2] == ".git" or (path and any(_matches(s, path, True) for s in above)):
            self._known[directory] = None
            return None
        found = tuple(
            [*stack, (directory, spec)] if spec else stack
            for stack, spec in zip(above, self._own(directory), strict=True)
        )
        self._known[directory] = found
        return found


def _above(parts: list[str]) -> list[str]:
    """The directories whose rules bind a path, outermost first, each "" or ending in "/"."""
    return ["", *accumulate(f"{part}/" for part in parts[:-1])]


def _decided(stack: _Stack, rel: str, is_dir: bool) -> bool:
    """Whether the path or a directory that it lies in is ruled out."""
    if not stack or rel == ".":
        return False
    prefixes = accumulate(rel.split("/"), "{}/{}".format)
    return any(_matches(stack, each, is_dir or len(each) < len(rel)) for each in prefixes)


def _matches(stack: _Stack, rel: str, is_dir: bool) -> bool:
    for above, spec in reversed(stack):
        if not rel.startswith(above):
            continue
        decided = spec.decides(to_os(rel[len(above) :]), is_dir)
        if decided is not None:
            return decided
    return False
