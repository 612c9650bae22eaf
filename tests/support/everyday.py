"""A project with everything in it that a command may change, and what people run in one: to compare what comes of it
in the box and in a plain copy."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.protocol.review import Change

DATES = "export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'; "
_TOLD = re.compile(r"\.git/(?:objects|logs|COMMIT_EDITMSG|ORIG_HEAD|FETCH_HEAD)(?:/|\Z)")
GIT = "git -c user.name=T -c user.email=t@example.invalid -c init.defaultBranch=main -c gc.auto=0"
IGNORED = "node_modules/\n__pycache__/\nbuild/\n*.log\n.venv/\n"
FORMATTER = """\
import pathlib
for path in pathlib.Path('pkg').rglob('m*.py'):
    path.write_text(path.read_text().replace('   =  ', ' = ').replace('( a,b )', '(a, b)'))
"""
SQLITE = """\
import sqlite3
base = sqlite3.connect('base.sqlite')
base.execute('pragma journal_mode = wal')
base.execute('create table squares(n, square)')
base.executemany('insert into squares values (?, ?)', [(n, n * n) for n in range(1000)])
base.commit()
base.close()
"""
# Each is run over what the one before it left and was accepted.
CHAIN: Mapping[str, str] = {
    "a formatter": "python3 formatter.py",
    "a database": "python3 sqlite.py",
    "a commit": f"{GIT} add -A; {GIT} commit -qm two; {GIT} tag v1; {GIT} checkout -qb topic",
    "modes, links and kinds": (
        "chmod 600 a.txt; chmod 755 pkg/m1.py; chmod 644 run.sh; chmod 700 docs; ln -sf pkg/m1.py link;"
        "rm dangling; mkdir dangling; echo x > dangling/f; rm -r docs/deep; echo file > docs/deep; rmdir empty;"
        "rm data.bin; mkdir data.bin; printf '\\000\\001' > data.bin/part; : > nothing; mkdir -p new/empty"
    ),
    "ignored files": (
        "mkdir -p node_modules/p/bin; echo 1 > node_modules/p/i.js; ln -s ../i.js node_modules/p/bin/p;"
        "chmod 755 node_modules/p/i.js; rm -r build; mkdir build; echo again > build/out; echo log > a.log"
    ),
    "odd names": (
        "rm odd*; printf x > \"$(printf 'new\\nline')\"; printf y > -dash; mkdir 'back\\slash';"
        "printf z > 'back\\slash/é ü'; printf q > \"$(printf 'bad\\377')\""
    ),
    "a directory renamed": "mv pkg lib; mv run.sh lib/",
    "reset and clean": (
        f"echo junk > junk; echo more >> a.txt; {GIT} reset -q --hard; {GIT} clean -qfdx; {GIT} status --porcelain"
    ),
    "a repository made again": f"rm -rf .git; {GIT} init -q; {GIT} add -A; {GIT} commit -qm anew",
    "everything but the repository removed": "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +",
}


def everyday(root: Path, modules: int = 12) -> Path:
    """Sources, a binary, links, modes, odd names, ignored and empty directories; one commit, and work on top of it."""
    for place in ("pkg", "docs/deep", "build", "empty"):
        (root / place).mkdir(parents=True)
    for number in range(modules):
        (root / "pkg" / f"m{number}.py").write_text(f"x   =  {number}\ndef f( a,b ):\n  return a\n")
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree")
    (root / "data.bin").write_bytes(bytes(range(256)) * 16)
    (root / "docs" / "deep" / "page").write_text("deep\n")
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "dangling").symlink_to("nowhere")
    (root / "build" / "out").write_text("built\n")
    (root / "odd name\n\x1b[31m").write_text("odd\n")
    (root / ".gitignore").write_text(IGNORED)
    (root / "formatter.py").write_text(FORMATTER)
    (root / "sqlite.py").write_text(SQLITE)
    begin = (
        f"{DATES} {GIT} init -q . && {GIT} add -A && {GIT} commit -qm one && echo more >> pkg/m3.py && echo n > new.txt"
    )
    plainly(root, begin)
    return root


def plainly(root: Path, command: str) -> None:
    """Run a command in a directory as it is, with nobody's settings."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    subprocess.run(["bash", "-c", command], cwd=root, env=env, check=True, capture_output=True)


def copied(root: Path, to: Path) -> Path:
    return Path(shutil.copytree(root, to, symlinks=True))


def tree(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a directory by its path: kind, mode and content. Of git's index what it says, not when the files
    were looked at."""
    entries: dict[str, tuple[str, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name, info = str(path.relative_to(root)), path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            entries[name] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(info.st_mode):
            entries[name] = ("directory", mode, b"")
        elif name == ".git/index":
            says = subprocess.run(["git", "ls-files", "-sz"], cwd=root, capture_output=True, check=True)
            entries[name] = ("file", mode, says.stdout)
        else:
            entries[name] = ("file", mode, path.read_bytes() if stat.S_ISREG(info.st_mode) else b"special")
    return entries


def with_what_git_tells(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """`tree`, but of objects and logs what git tells of them: how they are stored, and what happened on the way, is not
    carried over when the state of git is accepted."""
    entries = {name: entry for name, entry in tree(root).items() if not _TOLD.match(name)}
    if (root / ".git").is_dir():
        for asked in ("rev-list --objects --all", "stash list", "fsck --strict --no-dangling"):
            result = subprocess.run(["git", *asked.split()], cwd=root, capture_output=True, check=True)
            entries[f"git {asked}"] = ("told", 0, result.stdout)
    return entries


def untouched(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """What any write at all would change: of every entry its inode, mode, size and moment of change."""
    stats = {str(path.relative_to(root)): path.lstat() for path in sorted(root.rglob("*"))}
    return {name: (info.st_ino, info.st_mode, info.st_size, info.st_ctime_ns) for name, info in stats.items()}


def reviewed(
    before: Mapping[str, tuple[str, int, bytes]], after: Mapping[str, tuple[str, int, bytes]]
) -> dict[str, str]:
    """What a review has to show file by file of the way from one tree to another: "create", "edit" or "delete". A
    repository that goes as a whole is one decision."""
    whole = ".git" in before and ".git" not in after
    left, right = (
        {
            name: entry
            for name, entry in side.items()
            if entry[0] != "directory" and not _in_bulk(name) and not (whole and name.startswith(".git/"))
        }
        for side in (before, after)
    )
    changed = {name for name in {*left, *right} if left.get(name) != right.get(name)}
    return {name: "delete" if name not in right else "edit" if name in left else "create" for name in changed}


def _in_bulk(name: str) -> bool:
    parts = name.split("/")
    is_lever = parts[:2] in ([".git", "config"], [".git", "hooks"], [".git", "info"])
    ignored = {"node_modules", "__pycache__", "build", ".venv"}
    return (parts[0] == ".git" and not is_lever) or not ignored.isdisjoint(parts) or name.endswith(".log")


def shown(changes: Mapping[str, Change]) -> dict[str, str]:
    """What the review shows, in the same words; a rename is the creation of one file, its mode part of an edit."""
    words = {"rename": "create", "mode": "edit"}
    return {
        os.fsdecode(_bytes(path)): words.get(change.operation, change.operation) for path, change in changes.items()
    }


def _bytes(path: str) -> bytes:
    from core.workspace.file_names import to_os_name

    return to_os_name(path)
