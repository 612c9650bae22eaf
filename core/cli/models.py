"""`agent-tui models`: show which model does which job in a session that starts now."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.cli.streams import write_json
from core.config.loading import load_settings
from core.engine.session.model_routes import build_route_table
from core.engine.shared.models import ModelAccess
from core.exits import ExitCode
from core.protocol.models import RouteRow
from core.providers.discovery import find_default_model
from core.text.display_names import to_one_line

MODELS_USAGE = "agent-tui models [DIR] [--json | --output-format FORMAT]"

MODELS_TEXT = """\
Show which model a session started now would use for what: the job, the model, its
effort and fallbacks, its window in tokens, and whether its price is known. On the
screen, /models also shows what each has cost."""


HEAD = ("job", "model", "effort", "window", "price", "fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsArguments(Arguments):
    front: ClassVar[Front] = "models"
    json: bool = False


def parse(argv: Sequence[str]) -> ModelsArguments:
    """Parse the arguments of `agent-tui models`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui models", MODELS_USAGE, MODELS_TEXT)
    add_directory(parser)
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    parser.add_argument(
        "--output-format", choices=("text", "json"), default="text", metavar="FORMAT", help="text, json"
    )
    args = parser.parse_intermixed_args(argv)
    as_json = args.json or args.output_format == "json"
    return ModelsArguments(directory=parse_directory(args.words, parser), json=as_json)


def run(arguments: ModelsArguments) -> int:
    """Print the table, or all of its data as JSON."""
    settings = load_settings()
    default_model = asyncio.run(find_default_model(settings))
    table = build_route_table(settings, ModelAccess(), None, default_model.id)
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(table.rows), indent=2))
        return ExitCode.DONE
    rows = [HEAD, *map(_format_cells, table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write(to_one_line("  ".join((*cells, row[-1])).rstrip()) + "\n")
    if not default_model.id:
        sys.stdout.write("\nNo model is chosen: agent-tui doctor shows which are available.\n")
    return ExitCode.DONE


def _format_cells(row: RouteRow) -> tuple[str, ...]:
    if not row.model:
        return f"{row.job}", "-", "", "", "", ""
    name = row.model if row.own else f"{row.model} (as chat)"
    effort = f"{row.effort or 'default'}{f' (no {row.wanted})' if row.wanted else ''}"
    window = f"{row.context_window:,}" if row.context_window else "?"
    price = ("estimated" if row.estimated else "known") if row.priced else "?"
    return f"{row.job}{f' in {row.mode}' if row.mode else ''}", name, effort, window, price, ", ".join(row.fallback)
