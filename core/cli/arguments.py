"""The command line: what may be asked of the program, checked before anything else is loaded.

Only argparse and its like are imported here, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, get_args

from core import __version__
from core.cli import values as cli_values
from core.cli.parsers import DESCRIPTION, ENVIRONMENT, EXAMPLES, USAGE
from core.exits import EXIT_MEANINGS, ExitCode
from core.modes import Mode

Front = Literal[
    "screen", "print", "engine", "sessions", "doctor", "box", "review", "permissions", "plan", "models", "image"
]
ModeName = str
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
OutputFormat = Literal["text", "json", "stream-json"]
Accept = Literal["none", "all"]

MODES: tuple[ModeName, ...] = tuple(mode.value for mode in Mode)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)
ACCEPT: tuple[Accept, ...] = get_args(Accept)
SUBCOMMANDS = ("sessions", "doctor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One checked command line. `None` means that it was not said and the configuration decides.

    `directory` is absolute and exists. `prompt` is None under `print` when it is to be read from stdin.
    `images`: files to send with it, "-" = stdin.
    `command`, `tier`, `timeout`, `keep` and `report` are those of `box run`; `paths` are to get the `verdict` of
    `review`; under `plan` these two are what to do, and its file, todo and status; `anyway`: complete it although it
    waits; `remove` is what `permissions` is to forget. `pane`
    is open at the start. `trust`: hear the project, in this run. `private`: keep nothing of it.
    `program` is the argv prefix that starts this same program again, for the engine's process.
    """

    front: Front
    directory: Path
    continue_last: bool = False
    resume: str | None = None
    mode: ModeName | None = None
    model: str | None = None
    effort: Effort | None = None
    demo: bool = False
    prompt: str | None = None
    output_format: OutputFormat = "text"
    accept: Accept = "none"
    images: tuple[str, ...] = ()
    max_steps: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    program: tuple[str, ...] = ()
    command: str = ""
    tier: str | None = None
    timeout: int = 0
    keep: bool = False
    report: Path | None = None
    paths: tuple[str, ...] = ()
    verdict: Literal["", "accept", "reject"] = ""
    print_only: bool = False
    trust: bool = False
    private: bool | None = None
    remove: str = ""
    pane: str = ""
    probe: bool = False
    json: bool = False
    anyway: bool = False


def _epilog() -> str:
    codes = "\n".join(f"  {code.value:<4}{EXIT_MEANINGS[code]}" for code in ExitCode)
    return f"{EXAMPLES}\n\n{ENVIRONMENT}\n\nexit codes:\n{codes}"


class _Parser(argparse.ArgumentParser):
    """Says what was wrong and where help is, in two lines."""

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\n{' ' * len(self.prog)}  See {self.prog} --help.\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="agent-tui",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=_epilog(),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24, width=80),
        add_help=False,
        allow_abbrev=False,
    )
    project = parser.add_argument_group("project")
    project.add_argument("words", nargs="*", metavar="DIR", help="the directory to open (default: the current one)")
    _add_session_options(parser)
    _add_print_options(parser)
    about = parser.add_argument_group("about")
    about.add_argument("-h", "--help", action="help", help="show this help and leave")
    about.add_argument("--version", action="version", version=f"agent-tui {__version__}", help="show the version")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--continue", dest="continue_last", action="store_true", help="go on with the last session"
    )
    which.add_argument("--resume", metavar="ID", type=cli_values.session_id, help="go on with the session of this id")
    group.add_argument(
        "--mode", choices=MODES, metavar="MODE", help=f"{', '.join(MODES)} (ask and plan change nothing)"
    )
    group.add_argument(
        "--model",
        type=cli_values.model,
        metavar="NAME",
        help="openai/NAME, anthropic/NAME, a local server (ollama, lmstudio, llamacpp, vllm), a provider that is "
        "configured, or scripted/FILE",
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
        help="keep nothing of the session when the program ends; see docs/privacy.md",
    )
    group.add_argument("--max-steps", type=cli_values.count, metavar="N", help="end a turn after N model calls")
    group.add_argument(
        "--max-cost", type=cli_values.dollars, metavar="USD", help="end a turn when it has cost this much"
    )
    group.add_argument("--max-tokens", type=cli_values.count, metavar="N", help="end a turn after N tokens")


def _add_print_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("without a screen")
    group.add_argument(
        "-p",
        "--print",
        dest="prompt",
        nargs="?",
        const="",
        metavar="PROMPT",
        help="run one prompt, print the answer and leave; stdin is read when it is piped",
    )
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        metavar="FORMAT",
        help="text (default), json: one response object, stream-json: one event a line",
    )
    group.add_argument("--image", action="append", metavar="FILE", help="send this picture or PDF along; - is stdin")
    group.add_argument(
        "--accept",
        choices=ACCEPT,
        metavar="WHICH",
        help="edits to accept at the end: none (default; they wait for your review) or all",
    )


def _front_and_words(said: argparse.Namespace, parser: _Parser) -> tuple[Front, list[str]]:
    words: list[str] = said.words
    if said.engine:
        return "engine", words
    if words and words[0] in SUBCOMMANDS:
        own = {"words", "probe"} if words[0] == "doctor" else {"words"}
        if any(value not in (None, False) for name, value in vars(said).items() if name not in own):
            parser.error(f"{words[0]} takes no options; write ./{words[0]} for a directory of that name")
        return ("sessions" if words[0] == "sessions" else "doctor"), words[1:]
    return ("screen" if said.prompt is None else "print"), words


def _directory(words: list[str], parser: argparse.ArgumentParser) -> Path:
    if len(words) > 1:
        listed = " ".join(map(repr, words))
        parser.error(f"one directory at most, got {len(words)}: {listed}; put a prompt after -p in quotes")
    if words and not words[0]:
        parser.error("the name of the directory is empty")
    hint = "; a prompt goes after -p" if parser.prog == "agent-tui" else ""
    try:
        path = Path(words[0]).expanduser() if words else Path()
        path = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        parser.error(f"no directory {words[0]!r}{hint}" if words else "the current directory is gone")
    except (OSError, RuntimeError, ValueError) as problem:
        parser.error(f"cannot open {words[0] if words else '.'!r}: {problem}")
    if not path.is_dir():
        parser.error(f"{words[0]!r} is a file; name the directory of the project")
    return path


def _check_together(front: Front, said: argparse.Namespace, parser: _Parser) -> None:
    for name in ("output_format", "accept", "image"):
        if front != "print" and getattr(said, name) is not None:
            parser.error(f"--{name.replace('_', '-')} only goes with -p")
    if said.probe and front != "doctor":
        parser.error("--probe only goes with doctor")
    if said.demo and front == "print":
        parser.error("--demo shows the screen; it does not go with -p")
    if said.demo and said.resume:
        parser.error("--resume ID goes on with a demo as well; leave --demo out")
    if said.private and (said.continue_last or said.resume):
        parser.error("a private session leaves nothing to go on with: leave out --private, or -c and --resume")
    if said.demo and said.model:
        parser.error("--demo brings its own scripted model; leave --model out")
    if front == "print" and not said.prompt.strip() and (sys.stdin is None or sys.stdin.isatty()):
        parser.error('-p needs a prompt: agent-tui -p "your question", or pipe it in')


def parse(argv: Sequence[str], *, program: Sequence[str] = ()) -> Options:
    """Check a command line (without the program's name).

    Raises SystemExit: 0 after `--help` and `--version`, `ExitCode.USAGE` with a message on stderr for anything wrong.
    """
    if argv and argv[0] in {"box", "review", "permissions", "plan", "models", "image"}:
        return _parse_words(argv, tuple(program))
    parser = _parser()
    said = parser.parse_intermixed_args(argv)
    front, words = _front_and_words(said, parser)
    _check_together(front, said, parser)
    return Options(
        front=front,
        directory=_directory(words, parser),
        continue_last=said.continue_last,
        resume=said.resume,
        mode=said.mode,
        model=said.model,
        effort=said.effort,
        demo=said.demo,
        prompt=said.prompt or None,
        output_format=said.output_format or "text",
        accept=said.accept or "none",
        images=tuple(said.image or ()),
        max_steps=said.max_steps,
        max_cost=said.max_cost,
        max_tokens=said.max_tokens,
        program=tuple(program),
        probe=said.probe,
        trust=said.trust,
        private=said.private,
    )


def _parse_words(argv: Sequence[str], program: tuple[str, ...]) -> Options:
    from core.cli.parsers import box_parser, image_parser, models_parser, permissions_parser, plan_parser, review_parser

    if argv[0] == "plan":
        parser = plan_parser(_Parser)
        said = parser.parse_intermixed_args(argv[1:])
        return _plan_options(said, parser, program)
    if argv[0] == "models":
        parser = models_parser(_Parser)
        said = parser.parse_intermixed_args(argv[1:])
        as_json = said.output_format == "json" or said.json
        return Options(front="models", directory=_directory(said.words, parser), json=as_json, program=program)
    if argv[0] == "image":
        parser = image_parser(_Parser)
        parser.parse_args(argv[1:])
        return Options(front="image", directory=_directory([], parser), program=program)
    if argv[0] == "permissions":
        parser = permissions_parser(_Parser)
        said = parser.parse_intermixed_args(argv[1:])
        directory = _directory(said.words, parser)
        return Options(front="permissions", directory=directory, remove=said.remove or "", program=program)
    if argv[0] == "review":
        return _review_options(argv[1:], review_parser(_Parser), program)
    return _box_options(argv, box_parser(_Parser), program)


def _review_options(argv: Sequence[str], parser: argparse.ArgumentParser, program: tuple[str, ...]) -> Options:
    said = parser.parse_intermixed_args(argv)
    verdict: Literal["", "accept", "reject"] = "accept" if said.accept else "reject" if said.reject else ""
    return Options(
        front="review",
        directory=_directory(said.words, parser),
        paths=tuple(said.accept or said.reject or ()),
        verdict=verdict,
        print_only=said.print_only or bool(verdict),
        program=program,
    )


def _box_options(argv: Sequence[str], parser: argparse.ArgumentParser, program: tuple[str, ...]) -> Options:
    from core.cli.parsers import BOX_USAGE

    if len(argv) > 1 and argv[1] != "run" and argv[1] not in {"-h", "--help"}:
        parser.error(f"the only thing to do with the box is run; usage: {BOX_USAGE}")
    said = parser.parse_intermixed_args([each for each in argv[1:2] if each != "run"] + list(argv[2:]))
    if len(said.words) != 2 or not said.words[1].strip():
        parser.error("expected a directory and one command in quotes, such as: agent-tui box run . 'make test'")
    return Options(
        front="box",
        directory=_directory(said.words[:1], parser),
        mode=said.mode,
        command=said.words[1],
        tier=said.tier,
        timeout=said.timeout,
        keep=said.keep,
        report=Path(said.report).absolute() if said.report else None,
        program=program,
    )


def _plan_options(said: argparse.Namespace, parser: argparse.ArgumentParser, program: tuple[str, ...]) -> Options:
    from core.cli.parsers import PLAN_STATUSES, PLAN_WORDS

    action, words = said.action, tuple(said.words)
    least, most, usage = PLAN_WORDS[action]
    if not least <= len(words) <= most:
        parser.error(f"expected: agent-tui plan {usage}")
    if action == "set" and words[2] not in PLAN_STATUSES:
        parser.error(f"{words[2]!r} is no status; there are {', '.join(PLAN_STATUSES)}")
    if said.json and action not in {"list", "show"}:
        parser.error("--json goes with list and show")
    if said.force and words[2:] != ("completed",):
        parser.error("--force goes with set FILE TODO completed")
    directory = _directory([said.directory] if said.directory else [], parser)
    given = {"command": action, "paths": words, "json": said.json, "anyway": said.force}
    return Options(front="plan", directory=directory, program=program, **given)
