"""Which bytes of a project's own words the user has trusted: its configuration and its rules (SAFETY I1).

A yes to a project is a yes to what it says, not to whatever it may say one day. So each file that speaks is compared by
its digest when it is read, through the very bytes that are then interpreted: what was changed from outside is not
heard until the user has said yes to it, too. What they accepted in the review they have seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

Hears = Callable[[str, bytes], bool]
Known = Mapping[str, Sequence[str]]
KEPT = 16  # digests of one file: going back and forth between branches asks once for each


def everything(_path: str, _data: bytes) -> bool:
    """Hear all that is said."""
    return True


def digest(data: bytes) -> str:
    """SHA-256 in hex, as the review keeps its contents."""
    return hashlib.sha256(data).hexdigest()


class Voices:
    """`known`: the digests of each file that were trusted; None: every word is (one run with --trust, a demo).

    `refused` holds what was not heard and is to be asked about: path and digest. `keep` stores new digests;
    `tell` is called when something is refused that was not before, in any thread.
    """

    def __init__(self, known: Known | None, keep: Callable[[Mapping[str, str]], None]) -> None:
        self._known = None if known is None else {path: list(digests) for path, digests in known.items()}
        self._keep = keep
        self._put_off: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.tell: Callable[[], object] = _nobody

    def hears(self, path: str, data: bytes) -> bool:
        """Whether these bytes of a file may be interpreted."""
        if self._known is None:
            return True
        said = digest(data)
        if said in self._known.get(path, ()):
            self.refused.pop(path, None)
            return True
        if self._put_off.get(path) != said and self.refused.get(path) != said:
            self.refused[path] = said
            self.tell()
        return False

    def trust(self, files: Mapping[str, str]) -> None:
        """The user has said yes to these bytes. Raises `StateError`; then nothing has changed."""
        if self._known is None or not files:
            return
        self._keep(files)
        for path, said in files.items():
            self._known[path] = kept(self._known.get(path, ()), said)
            self._put_off.pop(path, None)
            if self.refused.get(path) == said:
                del self.refused[path]

    def put_off(self) -> None:
        """The user has said not now: what was refused stays unheard, and is not asked about again in this run."""
        self._put_off |= self.refused
        self.refused = {}

    def accepted(self, path: str, before: str, after: str) -> None:
        """The user accepted a change of a file in the review; digests, "" = no file. Words that stood there unheard
        stay unheard: the review shows what changes and not what was there before."""
        if after and self._known is not None and (not before or before in self._known.get(path, ())):
            self.trust({path: after})


def kept(digests: Sequence[str], new: str) -> list[str]:
    """The digests with a new one, the latest last."""
    return [*(each for each in digests if each != new), new][-KEPT:]


def _nobody() -> None:
    """Nobody wants to know."""
