"""Environments in which programs believe to be on another system: names that ignore case, and CPython as on Darwin.

`casefold.c` and `sitecustomize.txt` stand in for what this machine does not have. Kqueue, FSEvents, the keychain and
Seatbelt are not imitated.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

HERE = Path(__file__).parent


def fold_names_below(root: Path) -> dict[str, str]:
    """Return the variables with which a program's names below `root` ignore case."""
    return {"LD_PRELOAD": str(_compile_library()), "CASEFOLD_ROOT": str(root.resolve())}


@cache
def _compile_library() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler for the library that makes names ignore case")
    library = Path(mkdtemp(prefix="casefold-")) / "casefold.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "casefold.c", "-ldl"], check=True)
    return library


def make_darwin_python(place: Path) -> Path:
    """Return an interpreter with this one's packages that looks like Darwin's."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the imitation of Darwin is for Linux")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", place], check=True)
    packages = place / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.copy(HERE / "sitecustomize.txt", packages / "sitecustomize.py")
    (packages / "packages.pth").write_text("\n".join(_list_packages()))
    (place / "bin" / "rg").symlink_to(Path(sys.executable).parent / "rg")
    return place / "bin" / "python"


def _list_packages() -> list[str]:
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    return [*paths, str(HERE.parents[2])]
