"""A real engine process that commits what a session accepted: `python commit_host.py DIR SESSION SPLIT`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


async def commit_accepted(directory: Path, session: str, split: str) -> None:
    from core.protocol import commands as cmd
    from core.protocol import queries as q
    from tests.support.commits import commit
    from tests.support.open_session import session_in
    from tests.support.story import access

    async with session_in(directory, access(), cmd.SessionResume(session=session)) as (engine, _):
        answer = await engine.query(q.CommitQuery(session=session, split=split))
        print("ready", flush=True)
        ends = await commit(engine, session, answer, hooks="machine")
        print(*(type(end).__name__ for end in ends), flush=True)
        os.close(1)
        sys.stdin.read()  # killed here at the latest


if __name__ == "__main__":
    asyncio.run(commit_accepted(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
