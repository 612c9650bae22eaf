"""The command line of the screen, of `-p` and of the engine; it dispatches to the subcommands.

Only argparse and other fast modules are imported here, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from core import __version__
from core.cli.parsing import (
    EFFORTS,
    MODES,
    Arguments,
    Front,
    OutputFormat,
    Parser,
    locate_subcommand,
    parse_agent,
    parse_count,
    parse_directory,
    parse_dollars,
    parse_model,
    parse_session_id,
)
from core.cli.print_mode.options import PRINT_OPTIONS, add_print_options, check_print_options, collect_print_values
from core.exits import EXIT_MEANINGS, ExitCode
from core.protocol.options import EngineOptions

if TYPE_CHECKING:
    from core.protocol.tools import ToolSettings

# Every name is a module of this package with `parse(argv)` and `run(arguments)`.
SUBCOMMANDS: Final = frozenset(
    [
        "_complete",
        "agents",
        "acp",
        "attach",
        "box",
        "clean",
        "commands",
        "commit",
        "completion",
        "diff",
        "config",
        "help",
        "hooks",
        "image",
        "index",
        "mcp",
        "memory",
        "models",
        "permissions",
        "plan",
        "pr",
        "report",
        "review",
        "rules",
        "sessions",
        "serve",
        "skills",
    ]
)
# Unlike a subcommand, this word may follow options of the main command line.
DOCTOR: Final = "doctor"

USAGE = """\
agent-tui [DIR] [-c | --resume ID] [--mode MODE] [--model PROVIDER/NAME]
                 [--effort LEVEL]
       agent-tui [DIR] -p [PROMPT] [--output-format FORMAT | --json-schema FILE]
                 [--accept WHICH] [--allowed-tools NAMES]
       agent-tui box run [--mode MODE] [--tier TIER] [--keep] DIR COMMAND
       agent-tui review [DIR] [--print] [--accept PATH ... | --reject PATH ...]
       agent-tui review [DIR] --take N
       agent-tui review [DIR] --format github --pr-diff FILE --commit SHA
       agent-tui diff [PATH ...] [--accepted] [--dir DIR]
       agent-tui commit [DIR] [-m TEXT | --write-text] [--split todo | prompt]
       agent-tui pr [DIR] [--title TITLE] [--write-text] [--draft] [--dry-run]
       agent-tui plan list | show [FILE] | check [FILE] | set FILE TODO STATUS
       agent-tui sessions [list [DIR] | show ID | search WORDS | tree
                 | rename ID TITLE | tag ID TAG ... | export ID | delete ID]
       agent-tui agents start "TASK" | list | show ID | pull ID | ...
       agent-tui attach [SESSION | --list] [--dir DIR]
       agent-tui permissions [DIR] [--remove ID]
       agent-tui memory [DIR] [--add TEXT | --accept ID | --reject ID] [--json]
       agent-tui rules [DIR] [--for FILE ...] [--json]
       agent-tui skills [list | check] [DIR] [--for FILE ...] [--json]
       agent-tui commands [list [DIR] | explain NAME [ARGUMENTS]] [--json]
       agent-tui mcp list | add | remove | test | login | logout [NAME]
       agent-tui mcp serve [DIR]
       agent-tui hooks list [DIR] [--json] | test EVENT [--file INPUT.json]
       agent-tui image < PICTURE
       agent-tui acp [--model NAME] [--mode MODE] [--review HOW] | --setup
       agent-tui models [DIR] [--json]
       agent-tui completion bash | zsh | fish
       agent-tui serve [DIR] [--host HOST] [--port N | --socket PATH]
       agent-tui index [status | build | search QUERY | clear] [DIR]
       agent-tui config explain [KEY] | check | edit [--dir DIR]
       agent-tui doctor [DIR] [--probe]
       agent-tui help [TOPIC]
       agent-tui report [DIR] [--out FILE]
       agent-tui clean [--yes]
       agent-tui --demo [-c]"""

DESCRIPTION = """\
A terminal chat IDE. The agent edits in a shadow of your project: nothing
reaches your files until you accept it, hunk by hunk. Commands run in a box
over the shadow; where a machine has none, each one waits for your yes."""

EXAMPLES = """\
commands:
  box run               run one command in the box and list what it did;
                        agent-tui box run --help says more
  review                show, accept or reject what waits for a review
  diff                  print what waits for a review, for git apply
  commit                commit what was accepted, and nothing else
  pr                    push the branch and open a pull request with evidence
  plan                  list, show or check the plans of this project, or set
                        the status of a todo; agent-tui plan --help says more
  sessions              list the sessions of this workspace, newest first; show,
                        search, rename, tag, export or delete them
  agents                start, list and steer background agents, or pull their
                        changes for review; agent-tui agents --help says more
  attach                show a session that runs: detached, or on another
                        screen; agent-tui attach --help says more
  image                 keep a picture from standard input and print its path,
                        to be pasted into the prompt: for SSH
  permissions           list what you allowed and refused for good, or forget it
  memory                list, keep and drop notes about the project here
  rules                 list the rule files an agent here is told of, and why
  skills                list or check the skills an agent here can open, and why
  commands              list what a prompt can call by /name, or show what a
                        call would send
  mcp                   list, add, remove or test MCP servers, which give the
                        agent tools, or be one for another agent;
                        agent-tui mcp --help says more
  hooks                 list the hooks that run here, or test those of an event
  acp                   serve an editor that speaks the Agent Client Protocol;
                        agent-tui acp --help says more
  models                show which model does what: its effort, its fallbacks,
                        its window, and whether its price is known
  completion            print a script that completes these command lines
  serve                 serve the chat API by HTTP, on this machine
  index                 search the project by meaning, or show, build or remove
                        its index; agent-tui index --help says more
  config                explain a setting, check the whole configuration, or
                        edit it; agent-tui config --help says more
  help                  print a page of the manual, or the list of its pages
  report                write a report of a fault, without secrets, to send
  clean                 list what can be deleted, with sizes; --yes deletes it
  doctor                show versions, state directory, configuration, keys
                        found (names only), local model servers and what
                        contains commands; --probe tries every way anew
                        (a directory of such a name is reached as ./doctor)

examples:
  agent-tui                        open the current directory
  agent-tui --demo                 the whole job on a sample project, no key
  agent-tui ~/src/shop -c          go on with the last session there
  agent-tui --mode plan --model openai/gpt-5
  agent-tui --model ollama/qwen3   a model server on this machine
  agent-tui --agent claude         the agent you pay for, in the shadow
  agent-tui -p "why does test_tax fail?" --mode ask
  git diff | agent-tui -p "review this" --output-format json
  agent-tui -p "what is wrong here?" --image screenshot.png
  agent-tui -p "fix the failing test" --accept all --max-cost 0.50"""

UPDATE = """\
update and uninstall:
  agent-tui doctor says by which command, from your checkout or wheel: on the
  package index the name belongs to somebody else's program. Before an
  uninstall: agent-tui review shows what waits, agent-tui clean what is kept;
  docs/settings-and-trouble.md names the rest."""

ENVIRONMENT = """\
environment:
  OPENAI_API_KEY, OPENAI_BASE_URL         a server that speaks chat completions
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL   a server that speaks messages
  OLLAMA_HOST                             where Ollama listens
  AGENT_TUI_CONFIG_DIR                    where config.toml is
  AGENT_TUI_STATE_DIR                     where sessions and pasted keys are
  AGENT_TUI_TRACEBACK=1                   show where an error came from
  VISUAL, EDITOR                          the editor that Ctrl+G opens"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArguments(Arguments, EngineOptions):
    """A command line about a session: the engine's options, and the session to resume."""

    continue_last: bool = False
    resume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenArguments(SessionArguments):
    """`pane`: the pane that is open at the start, at `place`; `program`: the argv prefix that starts the engine."""

    front: ClassVar[Front] = "screen"
    demo: bool = False
    pane: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintArguments(SessionArguments):
    """`prompt` None: read it from stdin. `images`: files to send with it, "-" = stdin. `best`: the models that the
    prompt is tried with in parallel, "" = the session's; () = it is answered once. `tools`: limits of tools by name.
    `accept`: "all", "verified", and patterns of paths to accept at the end. `json_schema`: the file of the schema that
    the answer must match."""

    front: ClassVar[Front] = "print"
    interactive: bool = False
    watch: bool = False
    prompt: str | None = None
    output_format: OutputFormat = "text"
    accept: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    best: tuple[str, ...] = ()
    tools: Mapping[str, ToolSettings] = field(default_factory=dict)
    json_schema: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArguments(SessionArguments):
    """The engine of a screen, which communicates over standard input and output."""

    front: ClassVar[Front] = "engine"


def _format_epilog() -> str:
    codes = "\n".join(f"  {code.value:<4}{EXIT_MEANINGS[code]}" for code in ExitCode)
    return f"{EXAMPLES}\n\n{UPDATE}\n\n{ENVIRONMENT}\n\nexit codes:\n{codes}"


def build_main_parser() -> Parser:
    """Build the parser of the main command line, which has no subcommand."""
    parser = Parser(
        prog="agent-tui",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=_format_epilog(),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24, width=80),
        add_help=False,
        allow_abbrev=False,
    )
    project = parser.add_argument_group("project")
    project.add_argument("words", nargs="*", metavar="DIR", help="the directory to open (default: the current one)")
    _add_session_options(parser)
    add_print_options(parser)
    about_group = parser.add_argument_group("about")
    about_group.add_argument("-h", "--help", action="help", help="show this help and leave")
    about_group.add_argument("--version", action="version", version=f"agent-tui {__version__}", help="show the version")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    _add_resume_options(group)
    group.add_argument(
        "--mode", choices=MODES, metavar="MODE", help=f"{', '.join(MODES)} (ask and plan change nothing)"
    )
    group.add_argument(
        "--model",
        type=parse_model,
        metavar="NAME",
        help="openai/NAME, anthropic/NAME, a local server (ollama, lmstudio, llamacpp, vllm), a provider that is "
        "configured, or scripted/FILE",
    )
    group.add_argument(
        "--agent",
        dest="model",
        type=parse_agent,
        metavar="NAME",
        help="let another agent answer, in the box over the shadow: claude, codex, gemini, opencode, one that is "
        "configured, or a command line that speaks ACP (short for --model acp/NAME)",
    )
    group.add_argument("--effort", choices=EFFORTS, metavar="LEVEL", help=f"how much it thinks: {', '.join(EFFORTS)}")
    group.add_argument(
        "--demo",
        action="store_true",
        help="a sample project and a scripted model: needs no key; with -c: go on with the last one",
    )
    group.add_argument(
        "--trust", action="store_true", help="hear the project's rules and configuration, in this run; see docs"
    )
    group.add_argument(
        "--private",
        action=argparse.BooleanOptionalAction,
        help="keep nothing of the session when the program ends; see docs/safety.md",
    )
    _add_limit_options(group)


def _add_resume_options(group: argparse._ArgumentGroup) -> None:
    exclusive_group = group.add_mutually_exclusive_group()
    exclusive_group.add_argument(
        "-c",
        "--continue",
        dest="continue_last",
        action="store_true",
        help="go on with the last session, the screen with the last that is no run of -p",
    )
    exclusive_group.add_argument(
        "--resume", metavar="ID", type=parse_session_id, help="go on with the session of this id"
    )
    group.add_argument("--at", metavar="PLACE", help="with -c or --resume: go to what a search has found")


def _add_limit_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--max-steps", type=parse_count, metavar="N", help="end a turn after N model calls")
    group.add_argument("--max-cost", type=parse_dollars, metavar="USD", help="end a turn when it has cost this much")
    group.add_argument("--max-tokens", type=parse_count, metavar="N", help="end a turn after N tokens")


def _find_front(args: argparse.Namespace, parser: Parser) -> tuple[Front, list[str]]:
    words: list[str] = args.words
    if args.engine:
        return "engine", words
    if words and words[0] == DOCTOR:
        if any(value not in (None, False) for name, value in vars(args).items() if name not in {"words", "probe"}):
            parser.error(f"{words[0]} takes no options; write ./{words[0]} for a directory of that name")
        return "doctor", words[1:]
    if words and words[0] in SUBCOMMANDS and not Path(words[0]).is_dir():
        parser.error(f"{words[0]} is a command, which stands first: agent-tui {words[0]} --help says what it takes")
    return ("screen" if args.prompt is None else "print"), words


def _check_combinations(front: Front, args: argparse.Namespace, parser: Parser) -> None:
    for name in PRINT_OPTIONS:
        if front != "print" and getattr(args, name) is not None:
            parser.error(f"--{name.replace('_', '-')} only goes with -p")
    if args.probe and front != "doctor":
        parser.error("--probe only goes with doctor")
    check_print_options(args, parser)
    if args.at and (front != "screen" or not (args.continue_last or args.resume)):
        parser.error("--at goes with -c or --resume, on the screen")
    if args.demo and front == "print":
        parser.error("--demo shows the screen; it does not go with -p")
    if args.demo and args.resume:
        parser.error("--resume ID goes on with a demo as well; leave --demo out")
    if args.private and (args.continue_last or args.resume):
        parser.error("a private session leaves nothing to go on with: leave out --private, or -c and --resume")
    if args.demo and args.model:
        parser.error("--demo brings its own scripted model; leave --model out")
    if front == "print" and not args.prompt.strip() and (sys.stdin is None or sys.stdin.isatty()):
        parser.error('-p needs a prompt: agent-tui -p "your question", or pipe it in')


def parse(argv: Sequence[str], *, program: Sequence[str] = ()) -> Arguments:
    """Parse a command line (without the program's name). Raises `SystemExit`: 0 after `--help` and `--version`,
    `ExitCode.USAGE` with a message on stderr for a wrong one."""
    if argv and argv[0] in SUBCOMMANDS:
        subcommand: Arguments = import_module(locate_subcommand(argv[0])).parse(argv[1:])
        overrides: Any = (
            {"program": tuple(program)} if "program" in {field.name for field in fields(subcommand)} else {}
        )
        return replace(subcommand, **overrides)
    parser = build_main_parser()
    args = parser.parse_intermixed_args(argv)
    front, words = _find_front(args, parser)
    _check_combinations(front, args, parser)
    directory = parse_directory(words, parser)
    if front == DOCTOR:
        doctor_arguments: Arguments = import_module("core.cli.doctor").build_arguments(directory, args)
        return doctor_arguments
    values = vars(args)
    session: dict[str, Any] = {
        field.name: values[field.name] for field in fields(SessionArguments) if field.name in values
    }
    session |= {"directory": directory, "allow": tuple(args.allow or ())}
    if front == "engine":
        return EngineArguments(**session, program=tuple(program))
    if front == "screen":
        return ScreenArguments(**session, demo=args.demo, place=args.at or "", program=tuple(program))
    return PrintArguments(**session, **collect_print_values(args))
