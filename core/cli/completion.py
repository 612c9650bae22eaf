"""`agent-tui completion SHELL`: the script that completes our command lines in bash, zsh or fish.

shtab generates the scripts from one tree of the parsers of all command lines; the man page is made from it, too. A
script needs no Python while one types, except for what only this machine knows (sessions, models, servers): it asks
`agent-tui _complete` for that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from core.arguments import Arguments, Front
from core.cli.arguments import SUBCOMMANDS, build_doctor_parser, build_main_parser
from core.cli.parsing import MODES, Parser, build_parser, describe_subcommand
from core.exits import ExitCode

# The fixed first words of subcommands, which argparse sees as free words.
FIRST_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "attach": (),
    "agents": ("start", "list", "show", "attach", "message", "stop", "pull", "push", "delete", "worker"),
    "box": ("run",),
    "commands": ("list", "explain"),
    "completion": ("bash", "zsh", "fish"),
    "hooks": ("list", "test"),
    "index": ("status", "build", "search", "clear"),
    "mcp": ("list", "add", "remove", "test", "fetch", "login", "logout", "serve"),
    "sessions": ("list", "show", "search", "tree", "rename", "tag", "export", "delete"),
    "skills": ("list", "check"),
}
HIDDEN: Final = frozenset({"_complete"})
SHELLS: Final = FIRST_WORDS["completion"]
COMPLETION_USAGE: Final = "agent-tui completion bash | zsh | fish"
COMPLETION_TEXT: Final = """\
Print a script that completes the command lines of agent-tui.

  bash   agent-tui completion bash > \\
           ~/.local/share/bash-completion/completions/agent-tui
  zsh    agent-tui completion zsh > DIR/_agent-tui, DIR being one of $fpath
  fish   agent-tui completion fish > \\
           ~/.config/fish/completions/agent-tui.fish"""
_DIRECTORIES: Final = frozenset({"DIR"})
_ASKED_FOR: Final = {"model": "models", "resume": "session_ids"}  # by the `dest` of the option
_ZSH_ASK: Final = """\
_agent_tui_ask() {
  local -a found
  found=(${(f)"$(agent-tui _complete "${@[-1]}" 2>/dev/null)"})
  compadd "${@[1,-2]}" -a found
}"""
_FILES: Final = frozenset({"FILE", "PATH", "INPUT.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionArguments(Arguments):
    front: ClassVar[Front] = "completion"
    shell: str


def parse(argv: Sequence[str]) -> CompletionArguments:
    """Parse the arguments of `agent-tui completion`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui completion", COMPLETION_USAGE, COMPLETION_TEXT)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return CompletionArguments(directory=Path(), shell=parser.parse_args(argv).shell)


def run(arguments: CompletionArguments) -> int:
    """Print the script."""
    sys.stdout.write(f"{build_script(arguments.shell)}\n")
    return ExitCode.DONE


def build_script(shell: str) -> str:
    """Build the completion script of a shell."""
    import shtab

    root = build_parser_tree()
    for name, parser in iterate_parsers(root).items():
        for action in parser._actions:
            if (completion := _choose_completion(name, action)) is not None:
                action.complete = completion  # type: ignore[attr-defined]  # shtab's interface
    script: str = shtab.complete(root, shell=shell, preamble=_build_preamble()[shell])
    # Fall back to directories and files where there are no candidates.
    return script.replace("complete -o bashdefault -F", "complete -o bashdefault -o default -F")


def _ask_for(kind: str) -> dict[str, str]:
    """Return the completion by which every shell asks `_complete` for candidates at the time they are needed."""
    fish = f"(agent-tui _complete {kind} 2>/dev/null)"
    return {"bash": f"_agent_tui_ask_{kind}", "zsh": f"_agent_tui_ask {kind}", "fish": fish}


def _build_preamble() -> dict[str, str]:
    kinds = (*FIRST_WORDS, *_ASKED_FOR.values())
    ask = "agent-tui _complete {} 2>/dev/null"
    bash = [f'_agent_tui_ask_{kind}() {{ compgen -W "$({ask.format(kind)})" -- "$1"; }}' for kind in kinds]
    return {"bash": "\n".join(bash), "zsh": _ZSH_ASK, "fish": ""}


def _choose_completion(command: str, action: argparse.Action) -> Any:
    """Return the completion of an argument, None = its choices or nothing."""
    import shtab

    if action.choices is not None or action.nargs == 0:
        return None
    if not action.option_strings and command in FIRST_WORDS:
        return _ask_for(command)
    if action.dest in _ASKED_FOR:
        return _ask_for(_ASKED_FOR[action.dest])
    if action.metavar in _DIRECTORIES:
        return shtab.DIRECTORY
    return shtab.FILE if action.metavar in _FILES else None


def build_parser_tree() -> Parser:
    """Build a parser of the whole command line, with a subparser for every subcommand."""
    root = build_main_parser()
    words = next(action for action in root._actions if action.dest == "words")
    root._remove_action(words)
    for group in root._action_groups:
        if words in group._group_actions:
            group._group_actions.remove(words)
    children = root.add_subparsers(metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name in sorted(SUBCOMMANDS - HIDDEN):
        _add_child(children, name, describe_subcommand(name))
    _add_child(children, "doctor", build_doctor_parser())
    return root


def _add_child(children: Any, name: str, parser: Parser) -> None:
    """Add a ready parser as a subparser. argparse only adds parsers that it builds, so one of them is replaced."""
    children.add_parser(name, help=(parser.description or "").strip().split(".")[0].split("\n\n")[0].replace("\n", " "))
    children.choices[name] = parser


def list_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """List the options of a parser that users see."""
    return [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]


def iterate_parsers(root: Parser) -> dict[str, argparse.ArgumentParser]:
    """Return every parser of the tree by its subcommand, "" = the root."""
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {"": root, **cast("dict[str, argparse.ArgumentParser]", action.choices)}
    return {"": root}


__all__ = ["FIRST_WORDS", "MODES", "build_parser_tree", "iterate_parsers", "list_options"]
