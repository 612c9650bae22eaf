"""Queries about sessions and settings: lists, history, search, exports, jobs, models, permissions and debug runs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from msgspec.structs import replace

from core.config.manual import find_page, list_pages, read_title, render_page
from core.engine.commands.settings import list_command_line_values
from core.engine.configuration.explanation import SettingSources, explain_settings, list_tables
from core.engine.configuration.guide_file import choose_file, load_guide
from core.engine.configuration.settings_lint import check_configuration
from core.engine.queries.source import QuerySource
from core.engine.session.session import Session
from core.engine.shared.models import ModelAccess
from core.errors import AgentTuiError, CommandRejected
from core.git.layout import find_repository
from core.git.nested_repositories import find_nested_repositories
from core.modes import Access
from core.permissions.policy import CommandTerms, check_pattern, decide_call
from core.permissions.rules import parse_rule
from core.permissions.saved_rules import SESSION_PREFIX, SavedRule, SavedRules
from core.protocol import queries as q
from core.protocol.debug import ProbeRecord
from core.sandbox.results import JobReport, describe_end
from core.sessions.listing import SessionSummary, list_sessions, load_prompts
from core.sessions.store import SessionStore
from core.user_dirs import get_config_dir

THEMES_DIRECTORY: Final = "themes"
READING_SECONDS: Final = 0.25  # limit for indexing new logs before a search
MAX_TOUCHED: Final = 200  # paths of a job
MAX_ALSO: Final = 5  # further commands that a pattern would cover
_WILDCARD_EXAMPLE: Final = "anything"
MAX_RECORDS: Final = 2_000  # records of a debug run
MAX_PLACES: Final = 500  # positions in which two runs differ
MAX_SIDE: Final = 40  # records of either run at such a position


def answer_settings(source: QuerySource, _: q.SettingsQuery) -> q.SettingsAnswer:
    settings, root = source.services.settings, source.services.workspace.root
    ui, detach = settings.ui, settings.detach
    repository = find_repository(root)
    return q.SettingsAnswer(
        above="" if repository is None or repository.root == root else str(repository.root),
        theme=ui.theme,
        themes=str(get_config_dir() / THEMES_DIRECTORY),
        syntax=ui.syntax,
        colors=ui.colors,
        glyphs=ui.glyphs,
        plain=ui.plain,
        prompt_keys=ui.prompt_keys,
        notify=settings.notify,
        keymap=ui.keymap,
        detach_on_hangup=detach.on_hangup,
        idle_minutes=detach.idle_minutes,
    )


async def answer_guide(source: QuerySource, _: q.GuideQuery) -> q.GuideAnswer:
    """Return the state of the guide; no tour in private sessions, which save nothing, and in the demo, which has its
    own."""
    guide = await asyncio.to_thread(load_guide)
    services = source.services
    is_elsewhere = any(session.state.is_demo or session.state.is_private for session in source.sessions.values())
    if guide.tour == "done" or is_elsewhere:
        return q.GuideAnswer(shown=guide.shown, used=guide.used, chosen=guide.chosen)
    paths = await services.files.find("", limit=500, directories=False, extra=())
    return q.GuideAnswer(
        tour=guide.tour, file=choose_file(paths), shown=guide.shown, used=guide.used, chosen=guide.chosen
    )


async def answer_config(source: QuerySource, query: q.ConfigQuery) -> q.ConfigAnswer:
    """Return the effective settings, and all problems except those of the client's part. Raises `ConfigError`."""
    return await asyncio.to_thread(_explain, source, query.key)


def _explain(source: QuerySource, key: str) -> q.ConfigAnswer:
    services = source.services
    trust, workspace = services.trust, services.workspace
    sources = SettingSources(workspace.root if trust.trusted else None, list_command_line_values(services.options))
    rows = explain_settings(services.settings, sources, key)
    rows += () if key else tuple(list_tables(services.settings))
    problems = check_configuration(workspace, trust.is_readable if trust.trusted else None, lambda _: ())
    return q.ConfigAnswer(settings=rows, problems=tuple(problems))


async def answer_manual(_: QuerySource, query: q.ManualQuery) -> q.ManualAnswer:
    """Return a page of the manual, and the names of all."""
    return await asyncio.to_thread(_read_manual, query.page)


def _read_manual(words: str) -> q.ManualAnswer:
    page = find_page(words)
    pages = tuple(q.ManualPage(name=name, title=read_title(name)) for name in list_pages())
    return q.ManualAnswer(page=page, text=render_page(page), pages=pages)


async def answer_sessions(source: QuerySource, query: q.SessionsQuery) -> q.SessionsAnswer:
    open_summaries, store = _summarize_open(source), source.services.store
    return q.SessionsAnswer(
        sessions=await asyncio.to_thread(list_sessions, store, limit=query.limit, summaries=open_summaries)
    )


async def answer_transcripts(source: QuerySource, query: q.TranscriptSearchQuery) -> q.TranscriptSearchAnswer:
    """Return hits of words in the transcripts of the workspace. Raises `StateError`."""
    return await asyncio.to_thread(_search_transcripts, source.services.store, query)


def _search_transcripts(store: SessionStore, query: q.TranscriptSearchQuery) -> q.TranscriptSearchAnswer:
    from core.sessions.transcript_search import TranscriptIndex

    with TranscriptIndex(store) as index:
        unread = index.refresh(READING_SECONDS)
        return q.TranscriptSearchAnswer(
            hits=index.search(query.words, limit=query.limit, is_partial=query.typed), unread=unread
        )


async def answer_export(source: QuerySource, query: q.ExportQuery) -> q.ExportAnswer:
    """Return a session, open or not, as a document. Raises `StateError`."""
    from core.engine.export.documents import export_session

    store, session = source.services.store, source.find_session(query.session)
    log = session.log if session is not None and session.log.find_loss() else None
    if log is None and not store.has_session(query.session):
        store.open(query.session)  # raises, as there is none
    directory = store.get_path(query.session)
    return await asyncio.to_thread(export_session, directory, query.format, log, query.instance)


async def answer_jobs(source: QuerySource, query: q.JobsQuery) -> q.JobsAnswer:
    """Return the background jobs with their latest output and the paths that they have changed."""
    jobs = source.require_session(query.session).terminal.jobs
    running, job_infos = {job.id: job for job in jobs.running_jobs}, list[q.JobInfo]()
    for report in jobs.list_with_output(query.lines):
        if (job := running.get(report.id)) is None:
            job_infos.append(_describe_job(report))
            continue
        touched_paths = await asyncio.to_thread(job.execution.list_touched)
        job_infos.append(
            replace(
                _describe_job(report),
                changed=touched_paths[:MAX_TOUCHED],
                changed_count=len(touched_paths),
                missed_count=job.execution.missed_count,
                sees_edits=job.running.edits is not None,
                restarts_on_edit=jobs.restarts_on_edit(job),
                restart_count=job.restart_count,
            )
        )
    return q.JobsAnswer(jobs=tuple(reversed(job_infos)))


def _describe_job(report: JobReport) -> q.JobInfo:
    result = report.result
    outcome = "" if result is None else describe_end(result.exit_code, result.ended)
    return q.JobInfo(
        id=report.id,
        command=report.command,
        directory=report.directory,
        duration_ms=report.duration_ms,
        output=report.output,
        ended=", ".join(filter(None, (outcome, result.effects if result is not None else ""))),
    )


async def answer_background(source: QuerySource, _: q.BackgroundQuery) -> q.BackgroundAnswer:
    return q.BackgroundAnswer(agents=await source.services.background.list_agents())


async def answer_prompt_history(source: QuerySource, query: q.PromptHistoryQuery) -> q.PromptHistoryAnswer:
    open_summaries, store = _summarize_open(source), source.services.store
    load = partial(load_prompts, store, limit=query.limit, pattern=query.pattern, summaries=open_summaries)
    return q.PromptHistoryAnswer(prompts=await asyncio.to_thread(load))


def _summarize_open(source: QuerySource) -> dict[str, SessionSummary]:
    return {name: session.build_summary() for name, session in source.sessions.items()}


async def answer_idle(source: QuerySource, query: q.IdleQuery) -> q.IdleAnswer:
    session = source.require_session(query.session)
    await session.tasks.wait_idle()
    return q.IdleAnswer(seq=session.state.seq)


async def answer_models(source: QuerySource, query: q.ModelsQuery) -> q.ModelsAnswer:
    from core.providers.discovery import discover_models

    return await discover_models(source.services.settings, probe=query.discover)


async def answer_routes(source: QuerySource, query: q.RoutesQuery) -> q.RoutesAnswer:
    from core.engine.session.model_routes import build_route_table

    session = source.sessions.get(query.session)
    state, models = (session.state, session.services.models) if session is not None else (None, ModelAccess())
    return await asyncio.to_thread(build_route_table, source.services.settings, models, state)


async def answer_context(source: QuerySource, query: q.ContextQuery) -> q.ContextAnswer:
    from core.engine.queries.model_context import report_context

    session = source.require_session(query.session)
    return await report_context(session.context, session.state)


async def answer_permissions(source: QuerySource, query: q.PermissionsQuery) -> q.PermissionsAnswer:
    """Return the permissions of a workspace or session. Raises `StateError` when the saved rules can't be read."""
    session, services = source.sessions.get(query.session), source.services
    configured_permissions = [
        q.SavedPermission(choice=rule.choice, rule=str(rule), source=rule.source)
        for rule in services.settings.permissions.parse_rules()
    ]
    saved_rules = session.permissions.rules.saved if session is not None else SavedRules(services.workspace.root)
    saved_permissions = (*configured_permissions, *map(_to_wire, await asyncio.to_thread(saved_rules.load)))
    if session is None:
        return q.PermissionsAnswer(trusted=True, kept=saved_permissions)
    grants = session.permissions.network_grants
    return q.PermissionsAnswer(
        trusted=session.services.trust.trusted,
        kept=(*map(_describe_grant, grants.list_session_grants()), *saved_permissions),
        hosts=grants.list_hosts(),
        services=grants.list_services(),
    )


def _describe_grant(rule: str) -> q.SavedPermission:
    return q.SavedPermission(choice="allow", rule=rule, id=f"{SESSION_PREFIX}{rule}", source="this session")


def _to_wire(saved_rule: SavedRule) -> q.SavedPermission:
    rule, exactly = saved_rule.rule or saved_rule.shown, not saved_rule.rule
    return q.SavedPermission(
        choice=saved_rule.choice, rule=rule, id=saved_rule.id, exactly=exactly, directory=saved_rule.directory
    )


async def answer_machine_place(source: QuerySource, query: q.MachinePlaceQuery) -> q.MachinePlaceAnswer:
    root = source.services.workspace.root
    repositories = await asyncio.to_thread(find_nested_repositories, root, ".", query.command)
    return q.MachinePlaceAnswer(directory=str(root), repositories=repositories)


def answer_pattern(source: QuerySource, query: q.PatternQuery) -> q.PatternAnswer:
    """Return the earlier commands that a pattern would also cover."""
    session, choice = source.sessions.get(query.session), query.choice
    try:
        check_pattern(query.pattern, query.command, choice)
    except AgentTuiError as problem:
        return q.PatternAnswer(problem=problem.format_with_hint())
    rule, terms = parse_rule(f"Shell({query.pattern})", choice), CommandTerms(is_contained=True)
    also = [
        command
        for command in (session.state.command_history if session is not None else ())
        if command != query.command and decide_call(Access.EXEC, command, terms, rules=[rule]).choice == choice
    ]
    example = query.pattern.replace("*", _WILDCARD_EXAMPLE) if "*" in query.pattern else ""
    return q.PatternAnswer(also=tuple(also[-MAX_ALSO:]), example=example)


def answer_probe_log(source: QuerySource, query: q.ProbeLogQuery) -> q.ProbeLogAnswer:
    """Return the filtered log of a debug run, and its comparison with another run, both limited in length. Raises
    `CommandRejected` for an unknown run, `StateError` for a log that can't be read."""
    from core.debug.probe_records import compare_runs, narrow_location

    session, other = source.require_session(query.session), query.compare_with
    records = _load_records(session, query, query.run)
    places = compare_runs(_load_records(session, query, other), records)[:MAX_PLACES] if other else ()
    return q.ProbeLogAnswer(
        run=query.run,
        total=len(records),
        records=records[:MAX_RECORDS],
        compare_with=other,
        places=tuple(narrow_location(location, MAX_SIDE) for location in places),
    )


def _load_records(session: Session, query: q.ProbeLogQuery, run: str) -> tuple[ProbeRecord, ...]:
    from core.debug.probe_records import decode_records, filter_records

    probe_run = session.state.debug.runs.get(run)
    if probe_run is None:
        raise CommandRejected(f"there is no run {run!r}.", code="run_unknown")
    records = decode_records(session.shadow.blobs.get(probe_run.log)) if probe_run.log else ()
    return filter_records(records, hypothesis=query.hypothesis, words=query.words.split())
