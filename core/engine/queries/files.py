"""Queries about files: directories with marks, one file, completion, symbols, search, and the context of a prompt."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import structs

from core.agent.mentions.mention_syntax import SPECIAL_WORDS, find_lines, is_address
from core.agent.mentions.resolution import resolve_prompt
from core.config.rules.loading import load_rule_files
from core.config.rules.rule import list_rule_names
from core.edits.text_file import decode_for_reading
from core.engine.queries.source import QuerySource
from core.engine.session.session import Session
from core.engine.turns.prompt_sources import build_session_reader, list_agent_names, may_show, open_sources
from core.engine.turns.server_prompts import complete_resources
from core.errors import PathRefused, ToolFailed
from core.index.database import IndexFailed
from core.index.reader import SymbolLocation
from core.languages import detect_language
from core.notebooks.notebook import is_notebook_path
from core.notebooks.rendering import choose_limit, find_language, find_notebook_text
from core.protocol import queries as q
from core.workspace import Workspace

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind

MAX_SYMBOLS: Final = 4  # among the completions
MAX_RULES: Final = 4
MAX_ENTRIES: Final = 2_000  # of a directory
MAX_PREVIEW: Final = 2_000_000  # bytes of a file


def answer_tree(source: QuerySource, query: q.TreeQuery) -> q.TreeAnswer:
    session, workspace = source.sessions.get(query.session), source.services.workspace
    rel = workspace.to_relative(query.path or ".")
    directory_entries = (workspace if session is None else session.shadow).list_dir(rel)
    entries = {entry.name: entry.kind for entry in directory_entries}
    marks = {} if session is None else _collect_marks(rel, session)
    for name in marks.keys() - entries.keys():
        entries[name] = "file"
    above = "" if rel == "." else f"{rel}/"
    rows = [
        q.TreeEntry(
            name=name,
            kind=kind,
            ignored=source.ignore.is_ignored(above + name, kind == "directory"),
            mark=marks.get(name, ""),
        )
        for name, kind in sorted(entries.items(), key=lambda pair: (pair[1] != "directory", pair[0].lower()))
        if above + name != ".git"
    ]
    return q.TreeAnswer(
        path="" if rel == "." else rel, entries=tuple(rows[:MAX_ENTRIES]), truncated=max(len(rows) - MAX_ENTRIES, 0)
    )


def answer_plans(source: QuerySource, query: q.PlanFilesQuery) -> q.PlanFilesAnswer:
    """Return the plans of the project. Raises `PathRefused` if the configured directory can't contain plans."""
    folder = source.require_session(query.session).shadow.plans
    return q.PlanFilesAnswer(place=folder.place, paths=tuple(sorted(folder.list_paths())))


def _collect_marks(rel: str, session: Session) -> dict[str, str]:
    above = "" if rel == "." else f"{rel}/"
    marks: dict[str, str] = {}
    for path, change in session.review.changes.items():
        if path.startswith(above):
            name, slash, _ = path[len(above) :].partition("/")
            marks[name] = "edit" if slash else change.operation
    return marks


async def answer_file(source: QuerySource, query: q.FileQuery) -> q.FileAnswer:
    """Return the text of a file; for a notebook its cells, in the notebook's language."""
    session, workspace = source.sessions.get(query.session), source.services.workspace
    limit = max(1, min(query.max_bytes, MAX_PREVIEW))
    try:
        rel = workspace.to_relative(query.path)
        view = workspace if session is None or query.side == "workspace" else session.shadow
        stat = view.stat(rel)
        if stat is None:
            return q.FileAnswer(path=rel, text="", problem="There is no such file.")
        size = stat.size
        read_limit = choose_limit(rel, limit)
        data = (view.read_bytes(rel, read_limit) if isinstance(view, Workspace) else view.read(rel, read_limit)) or b""
    except PathRefused as refused:
        return q.FileAnswer(path=query.path, text="", problem=refused.format_with_hint())
    notebook = await asyncio.to_thread(find_notebook_text, rel, data) if is_notebook_path(rel) else None
    if notebook is not None and len(notebook) <= limit:
        return q.FileAnswer(path=rel, text=notebook, language=find_language(notebook), size=size)
    text, problem = _decode_preview(data, size=size, limit=limit)
    return q.FileAnswer(path=rel, text=text, language=detect_language(rel), size=size, problem=problem)


def _decode_preview(data: bytes, *, size: int, limit: int) -> tuple[str, str]:
    """Return the text of a file, and why there is none ("" = there is one)."""
    if size > limit:
        return "", f"The file has {size:,} bytes; at most {limit:,} are shown."
    if b"\0" in data[:8192]:
        return "", f"A binary file of {size:,} bytes."
    return decode_for_reading(data), ""


async def answer_find(source: QuerySource, query: q.FindQuery) -> q.FindAnswer:
    session = source.sessions.get(query.session)
    pending = [] if session is None else list(session.review.changes)
    paths = await source.services.files.find(
        query.pattern, limit=query.limit, directories=query.directories, extra=pending
    )
    return q.FindAnswer(paths=paths)


async def answer_definition(source: QuerySource, query: q.DefinitionQuery) -> q.LocationsAnswer:
    """Return the definitions of the name at a position."""
    return await _locate(source, query, "definition")


async def answer_references(source: QuerySource, query: q.ReferencesQuery) -> q.LocationsAnswer:
    """Return the references to the name at a position."""
    return await _locate(source, query, "references")


async def _locate(
    source: QuerySource, query: q.DefinitionQuery | q.ReferencesQuery, kind: LocationKind
) -> q.LocationsAnswer:
    from core.lsp.questions import NamePosition, locate

    position = NamePosition(path=query.path, line=query.line, column=query.column)
    try:
        places = await locate(source.require_session(query.session).languages, kind, position)
    except ToolFailed as problem:
        return q.LocationsAnswer(problem=problem.message)
    return q.LocationsAnswer(places=places)


async def answer_hover(source: QuerySource, query: q.HoverQuery) -> q.HoverAnswer:
    """Return the language server's text on the name at a position."""
    from core.lsp.questions import NamePosition, describe_name

    position = NamePosition(path=query.path, line=query.line, column=query.column)
    try:
        return q.HoverAnswer(text=await describe_name(source.require_session(query.session).languages, position))
    except ToolFailed:
        return q.HoverAnswer()


async def answer_search(source: QuerySource, query: q.SearchQuery) -> q.SearchAnswer:
    """Return the best hits of a search, in the files as the session sees them."""
    return await source.services.search(query, build_session_reader(source.require_session(query.session)))


def answer_index(source: QuerySource, query: q.IndexQuery) -> q.IndexAnswer:
    """Return the progress of the index."""
    return q.IndexAnswer(status=source.services.describe_index())


async def answer_prompt_context(source: QuerySource, query: q.PromptContextQuery) -> q.PromptContextAnswer:
    """Return the context items of a prompt, as `turn.submit` would resolve them."""
    sources = await open_sources(source.require_session(query.session))
    return await resolve_prompt(sources, query.text, query.pasted, query.excluded)


async def answer_completion(source: QuerySource, query: q.CompletionQuery) -> q.CompletionAnswer:
    """Complete a word after `@`: special words and rules, a symbol of exactly this name, paths and symbols with this
    prefix, then similar paths. Files that are withheld from the agent are excluded."""
    pattern, session, services = query.pattern.strip('"'), source.sessions.get(query.session), source.services
    if is_address(pattern):
        return q.CompletionAnswer()
    if lines := find_lines(pattern):
        return await _complete_lines(source, query, pattern.removesuffix(lines), lines)
    words = [q.Completion(word=word, note=note) for word, note in SPECIAL_WORDS.items() if word.startswith(pattern)]
    pending = [] if session is None else list(session.review.changes)
    paths = await services.files.find(pattern, limit=query.limit, directories=True, extra=pending)
    if session is not None:
        reader = build_session_reader(session)
        paths = tuple(path for path in paths if may_show(reader, path.rstrip("/")))
    words += await _complete_rules(source, pattern) if pattern else []
    words += await _complete_agents(session, pattern) if session is not None else []
    words += await complete_resources(session.server_access.servers, pattern) if session is not None else []
    symbols = await _complete_symbols(source, pattern) if pattern else []
    room = max(query.limit - len(words) - len(symbols), 1)
    prefix_matches = [path for path in paths if _begins_with(path, pattern.lower())][:room]
    others = [path for path in paths if path not in prefix_matches]
    files, other_completions = ([_describe_path(path) for path in group] for group in (prefix_matches, others))
    exact_symbols = [symbol for symbol in symbols if symbol.word == pattern]
    prefix_symbols = [symbol for symbol in symbols if symbol.word != pattern]
    return q.CompletionAnswer(
        completions=tuple([*words, *exact_symbols, *files, *prefix_symbols, *other_completions][: query.limit])
    )


async def _complete_lines(source: QuerySource, query: q.CompletionQuery, name: str, lines: str) -> q.CompletionAnswer:
    """Complete the file in a mention with lines; no completions if the path is complete already."""
    answer = await answer_completion(source, structs.replace(query, pattern=name))
    candidate_words = (
        completion.word
        for completion in answer.completions
        if not completion.note and not completion.word.startswith('"')
    )
    matches = [word for word in candidate_words if _begins_with(word, name.lower())]
    words = () if name in matches else tuple(q.Completion(word=word + lines) for word in matches)
    return q.CompletionAnswer(completions=words)


def _begins_with(path: str, pattern: str) -> bool:
    return path.lower().startswith(pattern) or path.rstrip("/").rpartition("/")[2].lower().startswith(pattern)


def _describe_path(path: str) -> q.Completion:
    return q.Completion(word=quote_name(path), note="directory" if path.endswith("/") else "")


async def _complete_rules(source: QuerySource, pattern: str) -> list[q.Completion]:
    trust = source.services.trust
    check = trust.is_readable if trust.trusted else None
    files = await asyncio.to_thread(load_rule_files, source.services.workspace, check)
    plain = [name for name in list_rule_names(files) if quote_name(name) == name]
    words = [f"rule:{name}" for name in plain if name.startswith(pattern) or f"rule:{name}".startswith(pattern)]
    return [q.Completion(word=word, note="rule") for word in words[:MAX_RULES]]


async def _complete_agents(session: Session, pattern: str) -> list[q.Completion]:
    if not pattern or not "agent-".startswith(pattern[: len("agent-")]):
        return []
    words = [f"agent-{name}" for name in await list_agent_names(session)]
    return [q.Completion(word=word, note="subagent") for word in words if word.lower().startswith(pattern.lower())]


async def _complete_symbols(source: QuerySource, pattern: str) -> list[q.Completion]:
    symbol_places: tuple[SymbolLocation, ...] = ()
    with suppress(IndexFailed):
        symbol_places = await source.services.index.read(lambda reader: reader.complete_symbols(pattern, MAX_SYMBOLS))
    return [
        q.Completion(word=symbol_place.symbol, note=f"{symbol_place.kind} · {symbol_place.path}:{symbol_place.start}")
        for symbol_place in symbol_places
    ]


def quote_name(name: str) -> str:
    """Quote a name after `@` if it contains characters that would end the mention."""
    return name if all(character.isalnum() or character in "_./+~-$#@" for character in name) else f'"{name}"'
