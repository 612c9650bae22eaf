"""Trusted contents of a project's own instructions: its configuration and its rules (SAFETY I1).

A yes to a project is a yes to its present instructions, not to later ones. So each file is compared by its digest when
it is read, with the very bytes that are then interpreted: what was changed from outside is not read until the user has
said yes to it, too. What they accepted in the review they have seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

TrustCheck = Callable[[str, bytes], bool]
KnownDigests = Mapping[str, Sequence[str]]
MAX_DIGESTS = 16  # digests of one file: going back and forth between branches asks once for each


def trust_everything(_path: str, _data: bytes) -> bool:
    """Trust every content."""
    return True


def hash_content(data: bytes) -> str:
    """Return the SHA-256 in hex, as the review stores contents."""
    return hashlib.sha256(data).hexdigest()


class TrustedFiles:
    """The contents that are trusted in one project. `known_digests`: digests by path; None: all (one run with --trust,
    a demo).

    `untrusted` holds contents to be asked about: digest by path. `keep` saves new digests; `on_untrusted` is called
    when there is a new one, in any thread.
    """

    def __init__(self, known_digests: KnownDigests | None, keep: Callable[[Mapping[str, str]], None]) -> None:
        self._known = (
            None if known_digests is None else {path: list(digests) for path, digests in known_digests.items()}
        )
        self._keep = keep
        self._deferred: dict[str, str] = {}
        self.untrusted: dict[str, str] = {}
        self.on_untrusted: Callable[[], object] = bool

    def is_trusted(self, path: str, data: bytes) -> bool:
        """True if this content of a file may be interpreted."""
        if self._known is None:
            return True
        digest = hash_content(data)
        if digest in self._known.get(path, ()):
            self.untrusted.pop(path, None)
            return True
        if self._deferred.get(path) != digest and self.untrusted.get(path) != digest:
            self.untrusted[path] = digest
            self.on_untrusted()
        return False

    def is_known(self, path: str) -> bool:
        """True if some content of this file was trusted."""
        return self._known is not None and path in self._known

    def trust(self, files: Mapping[str, str]) -> None:
        """Trust these contents: digest by path. Raises `StateError`; then nothing has changed."""
        if self._known is None or not files:
            return
        self._keep(files)
        for path, digest in files.items():
            self._known[path] = append_digest(self._known.get(path, ()), digest)
            self._deferred.pop(path, None)
            if self.untrusted.get(path) == digest:
                del self.untrusted[path]

    def defer(self) -> None:
        """Leave the untrusted contents unread, and do not ask about them again in this run."""
        self._deferred |= self.untrusted
        self.untrusted = {}

    def accept_change(self, path: str, before: str, after: str) -> None:
        """Trust a change that was accepted in the review; digests, "" = no file.

        An untrusted file stays so: the review shows the change and not what was there before.
        """
        if after and self._known is not None and (not before or before in self._known.get(path, ())):
            self.trust({path: after})


def append_digest(digests: Sequence[str], new: str) -> list[str]:
    """Return the digests with a new one, the latest last."""
    return [*(digest for digest in digests if digest != new), new][-MAX_DIGESTS:]
