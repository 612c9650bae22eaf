"""The rows of a file in the index: read, split into chunks and words in the builder or a chunker."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import suppress
from typing import Final

from msgspec import Struct

from core.filesystem.open_beneath import open_beneath
from core.index.chunks import Chunk, cut_file, split_source
from core.index.walk import MAX_BYTES, ProjectFile, is_indexed
from core.index.words import split_words
from core.languages import detect_language
from core.notebooks.rendering import find_notebook_text
from core.syntax.symbols import Symbol
from core.workspace.file_names import to_os_name
from core.workspace.path_status import READ_FLAGS, read_all

HASH_BYTES: Final = 16
_MAX_WORDS_TEXT: Final = 16_000
"""Characters of a chunk that are split into words; only a single long line has more."""

_MAX_LINE: Final = 5_000
_MAX_SIGNATURE: Final = 160
_MAX_READS: Final = 3
_RACY_NS: Final = 50_000_000
"""Nanoseconds in which two changes may get the same timestamp; a file this young is read again."""

UNSETTLED: Final = 0
"""The change time of a file that may have changed during the read."""

MISSING: Final = -1
"""The change time of a missing file."""


class ChunkRow(Struct, array_like=True, frozen=True):
    """A row of `chunks`, with the words of its text and its symbols."""

    start: int
    end: int
    symbol: str
    kind: str
    defines: str
    text_hash: bytes
    part: int
    body_words: str
    symbol_words: str


class SymbolRow(Struct, array_like=True, frozen=True):
    """A row of `symbols`: lines are 1-indexed, inclusive; `signature` is the line that holds the name."""

    name: str
    qualified: str
    start: int
    end: int
    kind: str
    signature: str


class FileRows(Struct, array_like=True, frozen=True):
    """All rows of a file. `hash` b"": its text is not indexed."""

    path: str
    changed: int
    size: int
    hash: bytes
    language: str
    path_words: str = ""
    chunks: list[ChunkRow] = []
    symbols: list[SymbolRow] = []


def read_rows(top: int, file: ProjectFile) -> FileRows:
    """Return the rows of a file below the directory descriptor `top`; never raises for any kind or content of it."""
    if not is_indexed(file.path, file.size):
        return _describe_bare(file.path, file.changed, file.size)
    try:
        data, change_time = _read_settled(top, file.path)
    except (FileNotFoundError, NotADirectoryError):
        return _describe_bare(file.path, MISSING, 0)
    except OSError:
        return describe_unread(file)
    text = decode_source(file.path, data)
    if text is None:
        return _describe_bare(file.path, change_time, len(data))
    try:
        return build_rows(file.path, change_time, data, text)
    except Exception:  # a fault of a grammar: the file is indexed by its name alone
        return describe_unread(file)


def describe_unread(file: ProjectFile) -> FileRows:
    """Return the rows of an unreadable file: its name."""
    return _describe_bare(file.path, UNSETTLED, file.size)


def _describe_bare(path: str, change_time: int, size: int) -> FileRows:
    return FileRows(path, change_time, size, b"", detect_language(path))


def build_rows(path: str, change_time: int, data: bytes, text: str) -> FileRows:
    """Return the rows of a given text."""
    cut = cut_file(path, text)
    return FileRows(
        path,
        change_time,
        len(data),
        hash_bytes(data),
        detect_language(path),
        " ".join(split_words(path)),
        [_build_chunk_row(chunk) for chunk in cut.chunks],
        [_build_symbol_row(symbol, cut.lines) for symbol in cut.symbols],
    )


def read_lines(top: int, path: str) -> list[str]:
    """Return the current lines of a file without endings; [] if it can't be read."""
    try:
        text = decode_source(path, _read_settled(top, path)[0])
    except OSError:
        return []
    return split_source(text) if text is not None else []


def hash_bytes(data: bytes) -> bytes:
    """Return the hash that identifies the content of a file."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def hash_text(text: str) -> bytes:
    """Return the hash that identifies the text of a chunk in any file."""
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def decode_source(path: str, data: bytes) -> str | None:
    """Return the text of a file with invalid UTF-8 as U+FFFD, None if it is binary or machine-made; of a notebook, the
    text of its cells."""
    if (notebook := find_notebook_text(path, data, has_outputs=False)) is not None:
        return notebook
    if len(data) > MAX_BYTES or b"\0" in data[:8_192]:
        return None
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if "\0" in text:
        return None
    longest = max(map(len, text.split("\n"))) if len(text) > _MAX_LINE else 0
    return None if longest > _MAX_LINE and _is_dense(text) else text


def _is_dense(text: str) -> bool:
    """True if most of a text is in lines too long for a human reader."""
    return sum(len(line) for line in text.split("\n") if len(line) > _MAX_LINE) * 2 > len(text)


def _read_settled(top: int, path: str) -> tuple[bytes, int]:
    """Return the content of a regular file and its change time, `UNSETTLED` if it may have changed since. Raises
    OSError."""
    descriptor = open_beneath(top, to_os_name(path), READ_FLAGS)
    try:
        for _ in range(_MAX_READS):
            before = os.fstat(descriptor)
            if not is_indexed(path, before.st_size):  # it has grown since the walk
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = read_all(descriptor, before.st_size + 1)
            after = os.fstat(descriptor)
            if (before.st_ctime_ns, before.st_size) == (after.st_ctime_ns, after.st_size) and len(
                data
            ) == after.st_size:
                young = abs(time.time_ns() - after.st_ctime_ns) < _RACY_NS
                return data, UNSETTLED if young else after.st_ctime_ns
        return data, UNSETTLED
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _build_chunk_row(chunk: Chunk) -> ChunkRow:
    return ChunkRow(
        chunk.start,
        chunk.end,
        chunk.symbol,
        chunk.kind,
        " ".join(chunk.defines),
        hash_text(chunk.text),
        chunk.part,
        " ".join(split_words(chunk.text[:_MAX_WORDS_TEXT])),
        " ".join(split_words(f"{chunk.symbol} {' '.join(chunk.defines)}")),
    )


def _build_symbol_row(symbol: Symbol, lines: list[str]) -> SymbolRow:
    """Return a symbol with its first line that holds the name, below decorators and comments."""
    name_line = next(
        (line for line in lines[symbol.first : symbol.last + 1] if symbol.name in line), lines[symbol.first]
    )
    signature = name_line.strip()[:_MAX_SIGNATURE]
    return SymbolRow(symbol.name, symbol.qualified, symbol.first + 1, symbol.last + 1, symbol.kind, signature)
