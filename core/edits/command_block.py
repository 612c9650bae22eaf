"""The one command of an answer: a single PowerShell block, else a single bash block."""

from __future__ import annotations

import re

from core.edits.candidates import EditError

_POWERSHELL = re.compile(r"```powershell\s*\n(.*?)\n```", re.DOTALL)
_BASH = re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL)


def command_of(content: str) -> str:
    """The command without the white space around it. Raises `EditError` unless there is exactly one."""
    found = _POWERSHELL.findall(content) or _BASH.findall(content)
    if len(found) != 1:
        raise EditError(
            f"There are {len(found)} command blocks in the answer; exactly one is needed.",
            hint="Write one ```bash block (```powershell on Windows) with one command.",
        )
    return str(found[0]).strip()
