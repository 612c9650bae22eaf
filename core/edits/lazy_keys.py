"""What a line of code is about: the name that it defines or the module that it imports, in any of the usual languages.

Two lines with one key at one depth are versions of one thing.
"""

from __future__ import annotations

import re
from typing import Final

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|async|final|override|readonly|"
    r"pub(?:\([^)]*\))?|unsafe|extern|const|virtual|inline|sealed|partial|declare|get|set)\s+)*"
)
_PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_MODIFIERS}(?:def|func|function\*?|fn|class|struct|interface|enum|trait|impl|module|namespace|type|object|protocol|"
        r"record|package|macro_rules!)\s+(?:\([^)]*\)\s*)?(?P<name>[\w$.:]+)",
        rf"{_MODIFIERS}(?:const|let|var|val|static|mut)\s+(?:mut\s+)?(?P<name>[\w$]+|\{{[^}}]*\}}|\[[^\]]*\])\s*[:=]",
        r"from\s+(?P<name>[\w.]+)\s+import\b",
        r"import\s+.*?\bfrom\s*(?P<name>['\"][^'\"]+['\"])",
        r"(?:import|use|using|#include|require|package)\s*\(?\s*(?P<name>[\w.:/<>'\"*-]+)",
        rf"{_MODIFIERS}(?:[\w<>\[\],.?*&]+\s+)*?(?P<name>[\w$~]+)\s*\([^;]*\)\s*"
        r"(?:->\s*[^{]+|:\s*[^{]+|throws\s+[\w, .]+|const)?\s*\{",
        r"(?P<name>[\w.$]+(?:\[[^\]]+\])?)\s*(?::\s*[\w\[\], .|]+)?\s*=(?!=|>)",
        r"(?P<name>\"[^\"]+\"|'[^']+'|[\w-]+)\s*:(?!:)",
        r"(?P<name>@[\w.]+(?:\([^)]*\))?)",
        r"(?P<name>#{1,6}\s.+)",
        r"(?P<name>[.#@]?[\w\[\]=\":>~+*, .#-]+)\s*\{$",
        r"(?P<name></?[\w-]+(?:\s+(?:id|name)=[\"'][^\"']*[\"'])?)",
        r"(?i:create|alter|drop|insert)\s+(?i:table|view|index|function|into)\s+(?P<name>[\w.\"`]+)",
    )
)
_STATEMENT = re.compile(r"(?:if|else|elif|for|while|switch|case|catch|return|try|finally|with|do|when|match|except)\b")


def key_of(line: str) -> str | None:
    """The name of what a line defines, or None."""
    text = line.strip()
    if not text or _STATEMENT.match(text):
        return None
    for number, pattern in enumerate(_PATTERNS):
        found = pattern.match(text)
        if found:
            kind = "definition" if number in (0, 5) else str(number)
            return f"{kind} {found['name'].strip()}"
    return None
