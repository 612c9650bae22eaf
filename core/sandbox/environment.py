"""The environment of commands: an allow-list, so that keys and the like never reach them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from core.search_paths import restore_user_paths

PASSED_ON = (
    *("HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
)
FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "NO_COLOR": "1",
}
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SECRET_VALUE = re.compile(r"\b(?:sk-[A-Za-z0-9_-]{12}|gh[pousr]_[A-Za-z0-9]{20}|AKIA[A-Z0-9]{16}|xox[baprs]-)")


def build_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `source` that a command may see, with the absolute directories of the user's own
    PATH: in a box it may lead into the project."""
    source = restore_user_paths(source)
    allowed_variables = {name: value for name, value in source.items() if name in PASSED_ON or name.startswith("LC_")}
    safe = {name: value for name, value in allowed_variables.items() if not _SECRET_VALUE.search(value)}
    entries = [entry for entry in source.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    return safe | FIXED | {"PATH": os.pathsep.join(entries) or SYSTEM_PATH}
