"""The spelling of names on disk, where the file system ignores case or the normal form of Unicode.

On such a file system (APFS, exFAT, a folder with casefold of ext4 or tmpfs) one file answers to many names, while every
list of the program, such as what is withheld or protected, knows one. So names are replaced by their spelling on disk
before any list is asked. The file system itself is asked which names are one: a directory is probed once, by looking up
one of its own entries in another spelling, and where that finds nothing, names cost no further system call.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from core.filesystem.open_beneath import DIRECTORY, split_components

_MOST_PROBED: Final = 200  # entries of a directory among which one with another spelling is searched
_MOST_LISTED: Final = 256  # directories whose names are kept
_MOST_KNOWN: Final = 50_000  # directories whose probe is kept
_RACY_NANOSECONDS: Final = 2_100_000_000  # FAT stores the time of a change in steps of two seconds
_DARWIN_CASE_SENSITIVE: Final = 11  # _PC_CASE_SENSITIVE of pathconf(2), which Python has no name for


def fold_spelling(name: bytes) -> str:
    """Return a key that is equal for all spellings of a name on a file system that ignores case and normal form."""
    text = name.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text.lower()
    from unicodedata import normalize

    return normalize("NFD", normalize("NFD", text).casefold())


def list_respellings(name: bytes) -> list[bytes]:
    """Return the name in another case and in other normal forms, as far as these differ from it."""
    if name.isascii():
        return [other] if (other := name.swapcase()) != name else []
    from unicodedata import normalize

    text = name.decode("utf-8", "surrogateescape")
    other_case = name.swapcase()  # of ASCII letters alone, which every such file system folds
    others = [other_case if other_case != name else text.swapcase().encode("utf-8", "surrogateescape")]
    others += [normalize("NFC", text).encode("utf-8", "surrogateescape")]
    others += [normalize("NFD", text).encode("utf-8", "surrogateescape")]
    return [other for other in others if other != name]


def resolve_spelled(path: Path, *, strict: bool = False) -> Path:
    """Return the absolute path with links followed, as `Path.resolve` does, in its spelling on disk.

    It identifies a directory however its name was typed. Raises OSError as `Path.resolve` does.
    """
    real = b""
    for name in split_components(os.fsencode(path.resolve(strict=strict))):
        above = real or b"/"
        spelled_name = name
        if _is_any_same(real + b"/", name):
            with suppress(OSError):  # the directory can't be read: the name as it was typed leads there, too
                spelled_name = _choose_spelling(_list_entries(above), real + b"/", name)
        real += b"/" + spelled_name
    return Path(os.fsdecode(real or b"/"))


def _list_entries(directory: bytes | int) -> frozenset[bytes]:
    with os.scandir(directory) as entries:
        return frozenset(os.fsencode(entry.name) for entry in entries)


def _is_any_same(prefix: bytes, name: bytes, directory: int | None = None) -> bool:
    """True if another spelling of a name leads to the same file."""
    own = _identify(prefix + name, directory)
    return own is not None and any(_identify(prefix + other, directory) == own for other in list_respellings(name))


def _identify(path: bytes, directory: int | None) -> tuple[int, int] | None:
    try:
        file_stat = os.stat(path, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return file_stat.st_dev, file_stat.st_ino


def _choose_spelling(names: Iterable[bytes], prefix: bytes, name: bytes, directory: int | None = None) -> bytes:
    """Return which of the names of a directory an existing file has that was looked up as `name`. `prefix`: the path of
    that directory, with a slash.

    Raises FileNotFoundError if none of them can be it, so that an unknown name opens nothing.
    """
    known_names = frozenset(names)
    if name in known_names:
        return name
    key = fold_spelling(name)
    same = [other for other in known_names if fold_spelling(other) == key]
    if len(same) != 1:  # a short name of FAT, or letters that this file system folds in its own way
        own = _identify(prefix + name, directory)
        same = [other for other in known_names if _identify(prefix + other, directory) == own]
    if len(same) != 1:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return same[0]


class NameSpelling:
    """The spellings below the directory descriptor `top`, whose absolute path is `root`. Paths are relative to it; b""
    is the directory itself."""

    def __init__(self, top: int, root: bytes) -> None:
        self._top = top
        self._root = root
        self._exact: set[bytes] = set()  # directories that fold no name, and none above them does
        self._probed: dict[bytes, bool] = {}
        self._listed: dict[bytes, tuple[tuple[int, int], frozenset[bytes]]] = {}

    def is_exact(self, path: bytes) -> bool:
        """True if no directory on the path folds names, so that no name in it has a second spelling. Links in it have
        been followed before, and lead to no other tree."""
        directory = path.rpartition(b"/")[0]
        return directory in self._exact or not self._find_folding(directory)

    def _find_folding(self, directory: bytes) -> bool:
        answers = dict(self._iterate_answers(directory))
        if any(answers.values()):
            return True
        if None not in answers.values() and directory in answers:
            self._exact.update(answers)
        return False

    def folds(self, directory: bytes) -> bool:
        """True if this directory finds a name in other spellings; one that tells nothing is like the one above it."""
        answers = [answer for _, answer in self._iterate_answers(directory) if answer is not None]
        return bool(answers and answers[-1])

    def _iterate_answers(self, directory: bytes) -> Iterator[tuple[bytes, bool | None]]:
        """Yield the directories on the way to a directory with their answers, as far as they exist; without those above
        one that is known to be exact, if the directory lies in it."""
        is_child = directory.rpartition(b"/")[0] in self._exact
        for here in (directory,) if is_child else _iterate_prefixes(directory):
            try:
                yield here, False if here in self._exact else self._recall(here)
            except FileNotFoundError:
                return

    def _recall(self, directory: bytes) -> bool | None:
        answer = self._probed.get(directory)
        if answer is None and (answer := self._probe(directory)) is not None:
            if len(self._probed) >= _MOST_KNOWN:
                self._probed.clear()
                self._exact.clear()
            self._probed[directory] = answer
        return answer

    def _probe(self, directory: bytes) -> bool | None:
        """Probe a directory; None: it does not tell. Raises FileNotFoundError if there is none, and so none in it."""
        try:
            descriptor = os.open(directory or b".", DIRECTORY, dir_fd=self._top)
        except FileNotFoundError:
            raise
        except OSError:
            return None
        try:
            answer = _probe_entries(descriptor)
            if answer is None and sys.platform == "darwin":
                return os.fpathconf(descriptor, _DARWIN_CASE_SENSITIVE) == 0
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return self._probe_root() if answer is None and not directory else answer

    def _probe_root(self) -> bool | None:
        """Answer for an empty root by its own name, if the directory above it is on the same file system."""
        above, _, name = self._root.rpartition(b"/")
        with suppress(OSError):
            if Path(os.fsdecode(above or b"/")).stat().st_dev == os.fstat(self._top).st_dev and _is_any_same(
                above + b"/", name
            ):
                return True
        return None

    def spell(self, directory: bytes, name: bytes) -> bytes:
        """Return the spelling on disk of a name in a directory, itself spelled so and reached by no link; a name that
        does not exist remains. Raises FileNotFoundError if it exists, but no entry can be it."""
        if name in {b".", b".."} or not self.folds(directory):
            return name
        prefix = directory + b"/" if directory else b""
        if name in self._list_names(directory) or _identify(prefix + name, self._top) is None:
            return name
        return _choose_spelling(self._list_names(directory), prefix, name, self._top)

    def _list_names(self, directory: bytes) -> frozenset[bytes]:
        try:
            descriptor = os.open(directory or b".", DIRECTORY, dir_fd=self._top)
        except OSError:
            return frozenset()
        try:
            directory_stat = os.fstat(descriptor)
            signature = directory_stat.st_mtime_ns, directory_stat.st_ino
            listed = self._listed.get(directory)
            if listed is not None and listed[0] == signature:
                return listed[1]
            names = _list_entries(descriptor)
        except OSError:
            return frozenset()
        finally:
            os.close(descriptor)
        if time.time_ns() - signature[0] > _RACY_NANOSECONDS:
            if len(self._listed) >= _MOST_LISTED:
                self._listed.clear()
            self._listed[directory] = signature, names
        return names


def _iterate_prefixes(directory: bytes) -> Iterator[bytes]:
    """Yield the directories on the way to a directory, from the root to itself."""
    end = 0 if directory else -1
    yield b""
    while end >= 0:
        end = directory.find(b"/", end + 1)
        yield directory[:end] if end >= 0 else directory


def _probe_entries(directory: int) -> bool | None:
    """True if an entry of this directory is found in another spelling, too; None: it has no entry that could tell."""
    with os.scandir(directory) as entries:
        names = [os.fsencode(entry.name) for entry in islice(entries, _MOST_PROBED)]
    with_letters = next((name for name in names if name.swapcase() != name), None)
    beyond_ascii = next((name for name in names if not name.isascii() and list_respellings(name)), None)
    samples = [name for name in dict.fromkeys((with_letters, beyond_ascii)) if name is not None]
    if not samples:
        return None
    same = [name for name in samples if _is_any_same(b"", name, directory)]
    # Two hard links may have names that differ by case alone.
    return any(set(list_respellings(name)).isdisjoint(_list_entries(directory)) for name in same)
