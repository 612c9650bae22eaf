"""The command line of the screen, of `-p` and of the engine; it dispatches to the subcommands.

Only argparse and other fast modules are imported here, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from core import __version__
from core.cli.parsing import (
    EFFORTS,
    MODES,
    Parser,
    add_directory,
    build_parser,
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
from core.protocol.choices import CONTAINER_CHOICES

if TYPE_CHECKING:
    from core.arguments import Arguments, Front

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
        "import",
        "index",
        "mcp",
        "memory",
        "models",
        "permissions",
        "plan",
        "pr",
        "proof",
        "report",
        "review",
        "rules",
        "sessions",
        "serve",
        "skills",
        "update",
    ]
)
# Unlike a subcommand, this word may follow options of the main command line.
DOCTOR: Final = "doctor"

USAGE = """\
agent-tui [DIR] [-c | --resume ID] [--mode MODE] [--model PROVIDER/NAME]
                 [--effort LEVEL]
       agent-tui [DIR] -p [PROMPT] [--output-format FORMAT | --json-schema FILE]
                 [--accept WHICH] [--allowed-tools NAMES]
       agent-tui COMMAND ...       details: agent-tui COMMAND --help
       agent-tui --demo [-c]"""

DESCRIPTION = """\
A terminal chat IDE. The agent edits in a shadow of your project: your files are
untouched until you accept its changes, hunk by hunk. Commands are sandboxed; if
that is impossible, you approve each one."""

# A row begins with two spaces and the name of a command; its other rows are indented further.
COMMANDS = """\
commands:
  review                show, accept or reject pending changes
  diff                  print pending changes as a patch for git apply
  proof                 say for each pending hunk whether a test notices it
  commit                commit accepted changes, and nothing else
  pr                    push the branch and open a pull request with evidence
  sessions              list, show, search, rename, tag, export or delete
                        sessions, or show the tree of forks
  attach                show a running session: detached, or on another screen
  agents                start, list, show, attach, message, stop, pull, push or
                        delete background agents, or run a worker for them
  plan                  list, show or check plans, or set the status of a todo
  box                   run one command in the sandbox and list its changes
  index                 search the project by meaning, or show the status of
                        its index, build or clear it
  models                show which model does what, with effort, fallbacks,
                        window and price
  rules                 list the rules loaded for an agent here, and why
  skills                list or check the skills an agent can open here
  commands              list the /name commands for prompts, or explain one
  mcp                   list, add, remove, test or fetch MCP servers, login or
                        logout, or serve this project to other agents
  hooks                 list the hooks that run here, or test those of an event
  import                list what is used of files for other agents, and what
                        is not
  memory                list, keep and drop notes about the project
  permissions           list what you always allow or deny, or remove an entry
  config                explain a setting, check or edit the configuration
  serve                 serve the chat API over HTTP, on this machine
  acp                   serve an editor over the Agent Client Protocol
  image                 save a picture from standard input and print its path,
                        to paste into the prompt over SSH
  completion            print a completion script for bash, zsh or fish
  doctor                show versions, directories, keys (names only), local
                        models and the sandbox; --probe tries each sandbox again
  help                  print a page of the manual, or the list of its pages
  report                write a bug report without secrets
  update                say how to update or remove this installation
  clean                 list what can be deleted, with sizes; --yes deletes it
  To open a directory with such a name, write ./doctor."""

EXAMPLES = """\
examples:
  agent-tui                        open the current directory
  agent-tui --demo                 a guided sample project, no key needed
  agent-tui ~/src/shop -c          resume the last session there
  agent-tui --mode plan --model openai/gpt-5
  agent-tui --model ollama/qwen3   a model server on this machine
  agent-tui --agent claude         an agent you already pay for, in the shadow
  agent-tui -p "why does test_tax fail?" --mode ask
  git diff | agent-tui -p "review this" --output-format json
  agent-tui -p "what is wrong here?" --image screenshot.png
  agent-tui -p "fix the failing test" --accept all --max-cost 0.50"""

UPDATE = """\
update and uninstall:
  agent-tui update shows the command for your installation. Don't install
  agent-tui from the package index: there, it is another program. Before you
  uninstall, look at pending changes with agent-tui review and at stored data
  with agent-tui clean. More: agent-tui help settings"""

ENVIRONMENT = """\
environment:
  OPENAI_API_KEY, OPENAI_BASE_URL         a server with the chat completions API
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL   a server with the messages API
  OLLAMA_HOST                             address of Ollama
  AGENT_TUI_CONFIG_DIR                    directory of config.toml
  AGENT_TUI_STATE_DIR                     directory of sessions and saved keys
  AGENT_TUI_SANDBOX                       container or in-place, as --sandbox
  AGENT_TUI_TRACEBACK=1                   show tracebacks of errors
  VISUAL, EDITOR                          the editor opened by Ctrl+G"""


def _format_epilog() -> str:
    codes = "\n".join(f"  {code.value:<4}{EXIT_MEANINGS[code]}" for code in ExitCode)
    return f"{COMMANDS}\n\n{EXAMPLES}\n\n{UPDATE}\n\n{ENVIRONMENT}\n\nexit codes:\n{codes}"


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
    about_group.add_argument("-h", "--help", action="help", help="show this help and exit")
    about_group.add_argument("--version", action="version", version=f"agent-tui {__version__}", help="show the version")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    return parser


def build_doctor_parser() -> Parser:
    """Build the parser that gives the help of `doctor`; its words are parsed by the main command line."""
    text = """\
Show versions, directories, keys (names only), language servers, other agents, local
models and the kind of sandbox, and which model a session started now would use."""
    parser = build_parser("agent-tui doctor", "agent-tui doctor [DIR] [--probe]", text)
    add_directory(parser)
    parser.add_argument("--probe", action="store_true", help="try each kind of sandbox again")
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
        help="openai/NAME, anthropic/NAME, a local server (ollama, lmstudio, llamacpp, vllm), a configured provider, "
        "or scripted/FILE",
    )
    group.add_argument(
        "--agent",
        dest="model",
        type=parse_agent,
        metavar="NAME",
        help="let another agent answer, sandboxed in the shadow: claude, codex, gemini, opencode, a configured one, or "
        "a command line that speaks ACP (short for --model acp/NAME)",
    )
    group.add_argument(
        "--effort", choices=EFFORTS, metavar="LEVEL", help=f"how much the model thinks: {', '.join(EFFORTS)}"
    )
    group.add_argument(
        "--demo",
        action="store_true",
        help="a sample project with a scripted model, no key needed; with -c: resume the last one",
    )
    group.add_argument(
        "--trust", action="store_true", help="load the project's rules, settings and git status for this run"
    )
    group.add_argument(
        "--private",
        action=argparse.BooleanOptionalAction,
        help="save nothing of the session; see agent-tui help safety",
    )
    _add_sandbox_options(group)
    _add_limit_options(group)


def _add_sandbox_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sandbox",
        dest="tier",
        choices=CONTAINER_CHOICES,
        metavar="KIND",
        help="container: this machine is one, so commands run on a copy of the project without further walls; "
        "in-place: a machine to throw away, in the project itself; see agent-tui help headless",
    )
    group.add_argument(
        "--in-place", dest="tier", action="store_const", const="in-place", help="short for --sandbox in-place"
    )
    group.add_argument(
        "--i-know", action="store_true", help="with --sandbox: even if this machine does not look like a container"
    )


def _add_resume_options(group: argparse._ArgumentGroup) -> None:
    exclusive_group = group.add_mutually_exclusive_group()
    exclusive_group.add_argument(
        "-c",
        "--continue",
        dest="continue_last",
        action="store_true",
        help="resume the last session; on the screen, the last that was not run with -p",
    )
    exclusive_group.add_argument(
        "--resume", metavar="ID", type=parse_session_id, help="resume the session with this id"
    )
    group.add_argument("--at", metavar="PLACE", help="with -c or --resume: go to a search result")


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
            parser.error(f"{words[0]} takes no options; write ./{words[0]} for a directory with that name")
        return "doctor", words[1:]
    if words and words[0] in SUBCOMMANDS and not Path(words[0]).is_dir():
        parser.error(f"{words[0]} is a command and has to come first: agent-tui {words[0]} --help")
    return ("screen" if args.prompt is None else "print"), words


def _check_sandbox(front: Front, args: argparse.Namespace, parser: Parser) -> None:
    """Refuse a container as the sandbox on a machine that looks like somebody's computer; a screen has checked it for
    its engine."""
    if args.tier is None or args.i_know or front == "engine":
        return
    from core.sandbox.host_view import NO_CONTAINER, find_container_signs

    if not find_container_signs(os.environ):
        parser.error(
            f"{NO_CONTAINER} Without walls, commands can change everything here that you can. If that is what you "
            "want, add --i-know"
        )


def _check_combinations(front: Front, args: argparse.Namespace, parser: Parser) -> None:
    for name in PRINT_OPTIONS:
        if front != "print" and getattr(args, name) is not None:
            parser.error(f"--{name.replace('_', '-')} works only with -p")
    if args.probe and front != "doctor":
        parser.error("--probe works only with doctor")
    _check_sandbox(front, args, parser)
    check_print_options(args, parser)
    if args.at and (front != "screen" or not (args.continue_last or args.resume)):
        parser.error("--at works only with -c or --resume, on the screen")
    if args.demo and front == "print":
        parser.error("--demo needs the screen; it can't be combined with -p")
    if args.demo and args.resume:
        parser.error("--resume ID resumes a demo too; leave out --demo")
    if args.private and (args.continue_last or args.resume):
        parser.error("a private session can't be resumed: leave out --private, or -c and --resume")
    if args.demo and args.model:
        parser.error("--demo has its own scripted model; leave out --model")
    if front == "print" and not args.prompt.strip() and (sys.stdin is None or sys.stdin.isatty()):
        parser.error('-p needs a prompt: agent-tui -p "your question", or pipe it in')


class CommandLine(NamedTuple):
    """A checked command line. `build` builds its record, for which slow modules are imported: a first frame needs only
    what is here."""

    front: Front
    build: Callable[[], Arguments]
    continue_last: bool = False
    resume: str | None = None
    mode: str | None = None


def parse(argv: Sequence[str], *, program: Sequence[str] = ()) -> Arguments:
    """Parse a command line (without the program's name). Raises `SystemExit`: 0 after `--help` and `--version`,
    `ExitCode.USAGE` with a message on stderr for a wrong one."""
    return check(argv, program=program).build()


def check(argv: Sequence[str], *, program: Sequence[str] = ()) -> CommandLine:
    """Check a command line, as `parse` does."""
    if argv and argv[0] in SUBCOMMANDS:
        subcommand = _parse_subcommand(argv[0], argv[1:], program)
        return CommandLine(subcommand.front, lambda: subcommand)
    if argv and argv[0] == DOCTOR and {"-h", "--help"} & set(argv[1:]):
        build_doctor_parser().print_help()
        raise SystemExit(ExitCode.DONE)
    parser = build_main_parser()
    args = parser.parse_intermixed_args(argv)
    front, words = _find_front(args, parser)
    _check_combinations(front, args, parser)
    directory = parse_directory(words, parser)
    build = partial(_build_arguments, front, directory, args, program)
    return CommandLine(front, build, args.continue_last, args.resume, args.mode)


def _parse_subcommand(name: str, argv: Sequence[str], program: Sequence[str]) -> Arguments:
    from dataclasses import fields, replace

    subcommand: Arguments = import_module(locate_subcommand(name)).parse(argv)
    overrides: Any = {"program": tuple(program)} if "program" in {field.name for field in fields(subcommand)} else {}
    return replace(subcommand, **overrides)


def _build_arguments(front: Front, directory: Path, args: argparse.Namespace, program: Sequence[str]) -> Arguments:
    from dataclasses import fields

    from core.arguments import EngineArguments, PrintArguments, ScreenArguments, SessionArguments

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
