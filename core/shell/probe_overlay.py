"""The probe overlay: files with probes in them, the topmost layer of one run, removed after it.

It is derived entirely from the session's state. The layer is a directory in overlayfs's format; the log of a run is a
file in the cache of commands, the only directory of a box whose changes persist.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from core.debug.probe_regions import group_by_path, insert_probes
from core.edits.text_file import TextFile, decode_text
from core.errors import PathRefused, StateError, ToolFailed
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.protocol.debug import Probe
from core.sandbox.box import Tier
from core.sandbox.host_view import build_environment, find_home
from core.shadow.shadow import Shadow

LOG_VARIABLE = "AGENT_TUI_PROBE_LOG"
URL_VARIABLE = "AGENT_TUI_PROBE_URL"
URL_PLACEHOLDER = "__PROBE_URL__"  # placeholder for the URL in the code of a probe that can't read the environment
MAX_PROBED_FILE = 4_000_000  # bytes of a file that takes probes
MAX_LOG = 64 << 20  # bytes of a log that are read
LAYERS_FOLDER = "probes"
_PREFIX = "agent-tui-probes-"
_CHUNK = 1 << 20


class ProbeMount(Struct, frozen=True, kw_only=True):
    """The overlays and environment of a run with probes.

    `log`: the file that the run writes itself; `posted`: the collector's file; `lost_probes`: ids of probes without a
    position.
    """

    overlays: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    log: Path
    posted: Path
    lost_probes: tuple[str, ...] = ()


class ProbeOverlay:
    """The layers and logs of a session's runs. `cache`: the cache of its commands, None if they have none."""

    def __init__(self, session: str, directory: Path, cache: Path | None) -> None:
        self._layers = directory / LAYERS_FOLDER
        self._logs = cache or directory
        self._name = f"{_PREFIX}{session}-"

    def build_posted_path(self, run: str) -> Path:
        """Return the file of the run's collector, which no command can access."""
        return self._layers / f"{run}.ndjson"

    def open(self, run: str, probes: Sequence[Probe], shadow: Shadow, url: str, tier: Tier) -> ProbeMount:
        """Write the overlay of a run. `url`: the collector's, "" = none.

        Raises `StateError` if there is no space, `ToolInputInvalid` if a file already holds probe marks.
        """
        log = self._logs / f"{self._name}{run}.ndjson"
        layer = self._layers / run
        lost_probes: list[str] = []
        try:
            log.unlink(missing_ok=True)
            self.build_posted_path(run).unlink(missing_ok=True)
            make_private_directory(self._layers)
            make_private_directory(self._logs)
            resolved_probes = [replace(probe, code=probe.code.replace(URL_PLACEHOLDER, url)) for probe in probes]
            for path, group in group_by_path(resolved_probes).items():
                lost_probes += self._write_probed_file(layer, path, group, shadow, run)
        except OSError as error:
            self.close(run)
            raise StateError(f"The probes can't be set up in {self._layers}: {error.strerror}.") from error
        except BaseException:
            self.close(run)
            raise
        inside = find_home(build_environment(os.environ)) / ".cache" / log.name if tier.mounts_cache else log
        env = {LOG_VARIABLE: str(inside), **({URL_VARIABLE: url} if url else {})}
        over = (layer,) if layer.exists() else ()
        return ProbeMount(
            overlays=over, env=env, log=log, posted=self.build_posted_path(run), lost_probes=tuple(lost_probes)
        )

    def _write_probed_file(
        self, layer: Path, path: str, probes: Sequence[Probe], shadow: Shadow, run: str
    ) -> Iterable[str]:
        try:
            file, mode = read_probed_file(shadow, path)
        except (ToolFailed, PathRefused):
            return [probe.id for probe in probes]
        insertion = insert_probes(file.text, probes, run)
        if len(insertion.lost) < len(probes):
            self._make_directories(layer, path, shadow)
            (layer / path).write_bytes(file.encode(insertion.text))
            (layer / path).chmod(mode)
        return insertion.lost

    def _make_directories(self, layer: Path, path: str, shadow: Shadow) -> None:
        """Create the directories above a file with the modes of the lower layers, since the merged tree shows the
        topmost."""
        layer.mkdir(mode=0o755, parents=True, exist_ok=True)
        root = shadow.workspace.root.stat()
        layer.chmod(stat.S_IMODE(root.st_mode) | 0o700)
        for above in [parent for parent in reversed(PurePosixPath(path).parents) if str(parent) != "."]:
            directory = layer / above
            if not directory.exists():
                stats = shadow.stat(str(above))
                directory.mkdir()
                directory.chmod((stats.mode if stats else 0o755) | 0o700)

    def close(self, run: str) -> None:
        """Remove a run's layer and log."""
        with suppress(OSError):
            remove_tree(self._layers / run)
        for log in (self._logs / f"{self._name}{run}.ndjson", self.build_posted_path(run)):
            with suppress(OSError):
                log.unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove leftovers of runs of a killed engine."""
        with suppress(OSError):
            if self._layers.is_dir():
                remove_tree(self._layers)
        with suppress(OSError):
            for path in self._logs.glob(f"{self._name}*"):
                path.unlink()


def read_probed_file(shadow: Shadow, path: str) -> tuple[TextFile, int]:
    """Return a file as the agent sees it, and its mode. Raises `ToolFailed` (missing, large, no text) or
    `PathRefused`."""
    stats = shadow.stat(path)
    if stats is None or stats.kind != "file":
        raise ToolFailed(f"There is no file {path}.")
    data = shadow.read(path, MAX_PROBED_FILE + 1) or b""
    file = decode_text(data) if len(data) <= MAX_PROBED_FILE else None
    if file is None:
        raise ToolFailed(
            f"{path} is {'too large' if len(data) > MAX_PROBED_FILE else 'not text'}: it can't have probes."
        )
    return file, stat.S_IMODE(stats.mode)


def read_chunks(log: Path, start: int = 0) -> Iterator[bytes]:
    """Yield the content of a log from an offset on. Commands write it, so other kinds of files yield nothing."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        os.lseek(descriptor, start, os.SEEK_SET)
        remaining = MAX_LOG - start
        while remaining > 0 and (piece := os.read(descriptor, min(_CHUNK, remaining))):
            remaining -= len(piece)
            yield piece
    except OSError:
        return
    finally:
        os.close(descriptor)


class LogTail:
    """A reader of the lines that were appended to a log since the last call."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._partial_line = b""

    def read_lines(self) -> bytes:
        """Return the new lines; ends with a line break unless empty."""
        fresh = b"".join(read_chunks(self._log, self._offset))
        self._offset += len(fresh)
        lines, newline, rest = (self._partial_line + fresh).rpartition(b"\n")
        self._partial_line = rest[-65_536:]
        return lines + newline
