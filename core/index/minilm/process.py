"""The process of the model, which costs a processor and 300 MB while it runs: nice to everything else on the machine.

It is sent lists of texts, a line each, and answers each with a line; it ends with its standard input, or when it is not
used for a while. Light: the engine reads the records and the command, the process itself the rest.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from core.errors import AgentTuiError
from core.index.builder_command import build_process_command
from core.records import decode_json

_NICENESS: Final = 10
_IDLE_SECONDS: Final = 300.0
_START: Final = "from core.index.minilm.process import main; main()"


class VectorRequest(Struct, frozen=True):
    texts: tuple[str, ...]


class VectorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vector of each text, in their order; or `problem`, why there are none."""

    vectors: tuple[tuple[float, ...], ...] = ()
    problem: str = ""


def build_model_command() -> list[str]:
    """Return the words that start the process."""
    return build_process_command(_START)


def main() -> None:
    """Answer requests until the standard input ends, or none has come for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        while select.select([sys.stdin], [], [], _IDLE_SECONDS)[0] and (line := sys.stdin.buffer.readline()):
            answer = _answer(decode_json(line, VectorRequest).texts)
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


def _answer(texts: Sequence[str]) -> VectorAnswer:
    from core.index.minilm.model import load_minilm

    try:
        return VectorAnswer(vectors=tuple(map(tuple, load_minilm().embed(texts))))
    except AgentTuiError as problem:
        return VectorAnswer(problem=problem.message)
    except Exception as problem:  # a foreign library: what it says is told, and the next request may do better
        return VectorAnswer(problem=f"{type(problem).__name__}: {problem}"[:500])
