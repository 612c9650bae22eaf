"""The parsers of all command lines as one tree, for what is made of them: completion and the man page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final, cast

from core.cli.arguments import SUBCOMMANDS, build_main_parser
from core.cli.parsing import MODES, Parser, build_parser, describe_subcommand

# The first words of a subcommand that stand for themselves; argparse knows them as any words.
FIRST_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "attach": (),
    "agents": ("start", "list", "show", "attach", "message", "stop", "pull", "delete", "worker"),
    "box": ("run",),
    "commands": ("list", "explain"),
    "completion": ("bash", "zsh", "fish"),
    "hooks": ("list", "test"),
    "index": ("status", "build", "search", "clear"),
    "mcp": ("list", "add", "remove", "test", "login", "logout", "serve"),
    "sessions": ("list", "show", "search", "tree", "rename", "tag", "export", "delete"),
    "skills": ("list", "check"),
}
HIDDEN: Final = frozenset({"_complete"})


def build_parser_tree() -> Parser:
    """Build a parser of the whole command line, with a subparser for each subcommand."""
    root = build_main_parser()
    words = next(action for action in root._actions if action.dest == "words")
    root._remove_action(words)
    for group in root._action_groups:
        if words in group._group_actions:
            group._group_actions.remove(words)
    children = root.add_subparsers(metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name in sorted(SUBCOMMANDS - HIDDEN):
        _add_child(children, name, describe_subcommand(name))
    _add_child(children, "doctor", _build_doctor_parser())
    return root


def _build_doctor_parser() -> Parser:
    """Build the parser of the one command whose words stand in the main command line."""
    parser = build_parser("agent-tui doctor", "agent-tui doctor [DIR] [--probe]", "Show what was found here.")
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--probe", action="store_true", help="try every way of containing commands anew")
    return parser


def _add_child(children: Any, name: str, parser: Parser) -> None:
    """Add a parser that is made already. argparse makes those of its own only, so it is put in its place."""
    children.add_parser(name, help=(parser.description or "").strip().split(".")[0].split("\n\n")[0].replace("\n", " "))
    children.choices[name] = parser


def list_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """List the options of a parser that are shown to users."""
    return [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]


def iterate_parsers(root: Parser) -> dict[str, argparse.ArgumentParser]:
    """Return every parser of the tree by its subcommand, "" = the root."""
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {"": root, **cast("dict[str, argparse.ArgumentParser]", action.choices)}
    return {"": root}


__all__ = ["FIRST_WORDS", "MODES", "build_parser_tree", "iterate_parsers", "list_options"]
