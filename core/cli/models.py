"""`agent-tui models`: who does what, as a session that began now would have it."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from core.cli.arguments import Options
from core.config import load_settings
from core.engine.models import ModelAccess
from core.engine.queries.route_table import build_route_table
from core.exits import ExitCode
from core.protocol.models import RouteRow
from core.providers.catalog.choosing import find_default_model
from core.text.display_names import to_one_line

HEAD = ("job", "model", "effort", "window", "price", "fallback")


def models(options: Options) -> int:
    """Print the table, or as JSON all that is in it."""
    settings = load_settings()
    chosen = asyncio.run(find_default_model(settings))
    table = build_route_table(settings, ModelAccess(), None, chosen.id)
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(table.rows), indent=2).decode() + "\n")
        return ExitCode.DONE
    rows = [HEAD, *map(_cells, table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write(to_one_line("  ".join((*cells, row[-1])).rstrip()) + "\n")
    if not chosen.id:
        sys.stdout.write("\nNo model is chosen: agent-tui doctor says what was found.\n")
    return ExitCode.DONE


def _cells(row: RouteRow) -> tuple[str, ...]:
    """One row as it is printed."""
    if not row.model:
        return f"{row.job}", "-", "", "", "", ""
    name = row.model if row.own else f"{row.model} (as chat)"
    effort = f"{row.effort or 'default'}{f' (no {row.wanted})' if row.wanted else ''}"
    window = f"{row.context_window:,}" if row.context_window else "?"
    price = "known" if row.priced else "?"
    return f"{row.job}{f' in {row.mode}' if row.mode else ''}", name, effort, window, price, ", ".join(row.fallback)
