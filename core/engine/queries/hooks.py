"""The query about hooks: all that there are, whether each runs, and how it ended last."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from core.engine.hooks.session import load_trusted_hooks
from core.engine.queries.source import QuerySource
from core.hooks.hook_files import HookTable, explain_missing
from core.hooks.parsing import Hook
from core.protocol import queries as q
from core.protocol.events import HookRan


async def answer_hooks(source: QuerySource, query: q.HooksQuery) -> q.HooksAnswer:
    """Return every hook as its file has it now. With an open session: how each ended last in it."""
    services = source.services
    trust, session = services.trust, source.sessions.get(query.session)
    table = await asyncio.to_thread(load_trusted_hooks, services.workspace, trust)
    last = session.state.hook_results if session is not None else {}
    rows = await asyncio.to_thread(list_hooks, table, services.workspace.root, last)
    problems = tuple(f"{problem.source}: {problem.message}" for problem in table.problems)
    return q.HooksAnswer(hooks=rows, problems=problems, is_trusted=trust.trusted)


def list_hooks(table: HookTable, root: Path, last: Mapping[str, HookRan]) -> tuple[q.HookRow, ...]:
    """Return a row for each hook, those that run first, in their order. `last`: how each ended, by its id."""
    return (
        *(_build_row(hook, "yours" if hook.scope == "user" else "trusted", root, last) for hook in table.hooks),
        *(_build_row(hook, "held", root, last) for hook in table.held),
    )


def _build_row(hook: Hook, trust: q.HookTrust, root: Path, last: Mapping[str, HookRan]) -> q.HookRow:
    return q.HookRow(
        id=hook.id,
        event=hook.event,
        matcher=" ".join(filter(None, (hook.matcher, f"if {hook.condition}" if hook.condition else ""))),
        command=hook.command,
        source=hook.source,
        trust=trust,
        timeout=hook.timeout,
        fails_closed=hook.fails_closed,
        problem=explain_missing(hook, root),
        last=last.get(hook.id),
    )
