"""`agent-tui clean`: list what this program left on the disk and can do without, with sizes; delete it with `--yes`.

It never lists a session in which something waits for the user, that has a tag, or that is open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from core import crash_reports
from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_count, parse_directory
from core.cli.streams import write_json
from core.clock import now_ms
from core.exits import ExitCode
from core.filesystem.removal import remove_path
from core.protocol.queries import SessionInfo
from core.sessions.listing import can_be_deleted, read_session_info
from core.sessions.private_directory import find_abandoned
from core.shadow.layers.layer_store import remove_location
from core.text.counting import format_size
from core.text.display_names import display_name
from core.user_dirs import get_cache_dir, get_state_dir

CLEAN_USAGE: Final = "agent-tui clean [--days N] [--yes] [--json]"
CLEAN_TEXT: Final = """\
List what can be deleted, with its size: caches and indexes (they are rebuilt when
needed), packages of MCP servers, sessions unused for N days, sample projects of
the demo, leftovers of killed programs, and crash reports. Sessions that are tagged, open somewhere, or
have something pending are never included. Nothing is deleted without --yes."""
DAYS: Final = 90
_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanArguments(Arguments):
    """`days`: a session that was unused for so long is expired. `yes`: delete."""

    front: ClassVar[Front] = "clean"
    days: int = DAYS
    yes: bool = False
    json: bool = False


class Leftover(Struct, frozen=True, kw_only=True):
    """A file or directory that can be deleted. `size` in bytes; `what` names its kind."""

    what: str
    path: str
    size: int


def parse(argv: Sequence[str]) -> CleanArguments:
    """Parse the arguments of `agent-tui clean`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui clean", CLEAN_USAGE, CLEAN_TEXT)
    parser.add_argument(
        "--days", type=parse_count, default=DAYS, metavar="N", help=f"sessions unused for N days (default: {DAYS})"
    )
    parser.add_argument("--yes", action="store_true", help="delete what is listed")
    parser.add_argument("--json", action="store_true", help="the list, as JSON")
    args = parser.parse_args(argv)
    return CleanArguments(directory=parse_directory([], parser), days=args.days, yes=args.yes, json=args.json)


def run(arguments: CleanArguments) -> int:
    """List what can be deleted; with `yes`, delete it. Returns `ExitCode.FAILED` if a deletion failed."""
    leftovers = list(find_leftovers(used_before=now_ms() - arguments.days * _DAY_MS))
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(leftovers), indent=2))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in format_leftovers(leftovers)))
    if not arguments.yes:
        if leftovers and not arguments.json:
            sys.stdout.write("Nothing was deleted. agent-tui clean --yes deletes all of this.\n")
        return ExitCode.DONE
    failures = [leftover for leftover in leftovers if not _delete(Path(leftover.path))]
    for leftover in failures:
        sys.stderr.write(f"agent-tui: {display_name(leftover.path)} can't be deleted.\n")
    freed_bytes = sum(leftover.size for leftover in leftovers if leftover not in failures)
    if leftovers and not arguments.json:
        sys.stdout.write(f"Deleted: {format_size(freed_bytes)}.\n")
    return ExitCode.FAILED if failures else ExitCode.DONE


def format_leftovers(leftovers: Sequence[Leftover]) -> Iterator[str]:
    """Format a line for every kind, with its size and count, and below it a line for every path."""
    for kind in dict.fromkeys(leftover.what for leftover in leftovers):
        group = [leftover for leftover in leftovers if leftover.what == kind]
        yield f"{format_size(sum(leftover.size for leftover in group)):>9}  {kind}"
        yield from (f"{'':>9}    {format_size(leftover.size):>8}  {display_name(leftover.path)}" for leftover in group)
    yield (
        f"{format_size(sum(leftover.size for leftover in leftovers)):>9}  total"
        if leftovers
        else "There is nothing to delete."
    )


def find_leftovers(*, used_before: int) -> Iterator[Leftover]:
    """Iterate over everything that can be deleted. `used_before`: the expiry of a session, in ms since the epoch."""
    from core.mcp.package_servers import FOLDER

    state, packages = get_state_dir(), get_cache_dir() / FOLDER
    caches = [path for path in get_cache_dir().glob("*") if path != packages]
    yield from _list_existing("caches, rebuilt when needed", caches)
    yield from _list_existing("packages of MCP servers, fetched again after a yes", packages.glob("*"))
    for workspace in sorted((state / "workspaces").glob("*")):
        yield from _find_in_workspace(workspace, used_before)
    for copy in sorted((state / "demo").glob("*")):
        if all(map(_is_expendable, _find_sessions_of_demo(copy))):
            yield from _list_existing("demo sample projects", [copy])
    yield from _list_existing("left by killed programs", find_abandoned())
    yield from _list_existing("crash reports", (state / crash_reports.FOLDER).glob("*"))


def _find_sessions_of_demo(copy: Path) -> Iterator[SessionInfo]:
    from core.sessions.store import SessionStore

    yield from map(read_session_info, SessionStore(copy).list_directories())


def _find_in_workspace(workspace: Path, used_before: int) -> Iterator[Leftover]:
    logs = [path.parent for path in workspace.glob("sessions/*/log.jsonl")]
    infos = {directory: read_session_info(directory) for directory in logs}
    expired_directories = [path for path, info in infos.items() if _is_expendable(info) and info.updated < used_before]
    yield from _list_existing("expired sessions", expired_directories)
    if any(info.locked for info in infos.values()):
        return  # its index and its cache are in use
    yield from _list_existing("project indexes, rebuilt when opened", workspace.glob("index.*"))
    yield from _list_existing("command caches", [workspace / "cache"])


def _is_expendable(info: SessionInfo) -> bool:
    """Return True if neither the session nor the ignored files that its commands made are worth keeping."""
    return can_be_deleted(info) and not info.kept


def _list_existing(kind: str, paths: Sequence[Path] | Iterator[Path]) -> Iterator[Leftover]:
    for path in sorted(paths):
        if os.path.lexists(path):
            yield Leftover(what=kind, path=str(path), size=measure(path))


def measure(path: Path) -> int:
    """Return the bytes that a file or a tree takes on the disk, as far as it can be read."""
    total = 0
    with suppress(OSError):
        total += path.lstat().st_blocks * 512
    for above, names, files in os.walk(path):
        for name in (*names, *files):
            with suppress(OSError):
                total += Path(above, name).lstat().st_blocks * 512
    return total


def _delete(path: Path) -> bool:
    steps: tuple[Callable[[], None], ...] = (lambda: remove_location(path / "layers"), lambda: remove_path(path))
    try:
        for step in steps:
            step()
    except OSError:
        return False
    return not os.path.lexists(path)
