"""The dialogs of a commit and a pull request: every key, what a model writes, and what hooks say."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import CommitTopic
from tests.support import recorded
from tui.dialogs.commits import DraftDialog, PullRequestDialog

ONE = q.CommitGroup(
    title="",
    edits=("v1", "v2"),
    files=(
        q.CommitFile(path="src/[a].py", operation="edit", added=3, removed=1),
        q.CommitFile(path="new.txt", operation="create", added=2),
    ),
    message="Mend the tax\n\nChecked by: pytest -q\n",
)
FOUND = q.CommitAnswer(
    branch="main",
    head="aaa",
    groups=(ONE,),
    hooks=("pre-commit",),
    staged=1,
    left_out=(q.CommitFile(path="x.bin", operation="edit", problem="git stores it with a filter"),),
)
SPLIT = replace(
    FOUND,
    groups=(
        replace(ONE, title="Mend it", edits=("v1",), message="Mend it\n"),
        replace(ONE, title="Name it", edits=("v2",), message="Name it\n"),
    ),
)
REQUEST = q.PullRequestAnswer(
    branch="tax",
    base="main",
    remote="origin",
    url="https://github.com/me/shop",
    program="gh",
    commits=("Mend the tax",),
    title="Mend the tax",
    body="- Mend the tax\n",
)


@pytest.fixture
def committing(stage, clock):
    @asynccontextmanager
    async def show(
        command: str = "/commit", answer: q.AnyAnswer = FOUND, *, demo: bool = True, size=(120, 40), **more: object
    ):
        answers = {q.CommitQuery: answer, q.PullRequestQuery: REQUEST, **more}
        async with stage([*recorded.opening(demo=demo)], answers=answers, size=size) as on:
            await on.pilot.press(*command, "enter")
            await on.until(lambda: isinstance(on.app.screen, DraftDialog) and on.app.screen.query("#draft-keys"))
            dialog = on.app.screen
            await on.until(lambda: dialog.grace_period._drawn_at is not None)
            clock[0] += 1
            yield on, dialog

    return show


def read(dialog: DraftDialog, name: str) -> str:
    return str(dialog.query_one(f"#draft-{name}").render())


async def test_ctrl_s_commits_what_is_shown_with_the_words_of_the_user(committing):
    async with committing() as (on, dialog):
        assert (
            read(dialog, "head")
            == "on main · one commit · pre-commit sandboxed first · 1 staged file of yours left as is"
        )
        assert read(dialog, "facts").split("\n") == [
            "~ src/[a].py  +3 −1",
            "+ new.txt  +2 −0",
            "Left out: x.bin: git stores it with a filter",
        ]
        await on.pilot.press(*["down"] * 5, "o", "k", "ctrl+s")
        await on.until(lambda: on.sent(c.CommitMake))
        (sent,) = on.sent(c.CommitMake)
        assert (sent.head, sent.hooks) == ("aaa", "box")
        assert sent.commits == (c.PlannedCommit(message=f"{ONE.message}ok", edits=("v1", "v2")),)
        await on.pilot.press("ctrl+s")
        assert len(on.sent(c.CommitMake)) == 1
        await on.emit(e.CommitMade(id="bbbbbbbbbbbb", branch="main", subject="Mend [it]", edits=("v1",), files=("a",)))
        await on.until(lambda: on.app.screen is on.screen)
        assert on.screen.state.blocks[-1].text == "Committed bbbbbbbbbb on main: Mend [it] · 1 file"


@pytest.mark.parametrize(("size", "covered"), [((80, 24), True), ((120, 40), False)])
async def test_what_was_committed_is_shown_where_a_pane_covers_the_conversation(committing, size, covered):
    async with committing(size=size) as (on, _):
        await on.app.main.controllers.panes.show("review", focus=False)
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.CommitMake))
        await on.emit(e.CommitMade(id="bbbbbbbbbbbb", branch="main", subject="Mend it", edits=("v1",), files=("a",)))
        await on.until(lambda: on.app.screen is on.screen)
        notices = [notification.message for notification in on.app._notifications]
        assert any("Committed bbbbbbbbbb on main: Mend it · 1 file" in notice for notice in notices) is covered, notices


async def test_a_key_that_comes_too_soon_commits_nothing(committing):
    async with committing() as (on, dialog):
        dialog.grace_period._seconds = 1e9
        await on.pilot.press("ctrl+s")
        assert on.sent(c.CommitMake) == []


async def test_what_hooks_print_is_shown_and_it_can_be_tried_again_elsewhere(committing):
    async with committing() as (on, dialog):
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.CommitMake))
        await on.emit(e.CommitProgressed(text="line 3: too "), e.CommitProgressed(text="long [red]\x1b[2J\n"))
        assert read(dialog, "output") == "line 3: too long [red]"
        failed = e.CommitFailed(
            stage="box", message="the hooks refused it.", hint="Mend it.", output="line 3: too long"
        )
        await on.emit(failed)
        assert read(dialog, "output") == "line 3: too long\nThe hooks refused it. Mend it."
        await on.pilot.press("f4")
        assert "pre-commit on this machine only" in read(dialog, "head")
        await on.pilot.press("f4")
        assert "pre-commit not run (--no-verify)" in read(dialog, "head")
        await on.pilot.press("ctrl+s")
        await on.until(lambda: len(on.sent(c.CommitMake)) == 2)
        assert [command.hooks for command in on.sent(c.CommitMake)] == ["box", "none"]


async def test_f2_splits_and_each_commit_keeps_its_own_words(committing):
    async with committing() as (on, dialog):
        assert "next" not in read(dialog, "keys")
        on.client.answers[q.CommitQuery] = SPLIT
        await on.pilot.press("f2")
        await on.until(lambda: read(dialog, "head").startswith("1 of 2  Mend it"))
        assert [query for query in on.client.queries if isinstance(query, q.CommitQuery)][-1].split == "todo"
        assert "next" in read(dialog, "keys")
        await on.pilot.press("ctrl+n", "ctrl+a", "b", "ctrl+b", "ctrl+a", "a")
        assert read(dialog, "head").startswith("1 of 2")
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.CommitMake))
        assert [(commit.message, commit.edits) for commit in on.sent(c.CommitMake)[0].commits] == [
            ("aMend it\n", ("v1",)),
            ("bName it\n", ("v2",)),
        ]
        await on.emit(e.CommitMade(id="b" * 12, branch="main", subject="one", edits=("v1",), files=("a",)))
        assert on.app.screen is dialog
        await on.emit(e.CommitMade(id="c" * 12, branch="", subject="two", edits=("v2",), files=("a",)))
        await on.until(lambda: on.app.screen is on.screen)


async def test_f3_has_the_message_written_and_leaves_what_the_user_wrote(committing):
    async with committing(answer=SPLIT) as (on, dialog):
        await on.pilot.press("ctrl+n", "m", "y", "space", "ctrl+b", "f3", "f3")
        await on.until(lambda: on.sent(c.CommitDraft))
        assert [command.groups for command in on.sent(c.CommitDraft)] == [(("v1",), ("v2",))]
        assert "a model is writing the message" in read(dialog, "head")
        await on.emit(e.CommitDrafted(messages=("tax: mend it\n", "tax: name it\n"), model="m"))
        assert dialog.editor.text == "tax: mend it\n"
        assert "a model is writing" not in read(dialog, "head")
        await on.pilot.press("ctrl+n")
        assert dialog.editor.text == "my Name it\n"


async def test_a_real_model_writes_it_unasked(committing):
    async with committing(demo=False) as (on, _):
        await on.until(lambda: on.sent(c.CommitDraft))
        assert [command.groups for command in on.sent(c.CommitDraft)] == [(("v1", "v2"),)]


async def test_each_part_of_a_split_has_its_message_written_unasked_however_fast_it_is_split(committing):
    def asked() -> list[tuple[tuple[str, ...], ...]]:
        return [command.groups for command in on.sent(c.CommitDraft)]

    async with committing(demo=False) as (on, dialog):
        await on.until(asked)
        on.client.answers[q.CommitQuery] = SPLIT
        await on.pilot.press("f2", "f2", "f2", "f2")
        await on.until(lambda: read(dialog, "head").startswith("1 of 2  Mend it"))
        await on.pilot.press("f3")
        assert asked() == [(("v1", "v2"),)]
        await on.emit(e.CommitDrafted(messages=("tax: all\n",), model="m"))
        await on.until(lambda: asked()[1:] == [(("v1",), ("v2",))])
        assert dialog.editor.text == "Mend it\n"
        assert "a model is writing the message" in read(dialog, "head")
        await on.emit(e.CommitDrafted(messages=("tax: mend it\n", "tax: name it\n"), model="m"))
        assert dialog.editor.text == "tax: mend it\n"
        await on.pilot.press("ctrl+n", "m", "y", "space")
        assert dialog.editor.text == "my tax: name it\n"
        on.client.answers[q.CommitQuery] = FOUND
        await on.pilot.press("f2")
        await on.until(lambda: dialog.editor.text == "tax: all\n")
        on.client.answers[q.CommitQuery] = SPLIT
        await on.pilot.press("f2")
        await on.until(lambda: dialog.editor.text == "tax: mend it\n")
        await on.pilot.press("ctrl+n")
        assert dialog.editor.text == "my tax: name it\n"
        assert len(asked()) == 2
        assert "a model is writing" not in read(dialog, "head")


async def test_the_last_split_is_by_topics_that_a_model_tells_apart(committing):
    topics = (CommitTopic(title="Mend it", edits=("v1",)), CommitTopic(title="Name it", edits=("v2",)))
    async with committing(demo=False) as (on, dialog):
        await on.until(lambda: on.sent(c.CommitDraft))
        await on.pilot.press("f2", "f2", "f2")
        assert not on.sent(c.CommitSort), "it writes the first message as yet"
        await on.emit(e.CommitDrafted(messages=("tax: all\n",), model="m"))
        await on.until(lambda: on.sent(c.CommitSort))
        assert [command.edits for command in on.sent(c.CommitSort)] == [("v1", "v2")]
        assert "one per topic" in read(dialog, "head")
        assert read(dialog, "head").endswith("a model is sorting by topic…")
        on.client.answers[q.CommitQuery] = SPLIT
        await on.emit(e.CommitSorted(topics=topics, model="m"))
        await on.until(lambda: read(dialog, "head").startswith("1 of 2  Mend it"))
        assert [query.topics for query in on.client.queries if isinstance(query, q.CommitQuery)][-1] == topics
        await on.until(lambda: len(on.sent(c.CommitDraft)) == 2)


async def test_topics_that_no_model_could_tell_are_one_commit_again(committing):
    async with committing(demo=False) as (on, dialog):
        await on.emit(e.CommitDrafted(messages=("tax: all\n",), model="m"))
        await on.pilot.press("f2", "f2", "f2")
        await on.until(lambda: on.sent(c.CommitSort))
        await on.emit(e.ErrorRaised(code="spent", message="The limit is reached."))
        await on.until(lambda: "one commit" in read(dialog, "head"))
        assert read(dialog, "output") == "The limit is reached."


async def test_the_demo_has_no_model_that_sorts(committing):
    async with committing() as (on, dialog):
        await on.pilot.press("f2", "f2", "f2")
        await on.until(lambda: "one commit" in read(dialog, "head"))
        assert not on.sent(c.CommitSort)


async def test_a_draft_that_fails_says_so_and_can_be_asked_for_again(committing):
    async with committing(demo=False) as (on, dialog):
        await on.until(lambda: on.sent(c.CommitDraft))
        await on.emit(e.ErrorRaised(code="git", message="HEAD has moved.", hint="Look again: /commit"))
        assert read(dialog, "output") == "HEAD has moved. Look again: /commit"
        assert "a model is writing" not in read(dialog, "head")
        await on.emit(e.ErrorRaised(code="job", message="A job failed."))
        assert "A job" not in read(dialog, "output")
        await on.pilot.press("f3")
        await on.until(lambda: len(on.sent(c.CommitDraft)) == 2)


async def test_ctrl_g_opens_the_editor_and_escape_leaves(committing, monkeypatch):
    monkeypatch.setattr(
        "tui.screens.controllers.editor.EditorController.edit", lambda _, text, suffix: f"{suffix} {text}"
    )
    async with committing() as (on, dialog):
        await on.pilot.press("ctrl+g")
        assert dialog.editor.text == f".md {ONE.message}"
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.CommitMake) == []


async def test_paths_that_are_named_hold_for_each_look_at_the_commit(committing):
    async with committing("/commit ./core/ docs/a.md") as (on, _):
        await on.pilot.press("f2")
        await on.until(lambda: len([query for query in on.client.queries if isinstance(query, q.CommitQuery)]) == 2)
        looks = [query for query in on.client.queries if isinstance(query, q.CommitQuery)]
        assert [look.paths for look in looks] == [("core", "docs/a.md")] * 2


async def test_where_nothing_can_be_committed_the_reason_is_told(stage):
    refused = q.CommitAnswer(refused="the repository is in the middle of a rebase.", hint="Finish it.")
    async with stage(recorded.opening(), answers={q.CommitQuery: refused}) as on:
        await on.pilot.press(*"/commit", "enter")
        await on.until(lambda: on.app._notifications)
        await on.pilot.press(*"/commit", "enter")
        await on.until(lambda: len([query for query in on.client.queries if isinstance(query, q.CommitQuery)]) == 2)
        (notification,) = on.app._notifications  # it is not said twice while it can be read
        assert notification.message == "The repository is in the middle of a rebase. Finish it."
        assert on.app.screen is on.screen


async def test_a_pull_request_is_opened_with_the_words_of_the_user(committing):
    async with committing("/pr") as (on, dialog):
        assert isinstance(dialog, PullRequestDialog)
        assert read(dialog, "head").split("\n") == [
            "git push origin HEAD:tax · https://github.com/me/shop",
            "1 commit into main · then gh opens it",
        ]
        await on.pilot.press("f4", "f3")
        await on.until(lambda: on.sent(c.PullRequestDraft))
        assert "as a draft" in read(dialog, "head")
        await on.emit(e.PullRequestDrafted(title="tax: mend it", body="It was wrong.\n", model="m"))
        assert dialog.editor.text == "tax: mend it\n\nIt was wrong.\n"
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.PullRequestOpen))
        (sent,) = on.sent(c.PullRequestOpen)
        assert (sent.branch, sent.base, sent.remote, sent.is_draft) == ("tax", "main", "origin", True)
        assert (sent.title, sent.body) == ("tax: mend it", "It was wrong.\n")
        await on.emit(e.PullRequestOpened(branch="tax", url="https://github.com/me/shop/pull/1"))
        await on.until(lambda: on.app.screen is on.screen)
        assert on.screen.state.blocks[-1].hint == "https://github.com/me/shop/pull/1"


async def test_a_pull_request_is_left_and_edited_outside(committing, monkeypatch):
    monkeypatch.setattr("tui.screens.controllers.editor.EditorController.edit", lambda _, text, suffix: "Mine\n\ntext")
    async with committing("/pr") as (on, dialog):
        await on.pilot.press("ctrl+g")
        assert dialog.editor.text == "Mine\n\ntext"
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.PullRequestOpen) == []


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
def test_look_of_the_dialog_of_a_commit(looks, size):
    answers = {q.CommitQuery: SPLIT}
    assert looks(recorded.opening(demo=True), size, answers=answers, keys=(*"/commit", "enter", "f4"))


def test_look_of_the_dialog_of_a_pull_request(looks):
    answers = {q.PullRequestQuery: REQUEST}
    assert looks(recorded.opening(demo=True), (120, 40), answers=answers, keys=(*"/pr", "enter"))
