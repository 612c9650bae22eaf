"""Queries about rules and notes: all that there are, each with the reason why it binds now or does not."""

from __future__ import annotations

import asyncio

from core.config.rules.loading import load_rule_files
from core.config.rules.notes import ProjectNotes
from core.config.rules.places import iter_places_of_rules
from core.config.rules.rule import RuleOccasion, choose_rules, list_loaded
from core.engine.queries.source import QuerySource
from core.permissions.trusted_files import TrustCheck
from core.protocol import queries as q
from core.protocol.events import LoadedRule
from core.workspace import Workspace


async def answer_rules(source: QuerySource, query: q.RulesQuery) -> q.RulesAnswer:
    """Return every rule. With an open session: as its model was told of them."""
    session, trust = source.sessions.get(query.session), source.services.trust
    if session is None or session.context is None:
        check = trust.is_readable if trust.trusted else None
        rules = await asyncio.to_thread(list_rules, source.services.workspace, check)
        return q.RulesAnswer(rules=rules, is_trusted=trust.trusted)
    from core.agent.context.rule_injection import review_rules
    from core.agent.turn.prompt_setup import load_setup

    context = session.context
    nearby_paths = await asyncio.to_thread(_list_places, source.services.workspace) if trust.trusted else ()
    system = (await load_setup(context)).prefix.system
    review = await review_rules(context, system, context.memory.relevant_paths, nearby_paths=nearby_paths)
    return q.RulesAnswer(rules=review.list_rules(), is_trusted=trust.trusted)


def list_rules(workspace: Workspace, check: TrustCheck | None, paths: tuple[str, ...] = ()) -> tuple[LoadedRule, ...]:
    """List every rule as it would bind for files at hand in a session that began now. Reads the tree."""
    nearby_paths = (*_list_places(workspace), *paths) if check is not None else ()
    files = load_rule_files(workspace, check, nearby_paths=nearby_paths)
    return list_loaded(files, choose_rules(files, RuleOccasion(paths)))


def _list_places(workspace: Workspace) -> tuple[str, ...]:
    return tuple(iter_places_of_rules(workspace))


async def answer_memory(source: QuerySource, _: q.MemoryQuery) -> q.MemoryAnswer:
    """Return the notes about the project. Raises `StateError` when their file can't be read."""
    notes = ProjectNotes(source.services.workspace.root)
    return q.MemoryAnswer(notes=await asyncio.to_thread(notes.load))
