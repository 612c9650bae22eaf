"""Vectors of texts as bytes, the search among them, and the built-in model that computes them, in plain Python.

A packed vector is a float32 scale and one int8 per dimension; its length was 1 before it was rounded. Two ideas make
this fast enough without numpy, which is 57 MB to install:

- Python's integers are wide registers. A row of the word table is one integer with a lane of 64 bits for each
  dimension, so that the weighted sum of rows takes one multiplication and one addition per word.
- The signs of a vector are a bit per dimension, so eight of them are a byte. What a question has in common with these
  signs is a sum of table lookups, one per byte (product quantization: Jégou, Douze and Schmid, 2011), and
  `bytes.translate` looks up a column of all vectors at once. Only the nearest few hundred by that guess are compared
  exactly: of the 50 nearest of 39,000 texts, 97 % are among them. A question takes 16 ms of the processor there.

The built-in model has a vector for each of 48,000 words, and a text is their sum; it needs no network and no runtime.
`words256.npy` (int8 rows with a float16 scale each) and `words256.txt` (the words) were trained on docstrings and the
functions below them, starting from the word vectors of MiniLM (Apache-2.0).
"""

from __future__ import annotations

import math
import mmap
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import Final

from core.index.words import MAX_WORD, split_identifier, stem
from core.patterns import compile_lazily

_SCALE: Final = struct.Struct("<f")
_WEIGHT: Final = struct.Struct("<e")
_WEIGHT_UNITS: Final = 1 << 20
"""Weights of the table in these parts of one are whole numbers of at most 13 bits."""

_LANE_BYTES: Final = 8
_CACHED_ROWS: Final = 2_048
_FEWEST_CANDIDATES: Final = 600
_CANDIDATES_PER_MATCH: Final = 12
_BITS: Final = 8
_UNSIGNED: Final = bytes((value + 128) % 256 for value in range(256))
"""Translates an int8 to the byte that is greater by 128, and back."""

_SIGNS: Final = bytes(ord("1") if value < 128 else ord("0") for value in range(256))
"""Translates an int8 to the binary digit of its sign."""
STATIC_MODEL: Final = "words256"
_FOLDER: Final = Path(__file__).parent
_IDENTIFIER = compile_lazily(r"[^\W\d]\w*")


class WordTable:
    """Rows of a static model, by number, from a `.npy` file that is mapped into memory: only pages in use are read.

    A record of the file is a float16 weight and an int8 for each of `dimensions`.
    """

    def __init__(self, path: Path, dimensions: int = 256) -> None:
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._start = 10 + int.from_bytes(self._data[8:10], "little")  # where the header of NPY's version 1 ends
        self._record_bytes = _WEIGHT.size + dimensions
        self._lane_bytes = dimensions * _LANE_BYTES
        self._load_row = lru_cache(_CACHED_ROWS)(self._read_row)

    def sum_rows(self, rows: Sequence[int]) -> bytes:
        """Return the packed vector of the sum of some rows; b"" for none."""
        lanes = total_weight = 0
        for number, count in Counter(rows).items():
            weight, row = self._load_row(number)
            total_weight += weight * count
            lanes += row * (weight * count)
        if not lanes:
            return b""
        excess = total_weight * 128
        sums = memoryview(lanes.to_bytes(self._lane_bytes, "little")).cast("Q").tolist()
        return pack_vector([value - excess for value in sums])

    def _read_row(self, number: int) -> tuple[int, int]:
        """Return the weight of a row, and the row as one integer of lanes, 128 more in each than its value."""
        start = self._start + number * self._record_bytes
        record = self._data[start : start + self._record_bytes]
        lanes = bytearray(self._lane_bytes)
        lanes[::_LANE_BYTES] = record[_WEIGHT.size :].translate(_UNSIGNED)
        return round(_WEIGHT.unpack_from(record)[0] * _WEIGHT_UNITS), int.from_bytes(lanes, "little")


def pack_vector(values: Sequence[float]) -> bytes:
    """Return a vector of any length as the bytes that are stored; b"" for one without a direction."""
    length = math.hypot(*values)
    if not length or not math.isfinite(length):
        return b""
    longest = max(*values, -min(values))
    factor = 127 / longest
    numbers = bytes([int(value * factor + 128.5) for value in values])
    return _SCALE.pack(longest / length / 127) + numbers.translate(_UNSIGNED)


def compare_vectors(one: bytes, other: bytes) -> float:
    """Return the cosine of two packed vectors, 0 if there is none."""
    if not one or len(one) != len(other):
        return 0.0
    first, second = _read_values(one), _read_values(other)
    length = math.sqrt(sum(map(mul, first, first)) * sum(map(mul, second, second)))
    return round(sum(map(mul, first, second)) / length, 5) if length else 0.0


def _read_values(vector: bytes) -> list[int]:
    return memoryview(vector)[_SCALE.size :].cast("b").tolist()


class VectorMatrix:
    """The vectors of one model over the chunks of an index, kept from question to question; for one thread at a time.

    `last` is the newest chunk that was offered.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.last = 0
        self._ids = array("q")
        self._scales = array("f")
        self._rows = bytearray()
        self._signs = bytearray()
        self._dimensions = 0

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Add vectors of chunks; one of another size than the first, or of none, is left out."""
        for chunk, vector in vectors:
            dimensions = len(vector) - _SCALE.size
            if dimensions > 0 and dimensions == (self._dimensions or dimensions):
                self._dimensions = dimensions
                self._ids.append(chunk)
                self._scales.append(_SCALE.unpack_from(vector)[0])
                self._rows += vector[_SCALE.size :]
                self._signs += _read_signs(vector)

    def retain(self, chunks: Sequence[int]) -> None:
        """Drop all chunks but these."""
        retained_chunks = set(chunks)
        indices = [index for index, chunk in enumerate(self._ids) if chunk in retained_chunks]
        if len(indices) < len(self._ids):
            self._ids = array("q", [self._ids[index] for index in indices])
            self._scales = array("f", [self._scales[index] for index in indices])
            self._rows = _select_records(self._rows, indices, self._dimensions)
            self._signs = _select_records(self._signs, indices, _count_bytes(self._dimensions))

    def find_nearest(self, vector: bytes, count: int, among: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Return the chunks nearest to a packed vector, with their cosines, nearest first; equals by id. `among`: those
        that may be returned, None = all."""
        if not self._ids or len(vector) != self._dimensions + _SCALE.size:
            return []
        query = _read_values(vector)
        length = math.sqrt(sum(map(mul, query, query))) or 1.0
        size, matches = self._dimensions, []
        with memoryview(self._rows).cast("b") as rows:
            for index in self._guess_nearest(query, count, among):
                product = sum(map(mul, query, rows[index * size : (index + 1) * size]))
                matches.append((self._ids[index], round(product * self._scales[index] / length, 5)))
        return sorted(matches, key=lambda match: (-match[1], match[0]))[:count]

    def _guess_nearest(self, query: Sequence[int], count: int, among: Sequence[int] | None) -> Sequence[int]:
        """Return the indices of the vectors that may be among the `count` nearest; all of them if they are few."""
        indices: Sequence[int] = range(len(self._ids))
        if among is not None:
            allowed_chunks = set(among)
            indices = [index for index, chunk in enumerate(self._ids) if chunk in allowed_chunks]
        limit = max(_FEWEST_CANDIDATES, count * _CANDIDATES_PER_MATCH)
        if len(indices) <= limit:
            return indices
        scores = self._score_signs(query)
        if among is not None:
            scores = [scores[index] for index in indices]
        least = sorted(scores)[-limit]
        return [index for index, score in zip(indices, scores, strict=True) if score >= least]

    def _score_signs(self, query: Sequence[int]) -> list[int]:
        """Return for every vector how much its signs have in common with a question, in some unit."""
        width = _count_bytes(self._dimensions)
        total, wide = 0, bytearray(2 * len(self._ids))
        for column, table in enumerate(_build_tables(query)):
            wide[::2] = self._signs[column::width].translate(table)
            total += int.from_bytes(wide, "little")
        return memoryview(total.to_bytes(len(wide), "little")).cast("H").tolist()


def _build_tables(query: Sequence[int]) -> Iterable[bytes]:
    """Yield for every eight dimensions what each byte of signs has in common with the question, from 0 to 255."""
    values = [*query, *[0] * (-len(query) % _BITS)]
    groups = [values[start : start + _BITS] for start in range(0, len(values), _BITS)]
    unit = 255 / (max(sum(map(abs, group)) for group in groups) or 1)
    for group in groups:
        sums = [0]  # of the dimensions whose signs agree; the first of a group is the highest bit
        for value in reversed(group):
            sums = [a + max(-value, 0) for a in sums] + [a + max(value, 0) for a in sums]
        yield bytes([int(value * unit) for value in sums])


def _read_signs(vector: bytes) -> bytes:
    """Return the signs of a packed vector, eight to a byte."""
    digits = vector[_SCALE.size :].translate(_SIGNS)
    digits += b"0" * (-len(digits) % _BITS)
    return int(digits, 2).to_bytes(len(digits) // _BITS, "big")


def _count_bytes(dimensions: int) -> int:
    return -(-dimensions // _BITS)


def _select_records(records: bytearray, indices: Iterable[int], size: int) -> bytearray:
    return bytearray().join(records[index * size : (index + 1) * size] for index in indices)


class StaticModel:
    """The words of the model and their rows. Loading takes some 10 ms; the memory is mapped."""

    def __init__(self) -> None:
        words = (_FOLDER / f"{STATIC_MODEL}.txt").read_text(encoding="utf-8").split("\n")
        self._numbers = {word: number for number, word in enumerate(words) if word}
        self._table = WordTable(_FOLDER / f"{STATIC_MODEL}.npy")
        self._find_rows = lru_cache(maxsize=1 << 16)(self._list_rows)

    def embed(self, text: str) -> bytes:
        """Return the packed vector of a text; b"" if it has no known word."""
        rows: list[int] = []
        for identifier in _IDENTIFIER.findall(text):
            rows += self._find_rows(identifier)
        return self._table.sum_rows(rows)

    def _list_rows(self, identifier: str) -> tuple[int, ...]:
        if len(identifier) > MAX_WORD:
            return ()
        row_numbers = (self._find_row(word) for word in split_identifier(identifier))
        return tuple(number for number in row_numbers if number is not None)

    def _find_row(self, word: str) -> int | None:
        """Return the row of a word or of its base form."""
        if (number := self._numbers.get(word)) is not None:
            return number
        base = stem(word)
        return next((self._numbers[form] for form in (base, base + "e") if form in self._numbers), None)


@lru_cache(maxsize=1)
def load_static_model() -> StaticModel:
    """Return the model, cached per process."""
    return StaticModel()


def embed_texts(texts: Sequence[str]) -> list[bytes]:
    """Return the packed vectors of texts, b"" where there is none; some 3,500 texts per second and core."""
    model = load_static_model()
    return [model.embed(text) for text in texts]
