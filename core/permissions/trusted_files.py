"""Trusted contents of a project's instructions: its configuration and its rules.

Trust in a project covers its present instructions, not later ones. So the digest of every file is checked when it is
read, over the very bytes that are then interpreted: an external change is not read until the user has approved it, too.
Changes that were accepted in the review need no further approval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

# Folders of a project whose extensions trust covers, and the kinds of extensions in them.
FOLDERS: Final = (".agent-tui", ".agents", ".cursor", ".claude", ".codex")
KINDS: Final = ("agents", "skills", "commands", "snippets", "plugins")
TrustCheck = Callable[[str, bytes], bool]
KnownDigests = Mapping[str, Sequence[str]]
MAX_DIGESTS = 16  # digests per file, so that switching between branches asks once per version


def trust_everything(_path: str, _data: bytes) -> bool:
    """Trust every content."""
    return True


def hash_content(data: bytes) -> str:
    """Return the SHA-256 in hex, which identifies contents in the review, too."""
    return hashlib.sha256(data).hexdigest()


class TrustedFiles:
    """The trusted contents in one project. `known_digests`: digests by path; None: all (one run with --trust, a demo).

    `untrusted`: digests of contents to ask about, by path. `save_digests` stores new digests; `on_untrusted` is called
    for every new untrusted content, in any thread.
    """

    def __init__(self, known_digests: KnownDigests | None, save_digests: Callable[[Mapping[str, str]], None]) -> None:
        self._known = (
            None if known_digests is None else {path: list(digests) for path, digests in known_digests.items()}
        )
        self._save_digests = save_digests
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
        self._save_digests(files)
        for path, digest in files.items():
            self._known[path] = append_digest(self._known.get(path, ()), digest)
            self._deferred.pop(path, None)
            if self.untrusted.get(path) == digest:
                del self.untrusted[path]

    def defer(self) -> None:
        """Do not ask about the untrusted contents again in this run, and leave them unread."""
        self._deferred |= self.untrusted
        self.untrusted = {}

    def accept_change(self, path: str, before: str, after: str) -> None:
        """Trust a change that was accepted in the review. `before`, `after`: digests, "" = no file.

        An untrusted file remains untrusted, since the review shows only the change.
        """
        if after and self._known is not None and (not before or before in self._known.get(path, ())):
            self.trust({path: after})


def append_digest(digests: Sequence[str], new: str) -> list[str]:
    """Return the digests with a new one, the latest last."""
    return [*(digest for digest in digests if digest != new), new][-MAX_DIGESTS:]
