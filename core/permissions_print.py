"""`agent-tui permissions`: what the user has allowed and refused in a project, and whether it is trusted, as text."""

from __future__ import annotations

import sys

from core.cli import Options
from core.config import load_with_notices
from core.errors import ConfigError
from core.exits import ExitCode
from core.names import named
from core.permissions.remembered import Kept, Remembered
from core.permissions.trust import Trust
from core.workspace import Workspace

NO_BIRTH = "This file system keeps no time of birth: a directory made in its place, with the same words, passes for it."
NONE = "Nothing was allowed or refused for good here."


def permissions(options: Options) -> int:
    """List what holds, or forget an answer, or withdraw trust. Returns the exit code."""
    root = Workspace(options.directory).root
    remembered, trust = Remembered(root), Trust(root)
    if options.remove:
        return _remove(options.remove, remembered, trust)
    trusted = trust.given()
    sys.stdout.write(f"{named(str(root))}: {'trusted' if trusted else 'not trusted'}\n")
    if trusted and not trust.sees_birth():
        sys.stdout.write(f"  {NO_BIRTH}\n")
    rules = load_with_notices(root if trusted else None, trust.voices().hears).settings.permissions.rules()
    for rule in rules:
        sys.stdout.write(f"  {rule.choice:<6}{named(str(rule))}   {named(rule.source)}\n")
    for kept in remembered.all():
        sys.stdout.write(f"  {line(kept)}   {kept.id}\n")
    if not rules and not remembered.all():
        sys.stdout.write(f"  {NONE}\n")
    return ExitCode.DONE


def line(kept: Kept) -> str:
    """One answer in words."""
    if kept.rule:
        return f"{kept.choice:<6}{named(kept.rule)}"
    where = "" if kept.directory == "." else f" in {named(kept.directory)}"
    return f"{kept.choice:<6}exactly {named(kept.shown)}{where}"


def _remove(what: str, remembered: Remembered, trust: Trust) -> int:
    """`trust`, `all`, or an id."""
    if what == "trust":
        trust.withdraw()
        return ExitCode.DONE
    wanted = [kept.id for kept in remembered.all()] if what == "all" else [what]
    for identity in wanted:
        if not remembered.remove(identity):
            raise ConfigError(f"there is no answer {identity!r} here.", hint="agent-tui permissions lists them.")
    return ExitCode.DONE
