"""Random trees, layers and edits for the tests of copies."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hypothesis import strategies as st

from core.filesystem.overlay_support import make_whiteout, set_opaque
from core.filesystem.removal import remove_path
from core.sandbox.tiers.project_survey import merge_directories

Edit = tuple[str, bytes, bytes, int]
Shape = dict[bytes, tuple[object, ...]]

_NAME = st.sampled_from([b"a", b"b", b"c\xff", b"d"])
_PATH = st.lists(_NAME, min_size=1, max_size=3).map(b"/".join)
_KINDS = ("write", "write", "write", "mkdir", "link", "remove", "mode", "move", "same")
_EDIT = st.tuples(
    st.sampled_from(_KINDS),
    _PATH,
    st.sampled_from([b"", b"1", b"2", b"11", b"a/b", b"c\xff"]),
    st.sampled_from([0o644, 0o600, 0o755, 0o400]),
)
_RAW_EDIT = st.tuples(
    st.sampled_from(("write", "mkdir", "link", "whiteout", "opaque")),
    _PATH,
    st.sampled_from([b"5", b"b"]),
    st.just(0o644),
)
EDITS = st.lists(_EDIT, max_size=7)
LAYERS = st.lists(st.lists(_RAW_EDIT, max_size=5), max_size=2)


def apply(top: Path, edits: list[Edit]) -> None:
    """Make the edits, whatever is in their way."""
    for kind, path, text, mode in edits:
        target = top / os.fsdecode(path)
        if kind not in {"remove", "move", "mode", "same", "opaque"}:
            _make(top, kind, target, text, mode)
        elif _has_parents(top, target) and os.path.lexists(target):
            _edit_present(top, kind, target, top / os.fsdecode(text or b"b"), mode)


def _make(top: Path, kind: str, target: Path, text: bytes, mode: int) -> None:
    if kind == "mkdir" and _is_directory(target):
        return
    if not _has_parents(top, target):
        _make_parents(top, target)
    remove_path(target)
    if kind == "write":
        target.write_bytes(text)
        target.chmod(mode)
    elif kind == "mkdir":
        target.mkdir()
    elif kind == "link":
        target.symlink_to(os.fsdecode(text or b"x"))
    else:
        make_whiteout(target)


def _edit_present(top: Path, kind: str, target: Path, other: Path, mode: int) -> None:
    is_directory = _is_directory(target)
    is_file = stat.S_ISREG(target.lstat().st_mode)
    if kind == "remove":
        remove_path(target)
    elif kind == "opaque" and is_directory:
        set_opaque(target, True)
    elif kind == "mode" and (is_directory or is_file):
        target.chmod(mode | (0o700 if is_directory else 0))
    elif kind == "same" and is_file:
        content = target.read_bytes()
        target.unlink()
        target.write_bytes(content)
    elif kind == "move" and _has_parents(top, other) and not _overlap(target, other):
        remove_path(other)
        target.rename(other)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _has_parents(top: Path, target: Path) -> bool:
    return all(_is_directory(above) for above in target.parents if above.is_relative_to(top))


def _make_parents(top: Path, target: Path) -> None:
    for above in reversed([above for above in target.parents if above.is_relative_to(top)]):
        if not _is_directory(above):
            remove_path(above)
            above.mkdir()


def show(*stack: Path) -> Shape:
    """Return all entries of a directory with layers over it, topmost first."""
    shape: Shape = {}
    directories = [os.fsencode(directory) for directory in stack]
    waiting = [(b"", directories, directories[-1])]
    while waiting:
        path, below, bottom = waiting.pop()
        for name, entries in merge_directories(below, bottom).items():
            child = path + b"/" + name if path else name
            shape[child] = _describe(Path(os.fsdecode(entries[0].path)))
            if stat.S_ISDIR(entries[0].info.st_mode):
                waiting.append((child, [entry.path for entry in entries], bottom + b"/" + name))
    return shape


def _describe(path: Path) -> tuple[object, ...]:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISDIR(info.st_mode):
        return ("directory", info.st_mode & 0o777)
    return ("file", info.st_mode & 0o777, path.read_bytes())
