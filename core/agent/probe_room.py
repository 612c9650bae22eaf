"""The probe layer: files with probes in them, laid over everything else for one run, and gone with it.

It is derived from the session's state and holds nothing else. The layer is a directory in overlayfs's format; the log
of a run is a file in the cache of commands, which is the one place that a box lets them write to for good.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from core.debug.marks import by_path, lay
from core.edits.textfile import TextFile, decode
from core.errors import PathRefused, StateError, ToolFailed
from core.protocol.debug import Probe
from core.sandbox.box import Tier
from core.sandbox.environment import command_environment
from core.sandbox.places import home
from core.shadow import Shadow
from core.workspace.removing import remove_tree

LOG_VARIABLE = "AGENT_TUI_PROBE_LOG"
URL_VARIABLE = "AGENT_TUI_PROBE_URL"
URL_PLACE = "__PROBE_URL__"  # stands in the code of a probe for the URL, where there is no environment to ask
LARGEST = 4_000_000  # bytes of a file that takes probes
LONGEST_LOG = 64 << 20  # bytes of a log that are read
LAYERS = "probes"
_PREFIX = "agent-tui-probes-"
_PIECE = 1 << 20


class ProbeLayer(Struct, frozen=True, kw_only=True):
    """What a run gets on top of everything else, and in its environment. `log` is what it writes itself, `posted` what
    the collector took. `lost`: probes without a place."""

    over: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    log: Path
    posted: Path
    lost: tuple[str, ...] = ()


class ProbeRoom:
    """The place of a session's layers and logs. `cache`: that of its commands, None where they have none."""

    def __init__(self, session: str, directory: Path, cache: Path | None) -> None:
        self._layers = directory / LAYERS
        self._logs = cache or directory
        self._name = f"{_PREFIX}{session}-"

    def posted(self, run: str) -> Path:
        """Where a collector of this run keeps what it takes: no command can reach it."""
        return self._layers / f"{run}.ndjson"

    def open(self, run: str, probes: Sequence[Probe], shadow: Shadow, url: str, tier: Tier) -> ProbeLayer:
        """Lay probes out for a run. `url`: where they can send to, "" = nowhere. `StateError`: no room;
        `ToolInputInvalid`: a file holds marks of its own."""
        log = self._logs / f"{self._name}{run}.ndjson"
        place = self._layers / run
        lost: list[str] = []
        try:
            log.unlink(missing_ok=True)
            self.posted(run).unlink(missing_ok=True)
            self._layers.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = [replace(each, code=each.code.replace(URL_PLACE, url)) for each in probes]
            for path, group in by_path(known).items():
                lost += self._lay(place, path, group, shadow, run)
        except OSError as error:
            self.close(run)
            raise StateError(f"The probes can't be laid out in {self._layers}: {error.strerror}.") from error
        except BaseException:
            self.close(run)
            raise
        is_bound = tier not in {Tier.LANDLOCK, Tier.NONE}  # there the cache has the path that it has here
        inside = home(command_environment(os.environ)) / ".cache" / log.name if is_bound else log
        env = {LOG_VARIABLE: str(inside), **({URL_VARIABLE: url} if url else {})}
        over = (place,) if place.exists() else ()
        return ProbeLayer(over=over, env=env, log=log, posted=self.posted(run), lost=tuple(lost))

    def _lay(self, place: Path, path: str, probes: Sequence[Probe], shadow: Shadow, run: str) -> Iterable[str]:
        try:
            found = probed_file(shadow, path)
        except (ToolFailed, PathRefused):
            return [probe.id for probe in probes]
        laid = lay(found.file.text, probes, run)
        if len(laid.lost) < len(probes):
            self._directories(place, path, shadow)
            (place / path).write_bytes(found.file.encode(laid.text))
            (place / path).chmod(found.mode)
        return laid.lost

    def _directories(self, place: Path, path: str, shadow: Shadow) -> None:
        """A directory of a layer gives the merged one its mode: it has to be that of the one below."""
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        root = shadow.workspace.root.stat()
        place.chmod(stat.S_IMODE(root.st_mode) | 0o700)
        for above in [each for each in reversed(PurePosixPath(path).parents) if str(each) != "."]:
            made = place / above
            if not made.exists():
                known = shadow.stat(str(above))
                made.mkdir()
                made.chmod((known.mode if known else 0o755) | 0o700)

    def close(self, run: str) -> None:
        """Remove a run's layer and log."""
        with suppress(OSError):
            remove_tree(self._layers / run)
        for log in (self._logs / f"{self._name}{run}.ndjson", self.posted(run)):
            with suppress(OSError):
                log.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what an engine that was killed left of its runs."""
        with suppress(OSError):
            if self._layers.is_dir():
                remove_tree(self._layers)
        with suppress(OSError):
            for each in self._logs.glob(f"{self._name}*"):
                each.unlink()


class Probed(Struct, frozen=True, kw_only=True):
    """A file as it is probed: its text, what encodes it, and its mode."""

    file: TextFile
    mode: int


def probed_file(shadow: Shadow, path: str) -> Probed:
    """A file as the agent sees it. `ToolFailed`: it is not there, too large, or no text; `PathRefused`."""
    found = shadow.stat(path)
    if found is None or found.kind != "file":
        raise ToolFailed(f"There is no file {path}.")
    data = shadow.read(path, LARGEST + 1) or b""
    file = decode(data) if len(data) <= LARGEST else None
    if file is None:
        raise ToolFailed(f"{path} is {'too large' if len(data) > LARGEST else 'no text'}: it takes no probes.")
    return Probed(file=file, mode=stat.S_IMODE(found.mode))


def read_pieces(log: Path, start: int = 0) -> Iterator[bytes]:
    """What a log holds from an offset on, piece by piece. A command wrote it: anything but a file is no log."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        os.lseek(descriptor, start, os.SEEK_SET)
        left = LONGEST_LOG - start
        while left > 0 and (piece := os.read(descriptor, min(_PIECE, left))):
            left -= len(piece)
            yield piece
    except OSError:
        return
    finally:
        os.close(descriptor)


class Tail:
    """What was added to a log since it was last looked at, in whole lines."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0
        self._held = b""

    def lines(self) -> bytes:
        """Ends with a line break, if it is anything."""
        fresh = b"".join(read_pieces(self._log, self._at))
        self._at += len(fresh)
        whole, newline, rest = (self._held + fresh).rpartition(b"\n")
        self._held = rest[-65_536:]
        return whole + newline
