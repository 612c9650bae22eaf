"""Commands of every day in the box, through the engine: the project is not touched, the review shows what happened, and
accepting all of it gives what the command would have done in a plain copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sandbox.box import Tier
from tests.support.box_cases import boxes
from tests.support.everyday import (
    CHAIN,
    DATES,
    copied,
    everyday,
    plainly,
    reviewed,
    shown,
    tree,
    untouched,
    with_what_git_tells,
)
from tests.support.open_session import read_until, session_in, submit
from tests.support.story import access
from tests.support.trust import trust


@pytest.fixture(autouse=True)
def no_author(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands name who commits; what the environment says of it holds in the box, too."""
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.delenv(f"GIT_{name}", raising=False)


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    return everyday(tmp_path_factory.mktemp("everyday") / "sample")


def boxed_session(project: Path, tier: Tier, mode: ev.ModeName = "agent"):
    trust(project)
    return session_in(project, access([]), cmd.SessionOpen(mode=mode), tier=tier)


async def ran(engine: Engine, session: str, command: str) -> ev.CommandRan:
    """Run a user's own command to its end."""
    after = engine.state(session).seq
    await submit(engine, cmd.CommandRun(session=session, command=command))
    return (await read_until(engine, session, ev.CommandRan, after=after))[-1]


async def accept_everything(engine: Engine, session: str) -> None:
    """All that may be accepted at once, then what has to be named."""
    await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
    state = engine.state(session)
    for path in sorted(state.changes):
        if path in state.changes:
            command = cmd.HunkResolve(session=session, path=path, verdict="accept", confirmed=True)
            await submit(engine, command)
    for bulk in state.review.bulks:
        command = cmd.BulkResolve(session=session, root=bulk.root, verdict="accept", confirmed=True)
        await submit(engine, command)
    assert (dict(state.changes), state.review.bulks) == ({}, ())


@pytest.mark.parametrize("tier", boxes())
async def test_s2_s3_what_is_accepted_is_what_the_command_would_have_done(sample, tmp_path, tier):
    project, plain = copied(sample, tmp_path / "project"), copied(sample, tmp_path / "plain")
    now = tree(plain)
    assert tree(project) == now
    async with boxed_session(project, tier) as (engine, session):
        for name, command in CHAIN.items():
            marks = untouched(project)
            done = await ran(engine, session, DATES + command)
            assert done.exit_code == 0, (name, done)
            assert untouched(project) == marks, name
            plainly(plain, DATES + command)
            before, now = now, tree(plain)
            state = engine.state(session)
            assert shown(state.changes) == reviewed(before, now), name
            is_git_changed = any(path.startswith(".git/") and before.get(path) != entry for path, entry in now.items())
            assert not is_git_changed or ".git" in {bulk.root for bulk in state.review.bulks}, name
            await accept_everything(engine, session)
            project_tree, plain_tree = with_what_git_tells(project), with_what_git_tells(plain)
            assert {
                path for path in {*project_tree, *plain_tree} if project_tree.get(path) != plain_tree.get(path)
            } == set(), name
    assert {path.partition("/")[0] for path in now} == {".git"}


async def test_s2_a_formatter_over_500_files_is_500_edits_and_accepted_at_once(tmp_path):
    project = everyday(tmp_path / "project", modules=500)
    async with boxed_session(project, next(iter(boxes()))) as (engine, session):
        marks = untouched(project)
        await ran(engine, session, "python3 formatter.py")
        assert untouched(project) == marks
        expected_changes = {f"pkg/m{number}.py": "edit" for number in range(500)}
        assert shown(engine.state(session).changes) == expected_changes
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        assert dict(engine.state(session).changes) == {}
        assert (project / "pkg" / "m7.py").read_text() == "x = 7\ndef f(a, b):\n  return a\n"


PACKAGE = '{"name": "left", "version": "1.0.0", "main": "i.js", "bin": {"left": "i.js"}}\n'


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm on this machine")
@pytest.mark.parametrize("tier", boxes())
async def test_npm_install_is_one_bulk_and_a_lock_file_and_comes_out_as_without_the_box(tmp_path, tier):
    project = tmp_path / "project"
    (project / "vendor" / "left").mkdir(parents=True)
    (project / "vendor" / "left" / "package.json").write_text(PACKAGE)
    (project / "vendor" / "left" / "i.js").write_text("#!/usr/bin/env node\nmodule.exports = 'left'\n")
    (project / "package.json").write_text('{"name": "app", "version": "1.0.0"}\n')
    (project / ".gitignore").write_text("node_modules/\n")
    plain = copied(project, tmp_path / "plain")
    install = "npm install --offline --no-audit --no-fund --install-links --cache $HOME/npm ./vendor/left"
    async with boxed_session(project, tier) as (engine, session):
        before = tree(project)
        done = await ran(engine, session, f"{install} && node -e \"process.exit(require('left') === 'left' ? 0 : 9)\"")
        assert done.exit_code == 0, done
        assert tree(project) == before
        plainly(plain, install.replace("$HOME", str(tmp_path)))
        state = engine.state(session)
        assert shown(state.changes) == {"package.json": "edit", "package-lock.json": "create"}
        assert [(bulk.root, bulk.kind) for bulk in state.review.bulks] == [("node_modules", "generated")]
        await accept_everything(engine, session)
        assert tree(project) == tree(plain)
