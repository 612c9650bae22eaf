"""The options of `-p`, and parsers of their values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.cli.parsing import (
    OUTPUT_FORMATS,
    Parser,
    parse_allowing_rule,
    parse_candidates,
    parse_duration,
    parse_tools,
)

if TYPE_CHECKING:
    from core.protocol.tools import ToolSettings

# Options that require `-p`, by their `dest`.
PRINT_OPTIONS: Final = (
    "output_format",
    "accept",
    "proof",
    "image",
    "allow",
    "tools",
    "allowed_tools",
    "best",
    "json_schema",
    "add_dir",
    "append_system_prompt",
    "time_limit",
    "exit_zero",
    "trajectory",
    "goal",
    "check",
    "rounds",
    "loop",
    "when",
    "prints",
    "runs",
)
_KINDS: Final = frozenset({"none", "all", "verified", "proven"})


def add_print_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run without a screen."""
    group = parser.add_argument_group("without a screen")
    group.add_argument(
        "-p",
        "--print",
        dest="prompt",
        nargs="?",
        const="",
        metavar="PROMPT",
        help="run one prompt, print the answer and exit; piped stdin is read",
    )
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        metavar="FORMAT",
        help="text (default), json: one response object, stream-json: one event per line",
    )
    group.add_argument(
        "--json-schema",
        type=parse_json_schema,
        metavar="FILE",
        help="the answer must be one JSON value that is valid under this schema, or the run fails",
    )
    group.add_argument("--image", action="append", metavar="FILE", help="send this picture or PDF with it; - is stdin")
    group.add_argument(
        "--append-system-prompt",
        type=parse_instructions,
        metavar="TEXT",
        help="append this to the new session's system prompt",
    )
    group.add_argument(
        "--add-dir", action="append", type=parse_added, metavar="DIR", help="another directory that may be read"
    )
    _add_rights_options(group)
    _add_goal_options(group)
    _add_loop_options(group)
    _add_end_options(group)


def _add_goal_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--goal",
        metavar="CONDITION",
        help="go on until this holds: a model that sees only the changes judges, unless --check is given",
    )
    group.add_argument("--check", metavar="COMMAND", help="the goal is met when this command passes over the changes")
    group.add_argument("--rounds", type=parse_rounds, metavar="N", help="end after this many checks (10)")


def _add_loop_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--loop",
        type=parse_interval,
        metavar="TIME",
        help="send the prompt again after this time, such as 30s, 10m, 2h",
    )
    group.add_argument(
        "--when", metavar="COMMAND", help="send it only when this command, run in the sandbox, prints something"
    )
    group.add_argument("--prints", metavar="TEXT", help="with --when: it prints a line with this text")
    group.add_argument("--runs", type=parse_runs, metavar="N", help="end after the prompt was sent N times (100)")


def _add_end_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--time-limit",
        type=parse_duration,
        metavar="TIME",
        help="end the run after this time: seconds, or such as 90s, 15m, 2h; before, the model is told to finish",
    )
    group.add_argument(
        "--exit-zero",
        action="store_const",
        const=True,
        help="exit with 0 where the code would be 3 (a limit) or 4 (something refused or left pending)",
    )
    group.add_argument(
        "--best",
        type=parse_candidates,
        metavar="N|MODELS",
        help="try the prompt N times, or with each of these models, and compare; `-c` and /best choose one",
    )
    group.add_argument(
        "--accept",
        action="append",
        type=parse_accepted,
        metavar="WHICH",
        help="edits to accept at the end: none (default; they stay pending review), all, verified (a "
        "check passed on them), proven (hunks that a test checks), or a path or pattern of the project; repeatable",
    )
    group.add_argument(
        "--proof",
        action="store_const",
        const=True,
        help="at the end, run the tests again without each hunk, and say which of them a test notices",
    )
    group.add_argument(
        "--trajectory",
        type=parse_trajectory,
        metavar="FILE",
        help="write the session to this file at the end, as an ATIF trajectory; a file that is there is replaced",
    )


def _add_rights_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allow",
        action="append",
        type=parse_allowing_rule,
        metavar="RULE",
        help=(
            "a permission rule that allows, for this run: 'WebFetch(example.org)', 'Machine(git "
            "push)' (needs a trusted project); see agent-tui help permissions"
        ),
    )
    group.add_argument(
        "--allowed-tools",
        type=parse_tool_names,
        metavar="NAMES",
        help="the only tools that may be called in this run, separated by commas: read_file,grep",
    )
    group.add_argument(
        "--tools",
        type=parse_tools,
        metavar="JSON",
        help='limits on tools for this run, like [tools.NAME]: \'{"run_terminal_cmd": {"enabled": false}}\'',
    )


def parse_rounds(text: str) -> int:
    """Return a number of checks, from 1 on."""
    from core.state.goals import MAX_ROUNDS

    if not text.isdecimal() or not 1 <= int(text) <= MAX_ROUNDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_ROUNDS}")
    return int(text)


def parse_interval(text: str) -> int:
    """Return the seconds of an interval of a loop."""
    from core.state.loops import parse_duration

    if (seconds := parse_duration(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 10s to 7d, such as 30s, 10m or 2h")
    return seconds


def parse_runs(text: str) -> int:
    """Return a number of runs of a loop, from 1 on."""
    from core.state.loops import MAX_RUNS

    if not text.isdecimal() or not 1 <= int(text) <= MAX_RUNS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_RUNS}")
    return int(text)


def parse_json_schema(text: str) -> Path:
    """Return the absolute path of a file that holds a JSON Schema."""
    from core.cli.print_mode.printer import read_schema
    from core.errors import ConfigError

    path = Path(text).expanduser().absolute()
    try:
        read_schema(path)
    except ConfigError as problem:
        raise argparse.ArgumentTypeError(problem.format_with_hint()) from problem
    return path


def parse_trajectory(text: str) -> Path:
    """Return the absolute path of a file that can be written, since a run may be too dear to find that out at the
    end."""
    path = Path(text).expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        problem = "is a directory" if path.is_dir() else "is in no directory that exists"
        raise argparse.ArgumentTypeError(f"{text} {problem}")
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path.parent} may not be written")
    return path


def parse_added(text: str) -> Path:
    """Return the absolute path of a directory that is not too wide to be read as a whole."""
    from core.errors import PathRefused
    from core.workspace import Workspace

    try:
        return Workspace(Path(text)).root
    except PathRefused as problem:
        raise argparse.ArgumentTypeError(problem.format_with_hint()) from problem


def parse_instructions(text: str) -> str:
    """Check that a text for the system prompt is not blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty")
    return text


def parse_accepted(text: str) -> str:
    """Return `none`, `all`, `verified`, `proven`, or a path or pattern below the project."""
    path = text.removeprefix("./").rstrip("/")
    if not path or path.startswith(("/", "~")) or ".." in path.split("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither {', '.join(sorted(_KINDS))}, nor a path of the project")
    return path


def parse_tool_names(text: str) -> tuple[str, ...]:
    """Return the canonical names of tools; names of other agents' tools (`Read,Bash`) are resolved."""
    from core.tools.toolset import Toolset

    tools, names = Toolset(), [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise argparse.ArgumentTypeError("no tool is named")
    resolved_names = {tools.resolve_name(name): name for name in names}
    if unknown := tools.explain_unknown(resolved_names):
        raise argparse.ArgumentTypeError(unknown[0])
    return tuple(resolved_names)


def combine_tools(args: argparse.Namespace) -> Mapping[str, ToolSettings]:
    """Return the limits of tools: `--tools`, with everything disabled that `--allowed-tools` leaves out."""
    from msgspec.structs import replace

    from core.protocol.tools import OTHER_TOOLS, ToolSettings

    tools: dict[str, ToolSettings] = args.tools or {}
    if args.allowed_tools is None:
        return tools
    allowed_tools = {name: tools.get(name, ToolSettings()) for name in args.allowed_tools}
    others = {name: replace(settings, enabled=False) for name, settings in tools.items() if name not in allowed_tools}
    return {OTHER_TOOLS: ToolSettings(enabled=False), **others, **allowed_tools}


def check_print_options(args: argparse.Namespace, parser: Parser) -> None:
    """Exit with an error if options of `-p` contradict each other."""
    accept = args.accept or []
    if len(accept) > 1 and {"none", "all"} & set(accept):
        parser.error("--accept none and --accept all can't be combined with others")
    if args.best and set(accept) - {"none"}:
        parser.error(f"--best leaves the choice to you: leave out --accept {accept[0]}")
    if args.best and (args.tools is not None or args.allowed_tools is not None):
        name = "--tools" if args.tools is not None else "--allowed-tools"
        parser.error(f"{name} can't be combined with --best: set [tools.NAME] in the configuration")
    if args.goal is None and (args.check is not None or args.rounds is not None):
        parser.error("--check and --rounds need --goal: the condition that has to hold")
    if args.goal is not None and (args.best or args.json_schema is not None):
        parser.error("--goal can't be combined with --best or --json-schema")
    _check_loop_options(args, parser)
    if args.best and args.json_schema is not None:
        parser.error("--json-schema can't be combined with --best: there is no answer until you choose one")
    if args.append_system_prompt is not None and (args.continue_last or args.resume):
        parser.error("--append-system-prompt is for a new session: an existing session keeps its system prompt")


def _check_loop_options(args: argparse.Namespace, parser: Parser) -> None:
    if args.loop is None and any(value is not None for value in (args.when, args.prints, args.runs)):
        parser.error("--when, --prints and --runs need --loop: the time after which the prompt is sent again")
    if args.prints is not None and args.when is None:
        parser.error("--prints needs --when: the command whose output is meant")
    if args.loop is not None and (args.best or args.json_schema is not None or args.goal is not None or args.image):
        parser.error("--loop can't be combined with --best, --goal, --image or --json-schema")


def collect_print_values(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `PrintArguments` that these options set."""
    return {
        "prompt": args.prompt or None,
        "output_format": args.output_format or "text",
        "accept": tuple(choice for choice in args.accept or () if choice != "none"),
        "proof": bool(args.proof) or "proven" in (args.accept or ()),
        "images": tuple(args.image or ()),
        "best": args.best or (),
        "tools": combine_tools(args),
        "json_schema": args.json_schema,
        "add_dirs": tuple(args.add_dir or ()),
        "time_limit": args.time_limit,
        "exit_zero": bool(args.exit_zero),
        "trajectory": args.trajectory,
        "goal": args.goal or "",
        "check": args.check or "",
        "rounds": args.rounds or 0,
        "loop": args.loop or 0,
        "when": args.when or "",
        "prints": args.prints or "",
        "runs": args.runs or 0,
    }
