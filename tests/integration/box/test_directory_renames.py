"""Directories of the project can be renamed in a box, as on the machine."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from core.shadow.layers.overlayfs import scan_layer
from tests.support.box_cases import Boxed, Ran

_SHOW_ERROR = "import os, errno\ntry:\n    {}\nexcept OSError as e:\n    print(errno.errorcode[e.errno])"


def _list_layer(ran: Ran) -> dict[str, str]:
    assert ran.upper is not None
    return {entry.path: entry.kind for entry in scan_layer(ran.upper).entries}


async def test_a_directory_of_the_project_is_renamed(boxed: Boxed) -> None:
    boxed.write("work/project/app/app.ts", "text\n")
    boxed.write("work/project/app/deep/run.sh", "#!/bin/sh\n", mode=0o755)
    ran = await boxed.run("python3 -c \"import os; os.rename('app', 'core')\" && cat core/app.ts; ls app; ls core")
    assert ran.output.splitlines()[0] == "text"
    assert "app.ts" in ran.output
    assert "No such file" in ran.output
    layer = _list_layer(ran)
    assert layer["app"] == "whiteout"
    assert layer["core/deep/run.sh"] == "file"
    assert not any("rename-" in path for path in layer)


async def test_a_renamed_tree_keeps_modes_times_links_and_attributes(boxed: Boxed) -> None:
    boxed.write("work/project/app/one", "1\n", mode=0o640)
    (boxed.workspace / "app" / "two").hardlink_to(boxed.workspace / "app" / "one")
    (boxed.workspace / "app" / "link").symlink_to("nowhere")
    os.utime(boxed.workspace / "app" / "one", ns=(1_500_000_000_123_456_789,) * 2)
    os.utime(boxed.workspace / "app", ns=(1_400_000_000_000_000_001,) * 2)
    for name in ("app", "app/link"):
        os.chown(boxed.workspace / name, boxed.uid, boxed.uid, follow_symlinks=False)
    show = "find {} -printf '%P|%y|%m|%T@|%l\\n' | sort; stat -c %h {}/one"
    ran = await boxed.run(
        f"{show.format('app', 'app')} >/tmp/before; python3 -c \"import os; os.rename('app', 'core')\";"
        f"{show.format('core', 'core')} >/tmp/after; cmp /tmp/before /tmp/after && cat /tmp/after"
    )
    assert ran.code == 0, ran.output
    assert "one|f|640|1500000000.1234567890|" in ran.output
    assert ran.output.splitlines()[-1] == "2"


async def test_git_moves_a_directory_and_a_build_swaps_its_output(boxed: Boxed) -> None:
    boxed.write("work/project/src/app/a.ts", "1\n")
    boxed.write("work/project/dist/o.js", "old\n")
    boxed.write("work/project/next/o.js", "new\n")
    ran = await boxed.run(
        "git init -q . && git add -A && git -c user.name=u -c user.email=u@example.org commit -qm first &&"
        " git mv src/app src/core && git status --short && mkdir fresh && mv next fresh/next &&"
        " python3 -c \"import os; os.rename('dist', 'dist.old'); os.rename('fresh/next', 'dist')\" && cat dist/o.js"
    )
    assert ran.code == 0, ran.output
    assert "R  src/app/a.ts -> src/core/a.ts" in ran.output
    assert ran.output.splitlines()[-1] == "new"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("os.rename('app', 'full')", "ENOTEMPTY"),
        ("os.rename('app', 'app/deep/app')", "EINVAL"),
        ("os.rename('app', 'plain')", "ENOTDIR"),
        ("os.rename('app', 'missing/app')", "ENOENT"),
        ("os.rename('missing', 'app2')", "ENOENT"),
        ("os.rename('plain', 'app')", "EISDIR"),
    ],
)
async def test_what_the_machine_refuses_is_refused_with_the_same_error(boxed: Boxed, call: str, error: str) -> None:
    boxed.write("work/project/app/deep/a", "1\n")
    boxed.write("work/project/full/b", "1\n")
    boxed.write("work/project/plain", "1\n")
    ran = await boxed.run(f'python3 -c "{_SHOW_ERROR.format(call)}"; cat app/deep/a full/b plain')
    assert ran.output.splitlines() == [error, "1", "1", "1"]
    assert _list_layer(ran) == {}


async def test_another_file_system_is_still_another_one(boxed: Boxed) -> None:
    boxed.write("work/project/app/a", "1\n")
    script = _SHOW_ERROR.format("os.rename('app', '/var/tmp/app')")
    ran = await boxed.run(f'python3 -c "{script}"; ls app')
    assert ran.output.split() == ["EXDEV", "a"]


async def test_an_empty_directory_is_replaced_and_a_rename_with_no_replace_is_not(boxed: Boxed) -> None:
    boxed.write("work/project/app/a", "1\n")
    empty = boxed.workspace / "empty"
    empty.mkdir()
    boxed.give(empty)
    ran = await boxed.run(
        'python3 -c "import ctypes, errno; c = ctypes.CDLL(None, use_errno=True);'
        " print(c.renameat2(-100, b'app', -100, b'empty', 1), errno.errorcode[ctypes.get_errno()])\";"
        " python3 -c \"import os; os.rename('app/', 'empty/')\"; cat empty/a"
    )
    assert ran.output.splitlines() == ["-1 EEXIST", "1"]


async def test_paths_are_those_of_the_caller(boxed: Boxed) -> None:
    boxed.write("work/project/pkg/one/a", "1\n")
    boxed.write("work/project/pkg/two/b", "2\n")
    (boxed.workspace / "link").symlink_to("pkg")
    ran = await boxed.run(
        "python3 -c \"import os; d = os.open('pkg', os.O_RDONLY);"
        " os.rename('one', 'first', src_dir_fd=d, dst_dir_fd=d)\";"
        " cd pkg && python3 -c \"import os; os.rename('two', '../link/second')\"; cat first/a second/b; ls"
    )
    assert ran.output.split() == ["1", "2", "first", "second"]


async def test_a_directory_with_a_file_that_the_command_may_not_read_stays(boxed: Boxed) -> None:
    boxed.write("work/project/app/.env", "KEY=secret\n")
    boxed.write("work/project/app/a", "1\n")
    ran = await boxed.run(
        "python3 -c \"import os; os.rename('app', 'core')\" 2>&1 | tail -1; ls -A app; ls", masked=("app/.env",)
    )
    assert "Permission denied" in ran.output
    assert ran.output.splitlines()[-3:] == [".env", "a", "app"]


async def test_renames_of_files_are_left_to_the_kernel(boxed: Boxed) -> None:
    boxed.write("work/project/a", "1\n")
    ran = await boxed.run(
        "python3 -c \"import os\nfor n in range(150): os.rename('a', 'b'), os.rename('b', 'a')\"; cat a"
    )
    assert ran.output == "1\n"
    assert ran.upper is not None
    assert stat.S_ISREG((ran.upper / "a").lstat().st_mode)


async def test_a_program_that_is_being_ended_still_renames(boxed: Boxed) -> None:
    boxed.write("work/project/app/a", "1\n")
    script = (
        "import os, signal, sys\n"
        "def end(*_):\n    os.rename('app', 'core'); print('renamed', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\nsignal.pause()\n"
    )
    if boxed.uid != os.geteuid():
        pytest.skip("the stop comes from this process")
    boxed.write("work/project/end.py", script)
    pieces: list[str] = []
    spec = boxed.spec("exec python3 end.py")
    ready = asyncio.Event()

    def take(text: str) -> None:
        pieces.append(text)
        if "ready" in "".join(pieces):
            ready.set()

    running = await boxed.box().start(spec, take)
    async with asyncio.timeout(30):
        await ready.wait()
    await running.stop()
    assert "renamed" in "".join(pieces)
