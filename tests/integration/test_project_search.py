"""The search through the real engine: the index that a process of its own builds, and pending edits over it."""

from __future__ import annotations

import pytest

from core.engine.shared import project_index, project_search
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from core.protocol.review import Origin
from tests.support.agent_case import calls, says
from tests.support.open_session import run_turn, session_in, submit
from tests.support.story import access
from tests.support.trust import trust

TILL = "class Till:\n    def add_tax(self, price):\n        return price * self.rate\n"
MAIL = "def send_receipt(address):\n    '''E-mail the customer.'''\n    post(address)\n"
RENAME = {"file_path": "shop/till.py", "old_string": "add_tax", "new_string": "include_levy"}
PLAY = (
    calls(("read_file", {"target_file": "shop/till.py"})),
    calls(("search_replace", RENAME)),
    calls(("codebase_search", {"query": "include_levy"})),
    says("Done."),
)


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "till.py").write_text(TILL)
    (root / "shop" / "mail.py").write_text(MAIL)
    (root / ".env").write_text("TOKEN=send_receipt\n")
    trust(root)
    return root


@pytest.fixture
def endless_builder(monkeypatch):
    """The index is being built for as long as the engine runs, and no question waits for it."""
    monkeypatch.setattr(project_index, "build_builder_command", lambda *_: ["sh", "-c", "cat > /dev/null"])
    monkeypatch.setattr(project_index, "CATCH_UP_SECONDS", 0.0)


async def find(engine, session, text, kind="meaning"):
    answer = await engine.query(q.SearchQuery(session=session, text=text, kind=kind))
    assert isinstance(answer, q.SearchAnswer), answer
    return answer.hits


async def test_the_first_question_of_a_session_without_a_screen_has_the_index_built(project):
    ask = calls(("codebase_search", {"query": "telling a customer that was bought something"}))
    async with session_in(project, access([ask, says("Done.")]), interactive=False) as (engine, session):
        await run_turn(engine, session)
        (result,) = [str(m.content) for m in engine.state(session).messages if isinstance(m, ToolMessage)]
        assert result.startswith("shop/mail.py:1-3 send_receipt\n")
        assert "index" not in result


@pytest.mark.usefixtures("endless_builder")
async def test_an_index_that_takes_longer_than_a_question_waits_is_said_to_be_built(project):
    ask = calls(("codebase_search", {"query": "send_receipt"}))
    async with session_in(project, access([ask, says("Done.")]), interactive=False) as (engine, session):
        await run_turn(engine, session)
        (result,) = [str(m.content) for m in engine.state(session).messages if isinstance(m, ToolMessage)]
        assert result.startswith("shop/mail.py")
        assert "searched by words" in result


@pytest.mark.usefixtures("endless_builder")
async def test_before_there_is_an_index_files_are_found_by_their_words(project):
    async with session_in(project, access()) as (engine, session):
        hits = await find(engine, session, "send_receipt")
        assert [hit.path for hit in hits] == ["shop/mail.py"], "and what is secret is not"
        assert hits[0].text.startswith("def send_receipt")


async def test_a_pending_edit_is_found_before_it_is_accepted_and_its_old_text_is_not(project):
    async with session_in(project, access(PLAY)) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        (before, *_) = await find(engine, session, "add_tax")
        assert (before.path, before.start, before.is_changed) == ("shop/till.py", 1, False)
        events = await run_turn(engine, session)
        (searched,) = [e for e in events if isinstance(e, ev.ToolFinished) and e.tool == "codebase_search"]
        assert searched.status == "completed"
        for kind in ("meaning", "symbols", "text", "all"):
            (first, *_) = await find(engine, session, "include_levy", kind)
            assert (first.path, first.is_changed) == ("shop/till.py", True), kind
            assert "include_levy" in first.text
        for kind in ("symbols", "text"):
            assert "shop/till.py" not in [hit.path for hit in await find(engine, session, "add_tax", kind)], kind
        assert not [hit for hit in await find(engine, session, "add_tax") if "add_tax" in hit.text]

        await submit(engine, cmd.HunkResolve(session=session, path="shop/till.py", verdict="reject"))
        (after, *_) = await find(engine, session, "add_tax", "all")
        assert (after.path, after.is_changed) == ("shop/till.py", False)
        assert not [hit for hit in await find(engine, session, "include_levy", "all") if "include_levy" in hit.text]


async def test_what_is_named_as_was_asked_comes_before_what_speaks_of_it(project):
    uses = "".join(
        f"        make_formatter = self.get_formatter({n})  # make_formatter of a parser\n" for n in range(20)
    )
    (project / "shop" / "argparse.py").write_text(f"class HelpFormatter:\n    def get_formatter(self):\n{uses}")
    (project / "tests").mkdir()
    (project / "tests" / "test_help.py").write_text("def make_formatter():\n    return HelpFormatter\n")
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        for text in ("make_formatter", "MAKE_FORMATTER()"):
            hits = await find(engine, session, text, "all")
            assert (hits[0].path, hits[0].symbol) == ("tests/test_help.py", "make_formatter"), hits
        assert len({(hit.path, hit.start) for hit in hits}) == len(hits)


async def test_lines_that_hold_the_text_come_first_each_at_its_line_then_what_is_related_once(project):
    (project / "shop" / "notes.md").write_text("# Mail\n\nsend_receipt is called at the till.\nAgain: send_receipt.\n")
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        answer = await engine.query(q.SearchQuery(session=session, text="send_receipt", kind="all"))
        written, related = answer.hits[: answer.related_from], answer.hits[answer.related_from :]
        assert [(hit.path, hit.start, hit.end) for hit in written] == [
            ("shop/mail.py", 1, 1),
            ("shop/notes.md", 3, 3),
            ("shop/notes.md", 4, 4),
        ]
        assert all("send_receipt" in hit.text for hit in written)
        assert written[0].symbol == "send_receipt"
        assert not [hit for hit in related if "send_receipt" in hit.text]
        nowhere = await engine.query(q.SearchQuery(session=session, text="e-mail a receipt to customers", kind="all"))
        assert nowhere.related_from == 0
        assert nowhere.hits[0].path in {"shop/mail.py", "shop/notes.md"}
        for kind in ("symbols", "text", "meaning"):
            one = await engine.query(q.SearchQuery(session=session, text="send_receipt", kind=kind))
            assert one.related_from is None


async def test_ever_so_many_lines_leave_room_for_what_is_related(project):
    (project / "shop" / "many.py").write_text("".join(f"total_{n} = 1  # total\n" for n in range(300)))
    (project / "shop" / "sums.py").write_text("def add_up(prices):  # the sum of a basket\n    return sum(prices)\n")
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        answer = await engine.query(q.SearchQuery(session=session, text="total", kind="all", limit=40))
        assert len(answer.hits) <= 40
        assert 30 <= answer.related_from <= 40


async def test_what_the_tool_answers_names_places_and_says_what_is_pending(project):
    async with session_in(project, access(PLAY)) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        await run_turn(engine, session)
        (result,) = [m.content for m in engine.state(session).messages if "include_levy(self" in str(m.content)][-1:]
        assert "shop/till.py:1-3 Till (changed in the shadow)\nclass Till:" in result


async def test_any_question_is_answered(project):
    async with session_in(project, access()) as (engine, session):
        for text in ("", " ", "(", "a" * 30_000, "\\", "'", "日本"):
            for kind in ("all", "symbols", "text", "meaning"):
                assert isinstance(await find(engine, session, text, kind), tuple)
        assert await find(engine, session, "send_receipt", "text")


async def test_of_more_pending_files_than_are_searched_the_rest_is_found_as_it_is_on_disk(project, monkeypatch):
    monkeypatch.setattr(project_search, "MAX_PENDING", 1)
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        for path, text in (("shop/mail.py", MAIL), ("shop/till.py", TILL)):
            engine._sessions[session].shadow.edit(path, f"{text}# levy\n".encode(), Origin(tool="write"))
        hits = await find(engine, session, "levy")
        assert [hit.path for hit in hits if "levy" in hit.text] == ["shop/mail.py"]
        (first, *_) = await find(engine, session, "add_tax")
        assert (first.path, first.is_changed) == ("shop/till.py", True)


async def test_a_name_is_completed_within_the_name_it_stands_in(project):
    members = "class Cart:\n    def total(self):\n        ...\n\n    def take(self):\n        ...\n"
    (project / "shop" / "cart.py").write_text(f"{members}\n\ndef total():\n    ...\n")
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)

        async def complete(pattern):
            answer = await engine.query(q.CompletionQuery(session=session, pattern=pattern))
            return [completion.word for completion in answer.completions if completion.note and ":" in completion.note]

        assert await complete("Cart.t") == ["Cart.take", "Cart.total"]
        assert await complete("cart.to") == ["Cart.total"]
        assert await complete("Cart.") == ["Cart.take", "Cart.total"]
        assert await complete("to") == ["total", "Cart.total"]
        assert await complete("art.to") == []
        answer = await engine.query(q.CompletionQuery(session=session, pattern="Cart"))
        assert [completion.word for completion in answer.completions][:2] == ["Cart", "shop/cart.py"]
