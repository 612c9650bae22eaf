"""Regular expressions that are compiled at their first use.

The engine's modules define about 460 patterns, and compiling all of them takes 60 ms, a twelfth of `agent-tui -p`; a
session uses a few dozen. Patterns of modules are therefore made here; a pattern made inside a function is used at once
and needs only `re.compile`.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class LazyPattern:
    """Stands for a compiled pattern. Its first attribute compiles it and copies all of its attributes to this object,
    so that later calls cost the same as those of the pattern itself."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        pattern = re.compile(self._source, self._flags)
        attributes = {attribute: getattr(pattern, attribute) for attribute in dir(pattern) if attribute[0] != "_"}
        self.__dict__.update(attributes)
        return getattr(pattern, name)


def compile_lazily(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use, which raises `re.error` if it is wrong. It has the methods
    of a compiled pattern, but functions of `re` don't take it as an argument."""
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))
