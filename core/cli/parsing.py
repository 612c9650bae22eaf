"""The base of every command line: its parser, common arguments, and parsers of their values."""

from __future__ import annotations

import argparse
import math
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, get_args

from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.modes import Mode
from core.protocol.choices import Effort, OutputFormat

if TYPE_CHECKING:
    from core.protocol.tools import ToolSettings

ModeName = str

MODES: tuple[ModeName, ...] = tuple(mode.value for mode in Mode)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
_SECONDS_BY_UNIT: dict[str, int] = {"s": 1, "m": 60, "h": 3600}
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)


def locate_subcommand(name: str) -> str:
    """Return the module of a subcommand. `import` can't be the name of one."""
    return f"core.cli.{'import_files' if name == 'import' else name}"


class ParserDescribed(BaseException):
    """Raised instead of parsing, to hand out the parser itself."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in two lines, with a pointer to the help. `is_described`: see
    `describe_subcommand`."""

    is_described: ClassVar[bool] = False

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse, unless only the parser is wanted."""
        self._stop_if_described()
        return super().parse_known_args(*args, **kwargs)

    def parse_known_intermixed_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse, unless only the parser is wanted."""
        self._stop_if_described()
        return super().parse_known_intermixed_args(*args, **kwargs)

    def _stop_if_described(self) -> None:
        if Parser.is_described:
            raise ParserDescribed(self)

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\n{' ' * len(self.prog)}  See {self.prog} --help.\n")


def describe_subcommand(name: str) -> Parser:
    """Return the parser of a subcommand, as its module builds it in `parse`."""
    Parser.is_described = True
    try:
        import_module(locate_subcommand(name)).parse([])
    except ParserDescribed as described:
        return described.parser
    finally:
        Parser.is_described = False
    raise AssertionError(f"{name} parses nothing")


def build_parser(prog: str, usage: str, text: str, codes: str = "") -> Parser:
    """Return the parser of a subcommand. `codes`: a description of its exit codes, if they differ from the common
    ones."""
    return Parser(
        prog=prog,
        usage=usage,
        description=text,
        epilog=codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_directory(parser: Parser) -> None:
    """Add the positional argument that names the project."""
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")


def parse_directory(words: list[str], parser: Parser) -> Path:
    """Return the absolute path of the directory that `words` name (none: the current one); exits for a wrong one."""
    if len(words) > 1:
        quoted_words = " ".join(map(repr, words))
        parser.error(f"one directory at most, got {len(words)}: {quoted_words}; quote a prompt after -p")
    if words and not words[0]:
        parser.error("the directory name is empty")
    hint = "; a prompt goes after -p" if parser.prog == "agent-tui" else ""
    try:
        path = Path(words[0]).expanduser() if words else Path()
        path = resolve_spelled(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        parser.error(f"no directory {words[0]!r}{hint}" if words else "the current directory no longer exists")
    except (OSError, RuntimeError, ValueError) as problem:
        parser.error(f"cannot open {words[0] if words else '.'!r}: {problem}")
    if not path.is_dir():
        parser.error(f"{words[0]!r} is a file; give the project's directory")
    return path


def parse_count(text: str) -> int:
    """Parse a whole number of at least one; `10_000` and `10,000` are accepted."""
    try:
        value = int(text.replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def parse_candidates(text: str) -> tuple[str, ...]:
    """Parse the models that a prompt is tried with; see `commands.parse_candidates`."""
    from core.protocol import commands

    models, maximum = commands.parse_candidates(text), commands.MAX_SUBAGENTS
    if not 2 <= len(models) <= maximum:
        raise argparse.ArgumentTypeError(
            f"from 2 to {maximum} can be compared: a number, or models separated by commas"
        )
    return models


def parse_dollars(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in US dollars, such as 0.50") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not an amount above zero")
    return value


def parse_model(text: str) -> str:
    """Check the form `provider/name`, and return a model that is named without its provider as its maker's. The engine
    checks the provider, since that takes the configuration."""
    provider, slash, name = text.partition("/")
    if not slash:
        from core.providers.catalog.pricing import find_makers_id

        if own_id := find_makers_id(text):
            return own_id
    if not provider.strip() or not name.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a model; expected PROVIDER/NAME, such as openai/gpt-5.4 or ollama/qwen3"
        )
    return text


def parse_agent(text: str) -> str:
    """Return the model id of another vendor's agent, given by its name or its command line."""
    if not text.strip():
        raise argparse.ArgumentTypeError("give an agent, such as claude, or the command line of one that speaks ACP")
    return f"acp/{text.strip()}"


def parse_allowing_rule(text: str) -> str:
    from core.errors import ConfigError
    from core.permissions.rules import parse_rule

    try:
        return str(parse_rule(text, "allow"))
    except ConfigError as problem:
        raise argparse.ArgumentTypeError(f"{problem.message} {problem.hint}") from problem


def parse_tools(text: str) -> dict[str, ToolSettings]:
    """Parse limits of tools for a run: a JSON object of `[tools.NAME]` tables; keys in camel case are accepted."""
    import msgspec

    from core.protocol.tools import ToolSettings
    from core.records import convert, decode_json

    try:
        tables = decode_json(text)
        if isinstance(tables, dict):
            tables = {name: _rename_keys(table) for name, table in tables.items()}
        return convert(tables, dict[str, ToolSettings])
    except (msgspec.DecodeError, RecursionError) as problem:
        example = """'{"run_terminal_cmd": {"enabled": false}}'"""
        raise argparse.ArgumentTypeError(f"{problem}; write tables of tools, such as {example}") from problem


def _rename_keys(table: object) -> object:
    field_names = {"allowedPaths": "allowed_paths", "requireApproval": "require_approval"}
    return {field_names.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table


def parse_session_id(text: str) -> str:
    if not text or not all(letter.isalnum() or letter in "-_" for letter in text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a session id; `agent-tui sessions` lists them")
    return text


def parse_duration(text: str) -> int:
    """Return seconds of a time such as `90`, `90s`, `15m` or `2h`."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS_BY_UNIT else (text, "s")
    if not (number.isascii() and number.isdigit()) or int(number) < 1 or len(number) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 15m or 2h")
    return int(number) * _SECONDS_BY_UNIT[unit]


def parse_seconds(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds") from None
    if value < 1:
        raise argparse.ArgumentTypeError("at least one second")
    return value
