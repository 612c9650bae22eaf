"""What a rule keeps from the agent reaches the model by none of the ways that show it a project unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, UserMessage
from tests.support.agent_case import calls, says
from tests.support.configured import configured
from tests.support.open_session import read_until, session_in, submit
from tests.support.own_programs import put_on_path
from tests.support.story import access, project_at
from tests.support.trust import trust

PRIVATE = "def transfer_secret_funds(account_of_boss):\n    return 'zorblax'\n"
USE = "from private.funds import transfer_secret_funds\nfrom shop import pay_all_wages\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "private").mkdir()
    (root / "private" / "funds.py").write_text(PRIVATE)
    for name in ("a", "b", "c"):
        (root / f"{name}.py").write_text(f"{USE}\n\ndef {name}():\n    pay_all_wages(transfer_secret_funds(1))\n")
    (root / "shop.py").write_text("def pay_all_wages(total):\n    return total\n")
    configured('[permissions]\ndeny = ["Read(private/**)"]\n')
    return root


async def test_no_map_search_name_or_definition_shows_it(project):
    asked = calls(
        ("codebase_search", {"query": "transfer secret funds"}),
        ("find_definition", {"path": "a.py", "symbol": "transfer_secret_funds"}),
    )
    async with session_in(project, access([asked, says("Yes.")])) as (engine, session):
        await engine._source.services.index.wait_ready(30)
        await engine._source.services.index._load_map()
        await submit(engine, cmd.TurnSubmit(session=session, text="what does transfer_secret_funds do?"))
        await read_until(engine, session, ev.TurnFinished)
        messages = engine.state(session).messages
        text = "\n".join(message.content for message in messages if isinstance(message, UserMessage | ToolMessage))
        assert "<repo_map>" in text
        assert "pay_all_wages" in text
        assert "account_of_boss" not in text
        assert "zorblax" not in text


async def test_a_language_server_sees_as_little_of_it_as_a_command(project, monkeypatch):
    put_on_path(monkeypatch, "ty", "ruff")
    (project / "private" / "keys.py").write_text("TOKEN_OF_BOSS = 'zorblax'\n")
    (project / "a.py").write_text("from private.keys import TOKEN_OF_BOSS\n\n\nprint(TOKEN_OF_BOSS)\n")
    trust(project)
    asked = [
        calls(("find_definition", {"path": "a.py", "symbol": "TOKEN_OF_BOSS"})),
        calls(("find_references", {"path": "a.py", "symbol": "TOKEN_OF_BOSS"})),
        calls(("search_replace", {"file_path": "a.py", "old_string": "print(", "new_string": "TOKEN_OF_BOSS + 1 + ("})),
    ]
    async with session_in(project, access([*asked, says("Yes."), says("Yes.")])) as (engine, session):
        await submit(engine, cmd.TurnSubmit(session=session, text="look"))
        await read_until(engine, session, ev.TurnFinished)
        messages = engine.state(session).messages
        text = "\n".join(message.content for message in messages if isinstance(message, UserMessage | ToolMessage))
        assert "zorblax" not in text
