"""`agent-tui permissions`: list what the user allowed and refused in a project, and check its audit logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.config.loading import load_with_notices
from core.errors import ConfigError
from core.exits import ExitCode
from core.permissions.audit import FILE_NAME, find_log_fault
from core.permissions.foreign_rules import ForeignPermissions
from core.permissions.saved_rules import SavedRule, SavedRules
from core.permissions.trust import TrustStore
from core.sessions.store import SessionStore
from core.text.display_names import display_name
from core.workspace import Workspace

PERMISSIONS_USAGE = "agent-tui permissions [DIR] [--remove ID | --remove all | --remove trust | --verify]"

PERMISSIONS_TEXT = """\
Show whether DIR is trusted, your configured rules, and what you always allow or
deny there, each with its ID. --remove deletes one of these, all of them, or the
trust in the project. --verify checks the audit logs of its sessions and exits
with 1 if a line was changed, removed or inserted."""


NO_BIRTH = (
    "This file system stores no creation times: another directory created at the same path with "
    "the same content would count as trusted."
)
NONE = "Nothing is always allowed or denied here."
NO_LOGS = "No session here has an audit log."


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsArguments(Arguments):
    """`remove`: the answer to forget: an id, `all`, or `trust`. `is_verifying`: the audit logs are checked instead."""

    front: ClassVar[Front] = "permissions"
    remove: str = ""
    is_verifying: bool = False


def parse(argv: Sequence[str]) -> PermissionsArguments:
    """Parse the arguments of `agent-tui permissions`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui permissions", PERMISSIONS_USAGE, PERMISSIONS_TEXT)
    add_directory(parser)
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--remove", metavar="ID", help="delete the entry with this ID, all entries, or the trust")
    actions.add_argument("--verify", action="store_true", help="check the audit logs of the sessions")
    args = parser.parse_intermixed_args(argv)
    directory = parse_directory(args.words, parser)
    return PermissionsArguments(directory=directory, remove=args.remove or "", is_verifying=args.verify)


def run(arguments: PermissionsArguments) -> int:
    """List the rules in force, forget an answer, withdraw trust, or check the audit logs. Returns the exit code."""
    root = Workspace(arguments.directory).root
    if arguments.is_verifying:
        return _verify_logs(root)
    saved_rules, trust = SavedRules(root), TrustStore(root)
    if arguments.remove:
        return _remove(arguments.remove, saved_rules, trust)
    is_trusted = trust.has_trust()
    sys.stdout.write(f"{display_name(str(root))}: {'trusted' if is_trusted else 'not trusted'}\n")
    if is_trusted and not trust.can_identify():
        sys.stdout.write(f"  {NO_BIRTH}\n")
    rules = load_with_notices(
        root if is_trusted else None, trust.load_files().is_trusted
    ).settings.permissions.parse_rules()
    rules = (*rules, *ForeignPermissions(root).load(is_trusted=is_trusted))
    for rule in rules:
        sys.stdout.write(f"  {rule.choice:<6}{display_name(str(rule))}   {display_name(rule.source)}\n")
    for saved_rule in saved_rules.load():
        sys.stdout.write(f"  {format_answer(saved_rule)}   {saved_rule.id}\n")
    if not rules and not saved_rules.load():
        sys.stdout.write(f"  {NONE}\n")
    return ExitCode.DONE


def format_answer(saved_rule: SavedRule) -> str:
    """Format one saved answer."""
    if saved_rule.rule:
        return f"{saved_rule.choice:<6}{display_name(saved_rule.rule)}"
    location = "" if saved_rule.directory == "." else f" in {display_name(saved_rule.directory)}"
    return f"{saved_rule.choice:<6}exactly {display_name(saved_rule.shown)}{location}"


def _verify_logs(root: Path) -> int:
    """Check the audit log of every session that has one."""
    logs = [path for directory in SessionStore(root).list_directories() if (path := directory / FILE_NAME).exists()]
    faults = {path.parent.name: find_log_fault(path) for path in logs}
    for session, fault in faults.items():
        sys.stdout.write(f"{session}  {'intact' if fault is None else fault}\n")
    if not faults:
        sys.stdout.write(f"{NO_LOGS}\n")
    return ExitCode.DONE if set(faults.values()) <= {None} else ExitCode.FAILED


def _remove(target: str, saved_rules: SavedRules, trust: TrustStore) -> int:
    if target == "trust":
        trust.revoke()
        return ExitCode.DONE
    rule_ids = [saved_rule.id for saved_rule in saved_rules.load()] if target == "all" else [target]
    for identity in rule_ids:
        if not saved_rules.remove(identity):
            raise ConfigError(f"there is no permission {identity!r} here.", hint="agent-tui permissions lists them.")
    return ExitCode.DONE
