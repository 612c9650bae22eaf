from __future__ import annotations

import os
import stat
from pathlib import Path

from core.filesystem.removal import remove_tree
from core.sandbox.box import BoxLimits
from tests.support.box_cases import Boxed, is_whiteout, tree


def small_project(boxed: Boxed) -> None:
    boxed.write("work/project/a.txt", "one\n")
    boxed.write("work/project/src/b.py", "print('b')\n")
    boxed.write("work/project/run.sh", "#!/bin/sh\necho ran\n", mode=0o755)
    boxed.write("work/sibling/notes.txt", "not yours\n")


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def exists(path: str) -> bool:
    return os.path.lexists(path)


async def test_s1_nothing_outside_the_workspace_can_be_written(boxed: Boxed):
    small_project(boxed)
    boxed.write("home/.profile", "mine\n")
    before = tree(boxed.root / "work"), tree(boxed.home)
    ran = await boxed.run(
        f"cd {boxed.root}; echo x > work/sibling/notes.txt; echo x > work/new; rm -rf work/sibling;"
        f"cd {boxed.workspace};"
        "echo x > ~/.profile; echo x >> ~/.bashrc; echo x > /tmp/from-the-box; echo x > /var/tmp/from-the-box;"
        "echo x > /usr/local/x; echo x > /etc/x; chmod 777 ../sibling; touch -d 2001-01-01 ../sibling/notes.txt; true",
        readable=(boxed.root / "work" / "sibling",),
    )
    assert ran.code == 0
    assert (tree(boxed.root / "work"), tree(boxed.home)) == before
    assert not any(exists(path) for path in ("/tmp/from-the-box", "/usr/local/x", "/etc/x"))
    assert ran.output.count("Read-only file system") >= 4


async def test_s2_a_write_lands_in_the_layer_and_is_seen_by_the_next_command(boxed: Boxed):
    small_project(boxed)
    before = tree(boxed.workspace)
    first = await boxed.run("echo two >> a.txt && mkdir -p new && echo n > new/file && chmod 600 src/b.py")
    assert first.code == 0
    assert tree(boxed.workspace) == before
    assert first.upper is not None
    assert (first.upper / "a.txt").read_text() == "one\ntwo\n"
    assert stat.S_IMODE((first.upper / "src" / "b.py").stat().st_mode) == 0o600
    second = await boxed.run("cat a.txt new/file; rm new/file; ls new; ./run.sh", lowers=(first.upper,))
    assert second.output == "one\ntwo\nn\nran\n"
    assert second.upper is not None
    assert is_whiteout(second.upper / "new" / "file")
    assert (first.upper / "new" / "file").read_text() == "n\n"
    assert tree(boxed.workspace) == before


async def test_s3_removing_everything_leaves_the_project_and_shows_as_deletions(boxed: Boxed):
    small_project(boxed)
    before = tree(boxed.workspace)
    ran = await boxed.run("rm -rf ./* && ls -A")
    assert (ran.code, ran.output) == (0, "")
    assert tree(boxed.workspace) == before
    assert ran.upper is not None
    assert {name for name in names(ran.upper) if is_whiteout(ran.upper / name)} == {"a.txt", "run.sh", "src"}


async def test_s3_git_reset_and_clean_leave_the_project(boxed: Boxed):
    small_project(boxed)
    git = "git -c user.name=T -c user.email=t@example.invalid -c init.defaultBranch=main"
    setup = await boxed.run(
        f"{git} init -q . && {git} add -A && {git} commit -qm one && echo junk > junk && git status -s"
    )
    assert (setup.code, setup.output) == (0, "?? junk\n")
    assert setup.upper is not None
    ran = await boxed.run(
        "echo changed > a.txt && git reset -q --hard && git clean -qfdx && cat a.txt && ls", lowers=(setup.upper,)
    )
    assert (ran.code, ran.output) == (0, "one\na.txt\nrun.sh\nsrc\n")
    assert ran.upper is not None
    assert is_whiteout(ran.upper / "junk")
    assert not (boxed.workspace / ".git").exists()


async def test_a_directory_that_was_replaced_is_opaque_in_the_layer(boxed: Boxed):
    small_project(boxed)
    ran = await boxed.run("rm -rf src && mkdir src && echo n > src/n && ls src")
    assert ran.output == "n\n"
    assert ran.upper is not None
    assert os.getxattr(ran.upper / "src", "user.overlay.opaque") == b"y"


async def test_m2_without_a_layer_all_is_held_in_memory_and_gone_afterwards(boxed: Boxed):
    small_project(boxed)
    before = tree(boxed.root)
    ran = await boxed.run("echo two >> a.txt && rm -r src && cat a.txt && ls", upper=None)
    assert (ran.code, ran.output) == (0, "one\ntwo\na.txt\nrun.sh\n")
    assert tree(boxed.root) == before


async def test_r3_a_throw_away_layer_and_all_that_is_fresh_are_bounded_by_one_number(boxed: Boxed):
    limits = BoxLimits(seconds=30, scratch=8 << 20)
    fill = "head -c 5000000 /dev/zero > ~/a; head -c 5000000 /dev/zero > /tmp/b; head -c 5000000 /dev/zero > here"
    ran = await boxed.run(f"{fill}; cat ~/a /tmp/b here | wc -c", upper=None, limits=limits)
    assert "No space left on device" in ran.output
    assert int(ran.output.split()[-1]) <= 8 << 20


async def test_r3_a_file_over_the_limit_is_refused(boxed: Boxed):
    ran = await boxed.run("truncate -s 256G big", limits=BoxLimits(seconds=30))
    assert ran.code != 0
    assert "File too large" in ran.output or ran.code == 128 + 25
    assert not (boxed.workspace / "big").exists()


async def test_s14_two_commands_at_once_have_a_layer_each(own: Boxed):
    small_project(own)
    first, second = own.spec("echo first > a.txt; read x; cat a.txt", interactive=True), own.spec("cat a.txt")
    heard: list[str] = []
    running = await own.box().start(first, heard.append)
    also: list[str] = []
    assert (await (await own.box().start(second, also.append)).wait()).exit_code == 0
    running.send(b"go on\n")
    assert (await running.wait()).exit_code == 0
    assert ("".join(heard), "".join(also)) == ("first\n", "one\n")


async def test_names_that_overlay_options_would_trip_over_are_plain_names_here(boxed: Boxed):
    name = "a:b,c\\d 'e\"\n"
    boxed.write(f"work/{name}/x.txt", "x\n")
    odd = boxed.root / "work" / name
    ran = await boxed.run("cat x.txt; echo y > y.txt; pwd", workspace=odd)
    assert ran.output == f"x\n{odd}\n"
    assert ran.upper is not None
    assert (ran.upper / "y.txt").read_text() == "y\n"


async def test_many_layers_and_long_paths_are_mounted(boxed: Boxed):
    deep = "/".join(["d" * 200] * 4)
    boxed.write(f"work/{deep}/x.txt", "x\n")
    lowers = []
    for number in range(70):
        upper, _ = boxed.layer()
        boxed.write(f"state/{upper.name}/f{number}", f"{number}\n")
        lowers.append(upper)
    ran = await boxed.run(
        "cat x.txt; ls | wc -l; cat f0 f69", workspace=boxed.root / "work" / deep, lowers=tuple(lowers)
    )
    assert ran.output == "x\n71\n0\n69\n"


async def test_n15_directories_in_directories_are_left_seen_and_removed_as_all_others(boxed: Boxed):
    levels = 1_050  # more than Python calls into itself
    boxed.write("work/project/make.py", f"import os\nfor _ in range({levels}):\n    os.mkdir('d')\n    os.chdir('d')\n")
    first = await boxed.run("python3 make.py && find d | wc -l")
    assert (first.code, first.output.strip()) == (0, str(levels)), first.output
    assert first.upper is not None
    second = await boxed.run("find d | wc -l && touch d/d/new && rm -rf d/d/d && find d", lowers=(first.upper,))
    assert (second.code, second.output) == (0, f"{levels}\nd\nd/d\nd/d/new\n"), second.output
    assert second.upper is not None
    assert is_whiteout(second.upper / "d" / "d" / "d")
    remove_tree(first.upper)
