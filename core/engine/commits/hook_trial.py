"""The trial of a commit in the box: its hooks run over the project as it lies on the disk, and nothing of it stays.

What the agent proposes beside it is not there: the hooks see what they would see on the user's machine. Files of the
commit that they change are brought back as text, for the review.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError
from core.git.layout import read_small_file
from core.sandbox.box import Box, BoxLimits, BoxResult
from core.sandbox.output import OUTPUT_LIMIT
from core.sandbox.plain_text import strip_escapes
from core.shell.command_host import CommandHost
from core.workspace.file_names import to_os_name

TIME_LIMIT: Final = 900.0  # seconds
_IDENTITY: Final = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_MAX_FILE: Final = 16 << 20  # bytes of a file that hooks changed

# The files of the commit are copied out whether the hooks passed or not: formatters change them and fail.
_SCRIPT: Final = """\
place={place}
GIT_INDEX_FILE="$place/index" git {settings} commit --quiet --file="$place/message"
code=$?
if [ "$code" = 0 ]; then git rev-parse 'HEAD^{{tree}}' > "$place/tree"; fi
while IFS= read -r -d '' path; do
  if [ -f "$path" ] && [ ! -L "$path" ]; then
    mkdir -p "$place/after/$(dirname "$path")" && cp -- "$path" "$place/after/$path"
  fi
done < "$place/paths"
exit "$code"
"""


class HookTrial(Struct, frozen=True, kw_only=True):
    """The end of a trial. `changed`: content of the commit's files as the hooks left it, by path, where it differs from
    the disk's; `tree`: of the commit that came of it."""

    has_passed: bool
    output: str
    problem: str = ""
    tree: str = ""
    changed: dict[str, bytes] = {}


async def try_commit(
    host: CommandHost,
    directory: Path,
    paths: Sequence[str],
    hooks_directory: Path | None,
    on_output: Callable[[str], None],
) -> HookTrial:
    """Try the commit that lies in `directory` (`index`, `message`). `hooks_directory`: where the user's settings say
    that hooks are. Raises `AgentTuiError` if the box can't start it."""
    box = await host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise AgentTuiError("nothing on this machine can hold what hooks do.", code="not_contained")
    (directory / "after").mkdir()
    (directory / "paths").write_bytes(b"".join(to_os_name(path) + b"\0" for path in paths))
    chunks: list[str] = []

    def take(text: str) -> None:
        plain = strip_escapes(text)
        if sum(map(len, chunks)) < OUTPUT_LIMIT:
            chunks.append(plain)
            on_output(plain)

    box_result = await _run(host, box, directory, hooks_directory, take)
    return HookTrial(
        has_passed=box_result.exit_code == 0,
        output="".join(chunks).strip(),
        problem="" if box_result.exit_code is not None else box_result.end_reason.replace("_", " "),
        tree=_read(directory / "tree").decode("ascii", "replace").strip(),
        changed=await asyncio.to_thread(_read_changed, host.workspace.root, directory, paths),
    )


async def _run(
    host: CommandHost, box: Box, directory: Path, hooks_directory: Path | None, take: Callable[[str], None]
) -> BoxResult:
    settings = f"-c core.hooksPath={shlex.quote(str(hooks_directory))}" if hooks_directory else ""
    command = _SCRIPT.format(place=shlex.quote(str(directory)), settings=settings)
    limits = BoxLimits(seconds=TIME_LIMIT)
    request = await host.build_passing_request(command, lowers=(), cwd=".", limits=limits)
    view = await asyncio.to_thread(host.repository)
    readable = (*request.readable, *([hooks_directory] if hooks_directory else ()))
    request = replace(
        request,
        env={**request.env, **view.get_environment(), **_name_user(os.environ, is_known=bool(view.settings))},
        repository=view.directory,
        git_settings=view.settings,
        readable=readable,
        writable=((directory, directory),),
    )
    running = await box.start(request, take)
    try:
        return await running.wait()
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(running.stop()))
        raise


def _name_user(environment: Mapping[str, str], *, is_known: bool) -> dict[str, str]:
    """Return who commits, as the environment says. One whom nobody names is called something here: whether the commit
    itself can do without a name, git says when it is made."""
    identity = {variable: environment[variable] for variable in _IDENTITY if variable in environment}
    return identity if is_known or identity else dict.fromkeys(_IDENTITY, "nobody")


def _read_changed(root: Path, directory: Path, paths: Sequence[str]) -> dict[str, bytes]:
    changed_files: dict[str, bytes] = {}
    for path in paths:
        with suppress(OSError):
            data = read_small_file(directory / "after" / path, _MAX_FILE)
            if data != read_small_file(root / path, _MAX_FILE):
                changed_files[path] = data
    return changed_files


def _read(path: Path) -> bytes:
    try:
        return read_small_file(path)
    except OSError:
        return b""
