"""The files that a server was given, and how long it is waited for."""

from __future__ import annotations

from core.lsp.checked_files import MAX_UNANSWERED, CheckedFiles, TextPair
from core.lsp.connection import ServerConnection


async def test_a_server_that_answers_nothing_is_not_asked_for_every_file(tmp_path, monkeypatch):
    asked = []

    async def never(_, path, *, seconds):
        asked.append(path)

    monkeypatch.setattr(ServerConnection, "diagnose", never)
    server, files = ServerConnection("x", tmp_path, lambda _: None, {}), CheckedFiles()
    pairs = {f"m{number}.py": TextPair("x = 2\n", "x = 1\n") for number in range(20)}
    await files.update(server, pairs)
    await files.check(server, list(pairs), alone=False)
    assert (len(asked), files.is_silent) == (MAX_UNANSWERED, True)
