"""`agent-tui permissions`: what the user has allowed and refused in a project, and whether it is trusted, as text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from core.cli.parsing import Arguments, Front, add_directory, build_parser, parse_directory
from core.config.loading import load_with_notices
from core.errors import ConfigError
from core.exits import ExitCode
from core.permissions.saved_rules import SavedRule, SavedRules
from core.permissions.trust import TrustStore
from core.text.display_names import display_name
from core.workspace import Workspace

PERMISSIONS_USAGE = "agent-tui permissions [DIR] [--remove ID | --remove all | --remove trust]"

PERMISSIONS_TEXT = """\
List whether DIR is trusted, the rules of your configuration, and what you
allowed or refused for good there, each with its id. --remove forgets one of
these, all of them, or that you trust the project."""


NO_BIRTH = "This file system keeps no time of birth: a directory made in its place, with the same words, passes for it."
NONE = "Nothing was allowed or refused for good here."


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsArguments(Arguments):
    """`remove`: what to forget: an id, `all`, or `trust`."""

    front: ClassVar[Front] = "permissions"
    remove: str = ""


def parse(argv: Sequence[str]) -> PermissionsArguments:
    """Check the words behind `agent-tui permissions`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui permissions", PERMISSIONS_USAGE, PERMISSIONS_TEXT)
    add_directory(parser)
    parser.add_argument("--remove", metavar="ID", help="an id, all, or trust")
    said = parser.parse_intermixed_args(argv)
    return PermissionsArguments(directory=parse_directory(said.words, parser), remove=said.remove or "")


def run(arguments: PermissionsArguments) -> int:
    """List what holds, or forget an answer, or withdraw trust. Returns the exit code."""
    root = Workspace(arguments.directory).root
    remembered, trust = SavedRules(root), TrustStore(root)
    if arguments.remove:
        return _remove(arguments.remove, remembered, trust)
    trusted = trust.is_given()
    sys.stdout.write(f"{display_name(str(root))}: {'trusted' if trusted else 'not trusted'}\n")
    if trusted and not trust.can_identify():
        sys.stdout.write(f"  {NO_BIRTH}\n")
    rules = load_with_notices(
        root if trusted else None, trust.load_files().is_trusted
    ).settings.permissions.parse_rules()
    for rule in rules:
        sys.stdout.write(f"  {rule.choice:<6}{display_name(str(rule))}   {display_name(rule.source)}\n")
    for kept in remembered.load():
        sys.stdout.write(f"  {line(kept)}   {kept.id}\n")
    if not rules and not remembered.load():
        sys.stdout.write(f"  {NONE}\n")
    return ExitCode.DONE


def line(kept: SavedRule) -> str:
    """One answer in words."""
    if kept.rule:
        return f"{kept.choice:<6}{display_name(kept.rule)}"
    where = "" if kept.directory == "." else f" in {display_name(kept.directory)}"
    return f"{kept.choice:<6}exactly {display_name(kept.shown)}{where}"


def _remove(what: str, remembered: SavedRules, trust: TrustStore) -> int:
    if what == "trust":
        trust.revoke()
        return ExitCode.DONE
    wanted = [kept.id for kept in remembered.load()] if what == "all" else [what]
    for identity in wanted:
        if not remembered.remove(identity):
            raise ConfigError(f"there is no answer {identity!r} here.", hint="agent-tui permissions lists them.")
    return ExitCode.DONE
