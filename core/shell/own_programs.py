"""The programs of this installation that commands find on their PATH, after the user's own: our search program, and
`apply_patch`, which is started by a script that names the interpreter and the packages that it needs."""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.ids import new_id

PATCH_NAMES: Final = ("apply_patch", "applypatch")
_PACKAGES: Final = ("core", "msgspec", "rapidfuzz")
_START: Final = """#!/bin/sh
exec {python} -I -S -B -c 'import sys
sys.path[:0] = sys.argv[1].split(":")
from core.shell.patch_program import main
sys.exit(main(sys.argv[2:]))' {paths} "$@"
"""


def offer_programs(directory: Path, programs: Sequence[Path]) -> tuple[Path, ...]:
    """Link the programs into `directory`, under their own names, and write the start of `apply_patch` beside them.
    Return what a command has to be able to read: the directory, for its PATH, the programs, and what `apply_patch` is
    made of; () if they can't be offered."""
    targets = [Path(os.path.realpath(program)) for program in programs]
    packages = _list_packages()
    try:
        make_private_directory(directory)
        for program, target in zip(programs, targets, strict=True):
            _link(directory / program.name, target)
        start = _build_start(list(dict.fromkeys(package.parent for package in packages)))
        for name in PATCH_NAMES:
            _write(directory / name, start)
    except OSError:
        return ()
    return (directory, *targets, *packages, *_list_interpreter())


def _list_packages() -> list[Path]:
    """Return the directories of the packages that `apply_patch` imports, without importing them."""
    specs = filter(None, map(find_spec, _PACKAGES))
    return [Path(os.path.realpath(spec.origin)).parent for spec in specs if spec.origin]


def _build_start(paths: Sequence[Path]) -> bytes:
    quoted = shlex.quote(os.pathsep.join(map(str, paths)))
    return os.fsencode(_START.format(python=shlex.quote(os.path.realpath(sys.executable)), paths=quoted))


def _list_interpreter() -> tuple[Path, ...]:
    """Return the files of the interpreter, which may be one that the user has installed for themselves."""
    library = Path(sysconfig.get_path("stdlib"))
    return (Path(os.path.realpath(sys.executable)), library, *library.parent.glob("libpython*.so*"))


def _link(path: Path, target: Path) -> None:
    """Make a link, or let it point to another program: several installations share the directory."""
    if path.is_symlink() and path.readlink() == target:
        return
    fresh = path.with_name(new_id("link"))
    fresh.symlink_to(target)
    fresh.replace(path)


def _write(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        replace_file(path, data, mode=0o700, durable=False)
