"""A layer between the workspace and the pending layers, with an empty, unreadable file for each masked path.

Unlike a cover, which is a mount, it lets a directory be deleted: `rm -rf` of an ignored directory, `git clean -fdx` and
installers go on working, and their deletions wait for the review as all else does. What a command does to a masked file
by itself is left out of the layer: what it saw was not the file. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def create_mask_layer(layer: bytes, workspace: bytes, masked_paths: Sequence[bytes]) -> None:
    """Make the layer in the directory `place`, which must not exist. A path that is missing or no file gets no mask.

    Its directories look like those of the workspace, since an overlay shows theirs.
    """
    os.mkdir(layer, 0o700)
    directories = {b""}
    for path in masked_paths:
        try:
            if not stat.S_ISREG(os.lstat(os.path.join(workspace, path)).st_mode):
                continue
        except OSError:
            continue
        _make_parents(layer, path, directories)
        os.close(os.open(os.path.join(layer, path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0))
    for path in sorted(directories, reverse=True):  # inner ones first: making something in it changes a time
        _copy_status(os.path.join(layer, path), os.path.join(workspace, path))


def _make_parents(layer: bytes, path: bytes, directories: set[bytes]) -> None:
    above = os.path.dirname(path)
    missing = []
    while above not in directories:
        missing.append(above)
        above = os.path.dirname(above)
    for parent in reversed(missing):
        os.mkdir(os.path.join(layer, parent), 0o700)
        directories.add(parent)


def _copy_status(target: bytes, source: bytes) -> None:
    stats = os.lstat(source)
    if os.geteuid() == 0:
        os.chown(target, stats.st_uid, stats.st_gid)
    os.chmod(target, stat.S_IMODE(stats.st_mode))
    os.utime(target, ns=(stats.st_atime_ns, stats.st_mtime_ns))
