"""The place in which a sequence happens: a git repository, a home, secrets in both, nothing else of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# None of them has a shape that a pattern for keys would find.
SECRETS: Final = {
    "provider": "tulip-harbour-4711-quartz",
    "dotenv": "meadow-violin-8080-cobalt",
    "ignored": "glacier-teapot-1234-amber",
    "ssh": "walnut-comet-9876-saffron",
}
# Promises that do not hold yet, each with its number of the list of faults: "provider" and "ignored" are secrets.
AWAITED: Final[dict[str, int]] = {}
GIT: Final = ("git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "gc.auto=0")
FILES: Final = {
    "a.py": "".join(f"line_{n} = {n}\n" for n in range(1, 31)),
    "b.txt": "one\r\ntwo\r\nthree\r\nfour\r\nfive",
    "src/c.py": "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(8)),
    "src/deep/d.md": "# Title\n\nSome words.\n\nMore words.\n",
    "run.sh": "#!/bin/sh\necho ran\n",
    ".gitignore": "build/\n*.log\nlocal/\n.env\n",
}
# Secrets that are some because git ignores them: once the user lets a rule go, they are files like others.
BY_RULE: Final = {"dotenv": b".env\n", "ignored": b"local/\n"}
IGNORED: Final = {
    ".env": f"TOKEN={SECRETS['dotenv']}\n",
    "local/.env": f"TOKEN={SECRETS['ignored']}\n",
    "build/out": "built\n",
}
MARK: Final = re.compile(rb"(?:ag|us)_[0-9]+_x")


def make_template(root: Path) -> Path:
    """A home and a project, to be copied for every sequence."""
    project, home = root / "project", root / "home"
    for path, text in {**FILES, **IGNORED}.items():
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    (project / "run.sh").chmod(0o755)
    (project / "data.bin").write_bytes(bytes(range(256)))
    (project / "link").symlink_to("a.py")
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    (home / ".ssh" / "id_ed25519").write_text(f"{SECRETS['ssh']}\n")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run([*GIT, *command], cwd=project, check=True, env=plain_environment(home))
    shutil.rmtree(project / ".git" / "hooks")
    return root


def plain_environment(home: Path) -> dict[str, str]:
    """What the user's own programs see."""
    return {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}


@contextmanager
def settled_in(template: Path, place: Path) -> Iterator[Path]:
    """A copy of the template at `place`, the environment pointing into it; yields the project."""
    shutil.copytree(template, place, symlinks=True)
    home, temporary = place / "home", place / "tmp"
    temporary.mkdir()
    before = dict(os.environ)
    os.environ.update({
        "HOME": str(home),
        "TMPDIR": str(temporary),
        **{f"GIT_{who}_{what}": "u@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "OPENAI_API_KEY": SECRETS["provider"],
        "AGENT_TUI_STATE_DIR": str(place / "state"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "GIT_CONFIG_NOSYSTEM": "1",
    })  # fmt: skip
    tempfile.tempdir = None  # it is asked for anew
    try:
        yield place / "project"
    finally:
        tempfile.tempdir = None
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(place, ignore_errors=True)
