"""Imports: `@path` in the text of a rule brings that file, unless it stands in code.

Which words after an `@` are files is found out by looking: `@Injectable` and `@types/node` name none, and are words.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator

from core.config.rules.places import RulePlace
from core.errors import PathRefused
from core.text.fences import Fence, track_fence

MAX_HOPS = 4
MAX_IMPORTS = 30
NO_FILE = frozenset({"not_found", "not_a_file", "path_escapes"})
PROSE = (".md", ".mdc", ".mdx", ".txt", ".rst")
_REFERENCE = re.compile(r"(?<![\w@./`\\-])@(~?[\w.\-/][^\s`\"'<>|,;:()\[\]{}*]*)")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def find_references(text: str) -> Iterator[str]:
    """Iterate over the paths that a text imports, each once; what stands in code spans and fences is none."""
    seen_paths = set()
    for match in _REFERENCE.finditer(_CODE_SPAN.sub(" ", _blank_fences(text))):
        path = match[1].rstrip(".!?/")
        if path and path not in seen_paths and path not in {"~", "."}:
            seen_paths.add(path)
            yield path


def has_own_words(text: str) -> bool:
    """True if a text says more than what it imports."""
    lines = _REFERENCE.sub("", text).splitlines()
    return any(line.strip(" \t-*") and not line.startswith("#") for line in lines)


def _blank_fences(text: str) -> str:
    fence: Fence | None = None
    lines = []
    for line in text.split("\n"):
        was_open, fence = fence, track_fence(fence, line)
        lines.append("" if was_open is not None or fence is not None else line)
    return "\n".join(lines)


Accept = Callable[[str, bytes], str]


class ImportReader:
    """Reads what one rule file imports, and what that imports, each file once and at most four hops away.

    `accept` returns why bytes of a path may not be used, "" = they may. `problems` tell what was left out and why.
    """

    def __init__(self, rule_place: RulePlace, accept: Accept) -> None:
        self._place = rule_place
        self._accept = accept
        self._seen: set[str] = set()
        self.problems: list[str] = []

    def read(self, path: str, text: str, chain: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes, str]]:
        """Iterate over `(path, bytes, importer)`, in the order in which they are imported."""
        chain = (*chain, path)
        self._seen.add(path)
        for reference in find_references(text):
            if (source := self._find(reference, path)) is None:
                continue
            target, data = source
            if target in chain:
                self.problems.append(f"@{reference} in {self._place.show(path)} leads in a circle")
            elif target in self._seen:
                continue
            elif refusal := self._refuse(target, data, len(chain)):
                self._seen.add(target)
                self.problems.append(f"@{reference} not read: {refusal}")
            else:
                self._seen.add(target)
                yield target, data, path
                if target.endswith(PROSE):
                    yield from self.read(target, data.decode("utf-8", "replace"), chain)

    def _refuse(self, target: str, data: bytes, hops: int) -> str:
        if hops > MAX_HOPS:
            return f"it is more than {MAX_HOPS} imports away"
        if len(self._seen) > MAX_IMPORTS:
            return f"there are more than {MAX_IMPORTS} imports"
        return self._accept(self._place.show(target), data)

    def _find(self, reference: str, importer: str) -> tuple[str, bytes] | None:
        """Return what a reference names: from the importing file's folder, else from the top. None: no file."""
        refusal = ""
        for base in dict.fromkeys((posixpath.dirname(importer), "")):
            try:
                target = self._place.resolve(posixpath.join(base, reference))
                return target, self._place.read(target)
            except PathRefused as refused:
                if refused.code == "path_escapes" and _is_plainly_a_file(reference):
                    refusal = "refused: it leads out of the project"
                elif refused.code not in NO_FILE:
                    refusal = refusal or f"not read: {refused.message.rstrip('.')}"
        if refusal:
            self.problems.append(f"@{reference} {refusal}")
        elif reference.endswith(PROSE):
            self.problems.append(f"@{reference} does not exist")
        return None


def _is_plainly_a_file(reference: str) -> bool:
    """True if no word of code looks like this; `@/components` is how many projects spell their own modules."""
    return reference.endswith(PROSE) or reference.startswith(("../", "~/")) or os.path.lexists(reference)
