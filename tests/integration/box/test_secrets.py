from __future__ import annotations

import os
import socket
from pathlib import Path
from uuid import uuid4

import pytest

from core.sandbox.box import Tier
from core.workspace import IgnoreRules, Workspace
from core.workspace.withheld_paths import WithheldFinder
from tests.support.box_cases import Boxed, is_whiteout

SECRET = f"sk-planted-{uuid4().hex}"


async def test_withheld_files_cannot_be_read_or_replaced(boxed: Boxed):
    boxed.write("work/project/.env", SECRET)
    boxed.write("work/project/keys/one", SECRET)
    ran = await boxed.run(
        "cat .env keys/one; cp .env copy; rm -rf .env keys; mv .env moved; echo x > .env; ls -A",
        withheld=(".env", "keys", "not-there"),
    )
    assert SECRET not in ran.output
    assert ran.upper is not None
    assert not any(path.is_file() and SECRET in path.read_text() for path in ran.upper.rglob("*"))
    assert ".env" not in {path.name for path in ran.upper.iterdir()}
    assert (boxed.workspace / ".env").read_text() == SECRET


def kept_from(boxed: Boxed) -> dict[str, tuple[str, ...]]:
    """What a session would withhold from a command."""
    workspace = Workspace(boxed.workspace)
    paths = WithheldFinder(workspace, IgnoreRules(workspace)).find_paths()
    return {"withheld": paths.covered, "masked": paths.masked, "hidden": (boxed.state, *paths.outside)}


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "dropped"])
async def test_n4_secrets_in_ignored_directories_cannot_be_read(boxed: Boxed, keeps: bool):
    ignored = ("local/.env", ".vercel/.env.production.local", "local/deep/id_rsa", "node_modules/p/.env", "out/a.key")
    for name in (".env", *ignored):
        boxed.write(f"work/project/{name}", SECRET)
    boxed.write("work/project/local/plain", "plain\n")
    boxed.write("work/project/.gitignore", ".env\nlocal/\n.vercel\nnode_modules\nout\n")
    (boxed.workspace / ".git").mkdir()
    (boxed.workspace / "link").symlink_to("local/.env")
    before = (boxed.workspace / "local").stat()
    ran = await boxed.run(
        "grep -rs sk- . ; cat link local/plain; cp -r local copied; stat -c '%a %Y' local; chmod 644 local/.env;"
        "cat local/.env; ln local/.env hard; cat hard; cp -r local moved; cat moved/.env; rm -f .vercel/.env*;"
        "echo new > local/deep/new; mv local/deep/new local/deep/id_rsa; rm -rf out node_modules; ls -d out",
        **kept_from(boxed),
        **({} if keeps else {"upper": None}),
    )
    assert SECRET not in ran.output
    assert "plain\n" in ran.output
    assert f"{before.st_mode & 0o7777:o} {int(before.st_mtime)}" in ran.output
    assert "cannot access 'out'" in ran.output
    for name in (".env", *ignored):
        assert (boxed.workspace / name).read_text() == SECRET
    if ran.upper is not None:
        assert is_whiteout(ran.upper / "out")
        assert is_whiteout(ran.upper / "node_modules")
        assert not any((ran.upper / name).is_symlink() or (ran.upper / name).exists() for name in ignored[:3])
        assert not any(path.is_file() and SECRET in path.read_text() for path in ran.upper.rglob("*"))
    left = [path.name for path in boxed.state.iterdir() if "masks" in path.name]
    assert left == []


NAMED_LIKE_SECRETS = ("secrets", ".env", ".ssh/id_rsa", "credentials", "key.pem", ".netrc")


def make_entry(kind: str, place: Path, boxed: Boxed) -> None:
    """Make an entry that is no plain file at a place of the project."""
    match kind:
        case "directory":
            boxed.write(f"work/project/{place}/value", SECRET)
        case "deep directory":
            boxed.write(f"work/project/{place}/a/id_rsa/value", SECRET)
        case "unreadable directory":
            boxed.write(f"work/project/{place}/value", SECRET)
            (boxed.workspace / place).chmod(0)
        case _:
            (boxed.workspace / place).parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "empty directory":
            (boxed.workspace / place).mkdir()
        case "pipe":
            os.mkfifo(boxed.workspace / place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(boxed.workspace / place))
        case "dangling link":
            (boxed.workspace / place).symlink_to("nowhere")
        case "link to a directory":
            boxed.write("work/project/real/plain", "plain\n")
            (boxed.workspace / place).symlink_to(boxed.workspace / "real")
        case "link to itself":
            (boxed.workspace / place).symlink_to(place.name)


@pytest.mark.parametrize("keeps", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["kept", "dropped"])
@pytest.mark.parametrize(
    "kind",
    [
        *("directory", "deep directory", "empty directory", "unreadable directory"),
        *("pipe", "socket", "dangling link", "link to a directory", "link to itself"),
    ],
)
@pytest.mark.parametrize("top", ["", "out/"], ids=["ignored itself", "in an ignored directory"])
async def test_n4_what_is_named_like_a_secret_and_is_no_file_ends_no_command(
    boxed: Boxed, kind: str, top: str, keeps: bool
):
    for name in NAMED_LIKE_SECRETS:
        make_entry(kind, Path(f"{top}{name}"), boxed)
    boxed.write("work/project/plain.txt", "plain\n")
    boxed.write("work/project/.gitignore", top or "".join(f"/{name}\n" for name in NAMED_LIKE_SECRETS))
    (boxed.workspace / ".git").mkdir()
    ran = await boxed.run(
        "cat plain.txt; timeout 20 grep -rs --devices=skip sk- .; echo new > new.txt; echo over",
        **kept_from(boxed),
        **({} if keeps else {"upper": None}),
    )
    assert (ran.code, ran.output.splitlines()[0], ran.output.splitlines()[-1]) == (0, "plain", "over")
    assert SECRET not in ran.output
    if ran.upper is not None:
        assert {path.name for path in ran.upper.iterdir()} == {"new.txt"}


async def test_n4_what_a_command_writes_in_place_of_a_secret_is_dropped_and_said(own: Boxed):
    own.write("work/project/local/.env", SECRET)
    own.write("work/project/.gitignore", "local/\n")
    (own.workspace / ".git").mkdir()
    ran = await own.run("rm -f local/.env; echo mine > local/.env; echo other > local/other", **kept_from(own))
    assert ran.upper is not None
    assert [path.name for path in (ran.upper / "local").iterdir()] == ["other"]
    if own.tier in {Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED}:
        assert ran.exit.notes[0].endswith("hidden from commands: local/.env")


@pytest.mark.parametrize("command", ["rm -rf local", "mv local moved || rm -rf local"])
async def test_n4_a_secret_that_goes_with_its_directory_is_named(own: Boxed, command: str):
    own.write("work/project/local/deep/.env", SECRET)
    own.write("work/project/.gitignore", "local/\nmoved/\n")
    (own.workspace / ".git").mkdir()
    ran = await own.run(command, **kept_from(own))
    assert any(note.endswith("moved ones are empty: local/deep/.env") for note in ran.exit.notes)
    assert (own.workspace / "local/deep/.env").read_text() == SECRET
    ran = await own.run("touch local/other; rm -f local/deep/.env; mkdir new", **kept_from(own))
    assert not any("deletion" in note for note in ran.exit.notes)


async def test_n4_a_secret_that_is_made_between_two_commands_cannot_be_read(own: Boxed):
    own.write("work/project/.gitignore", "local/\n")
    own.write("work/project/local/plain", "plain\n")
    (own.workspace / ".git").mkdir()
    assert (await own.run("cat local/*", **kept_from(own))).output == "plain\n"
    own.write("work/project/local/new/.env.local", SECRET)
    ran = await own.run("cat local/plain local/new/.env.local", **kept_from(own))
    assert ran.output.startswith("plain\n")
    assert SECRET not in ran.output
