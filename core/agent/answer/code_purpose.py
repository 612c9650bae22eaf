"""The purpose of a block of code in an answer: new code, an example, or a suggestion.

Nothing says it outright, so it is told from what the block is: a block that names its file is new code if there is no
such file yet, and else suggests a change of it; a command or a patch suggests what to do; code that defines something
is new where code is written, and explains where questions are answered; all the rest is an example.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from core.protocol.events import ModeName

CodePurpose = Literal["new_code", "example", "suggestion"]

_TO_DO: Final = frozenset(
    {
        "bash",
        "bat",
        "cmd",
        "console",
        "diff",
        "fish",
        "patch",
        "powershell",
        "ps1",
        "sh",
        "shell",
        "shellsession",
        "zsh",
    }
)
_DATA: Final = frozenset({"", "csv", "log", "output", "plain", "plaintext", "text", "txt"})
# `title="a/b.py"`, `file=a.py`, `filename: a.py`, or the path alone behind the language.
_NAMED: Final = re.compile(r"""(?:\b(?:title|file|filename|path)\s*[=:]\s*)["']?(?P<path>[^"'\s}]+)""")
_PATH: Final = re.compile(r"(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.\w{1,10}")
_IN_COMMENT: Final = re.compile(
    r"\s*(?:#|//|--|;|/\*|<!--)\s*(?:file:\s*)?(?P<path>\S+?)\s*(?:\*/|-->)?\s*", re.IGNORECASE
)
_DEFINITION: Final = re.compile(
    r"^(?:export\s+|default\s+|pub(?:lic)?(?:\(\w+\))?\s+|private\s+|static\s+|abstract\s+|async\s+)*"
    r"(?:class|def|enum|fn|func|function|impl|interface|module|namespace|object|record|struct|trait|type)\s+\w",
    re.MULTILINE,
)


class CodeContext(Struct, frozen=True):
    """The situation in which blocks of code are written: the mode, and whether a path of the project is a file."""

    mode: ModeName = "agent"
    has_file: Callable[[str], bool] = bool


def guess_purpose(info: str, language: str, content: str, context: CodeContext) -> CodePurpose:
    """Guess the purpose of a block from its fence's `info` and `language`, its code, and where it is written."""
    language = language.lower()
    if path := _find_named_path(info, language, content):
        return "suggestion" if context.has_file(path) else "new_code"
    if language in _TO_DO:
        return "suggestion"
    if language not in _DATA and _DEFINITION.search(content):
        return {"ask": "example", "plan": "suggestion"}.get(context.mode, "new_code")  # type: ignore[return-value]
    return "example"


def _find_named_path(info: str, language: str, content: str) -> str:
    """Return the path that the fence or the first line of the code names as the block's own, "" = none."""
    if match := _NAMED.search(info):
        return match["path"]
    behind = info[len(language) :].strip(" :{}\t")
    if behind and (_PATH.fullmatch(behind)):
        return behind
    if "/" in info and _PATH.fullmatch(info.strip()):
        return info.strip()
    first = _IN_COMMENT.fullmatch(content.partition("\n")[0])
    return first["path"] if first and _PATH.fullmatch(first["path"]) else ""
