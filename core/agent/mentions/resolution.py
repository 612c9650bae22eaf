"""Resolves a prompt: its mentions and plain names become items of context, or problems.

A mention that names nothing is a problem, for which the prompt is refused, unless it is plainly something else (see
`mention_syntax`). A plain word that names nothing is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec.structs import replace

from core.agent.mentions.discovery import build_file_item, build_places_item, discover_context, find_symbol, split_name
from core.agent.mentions.mention_syntax import (
    SOURCES,
    SPECIAL_WORDS,
    Mention,
    TextSpan,
    find_plain_names,
    is_address,
    parse_mentions,
)
from core.agent.mentions.sources import ContextSources
from core.errors import AgentTuiError, MentionRefused, PathRefused, WebFailed
from core.protocol.queries import ContextItem, ContextProblem, PromptContextAnswer
from core.text.counting import count

MAX_MENTIONS: Final = 30
MAX_PLACES: Final = 60  # definitions of one mentioned name
MAX_LINED: Final = 20_000_000  # bytes of a file of which lines are mentioned
SHARED_BEGINNING: Final = 3  # first letters that a suggested symbol shares with the mention
AS_TEXT: Final = "Put it between `backticks` to send it as text."
MAX_PAGES: Final = 5  # of one prompt
RESOURCE: Final = "resource:"  # before a server and a URI, in the key of its item
PAGE: Final = "page:"  # before an address, in the key of its item


async def resolve_prompt(
    sources: ContextSources, prompt: str, pasted_spans: Iterable[TextSpan] = (), excluded_keys: Collection[str] = ()
) -> PromptContextAnswer:
    """Return the context of a prompt without `excluded_keys`, and its problems."""
    spans = tuple(pasted_spans)
    answer = await resolve_mentions(sources, prompt, spans, excluded_keys)
    items = {item.key: item for item in answer.items}
    plain = find_plain_names(prompt, [mention.text for mention in parse_mentions(prompt, spans)], spans)
    for item in await discover_context(sources, plain):
        items.setdefault(item.key, item)
    remaining_items = tuple(item for item in items.values() if item.key not in excluded_keys)
    return PromptContextAnswer(items=remaining_items, problems=answer.problems)


async def resolve_mentions(
    sources: ContextSources, prompt: str, pasted_spans: Iterable[TextSpan] = (), excluded_keys: Collection[str] = ()
) -> PromptContextAnswer:
    """Return the items of a prompt's mentions, and their problems."""
    items: dict[str, ContextItem] = {}
    problems: dict[str, ContextProblem] = {}
    for mention in parse_mentions(prompt, pasted_spans):
        if mention.text in excluded_keys:
            continue
        if len(items) >= MAX_MENTIONS:
            refusal = MentionRefused(f"a prompt takes at most {MAX_MENTIONS} mentions.", hint="Mention a directory.")
            problems[mention.text] = _build_problem(mention, refusal)
            break
        if is_address(mention.name) and sum(item.kind == "page" for item in items.values()) >= MAX_PAGES:
            refusal = MentionRefused(f"a prompt takes at most {MAX_PAGES} pages.", hint="Send it without this one.")
            problems[mention.text] = _build_problem(mention, refusal)
            continue
        try:
            item = await resolve_mention(sources, mention)
        except (MentionRefused, PathRefused) as refusal:
            problems[mention.text] = _build_problem(mention, refusal)
        else:
            if item is not None:
                items.setdefault(item.key, item)
    return PromptContextAnswer(items=tuple(items.values()), problems=tuple(problems.values()))


def _build_problem(mention: Mention, error: AgentTuiError) -> ContextProblem:
    hint = f"{error.hint} {AS_TEXT}".lstrip()
    return ContextProblem(key=mention.text, message=f"{mention.text}: {error.message}", hint=hint)


async def resolve_mention(sources: ContextSources, mention: Mention) -> ContextItem | None:
    """Return the item of a mention, None = it is plainly something else. Raises `MentionRefused`, `PathRefused`."""
    mention_text = mention.text[1:]
    if is_address(mention.name):
        return _build_page_item(mention.name)
    word, colon, name = mention_text.partition(":")
    if mention_text in SPECIAL_WORDS or (colon and word in SOURCES):
        return await sources.session.find(word, name)
    if (item := await _find_resource(sources, mention_text) or _resolve_path(sources, mention)) is not None:
        return item
    if not mention.start and (symbol := await _resolve_symbol(sources, mention.name)) is not None:
        return symbol
    if (session_item := await sources.session.find_named(mention.name)) is not None:
        return session_item
    if mention.is_code and not _is_in_project(sources, mention.name):
        return None
    raise await _build_refusal(sources, mention)


async def _find_resource(sources: ContextSources, mention_text: str) -> ContextItem | None:
    server, _, uri = mention_text.strip('"').partition(":")
    return await sources.session.find_resource(server, uri) if uri else None


def _build_page_item(text: str) -> ContextItem:
    """Build the item of a page; it is fetched when the prompt is sent."""
    from core.web.address import parse_address

    try:
        address = str(parse_address(text))
    except WebFailed as problem:
        raise MentionRefused(f"{problem.message[:1].lower()}{problem.message[1:]}", hint=problem.hint) from None
    label = address.partition("://")[2].removesuffix("/")
    return ContextItem(
        key=f"{PAGE}{address}", kind="page", label=label, reason="mentioned; it is fetched when you send the prompt"
    )


def _resolve_path(sources: ContextSources, mention: Mention) -> ContextItem | None:
    mention_text, name = mention.text[1:].strip('"'), mention.name
    for path, start, end in ((mention_text, 0, 0), (name, mention.start, mention.end)):
        if kind := _find_kind(sources, path):
            return _build_path_item(sources, sources.reader.relative(path), kind, start, end)
    if name.startswith("/"):
        return None
    files = _filter_existing(sources, sources.find_files(name), "file")
    matches = files or _filter_existing(sources, sources.names.find_directories(name), "directory")
    kind = "file" if files else "directory"
    if len(matches) == 1:
        return _build_path_item(sources, matches[0], kind, mention.start, mention.end)
    if matches and mention.start:
        some = f"{', '.join(matches[:3])}{', …' if len(matches) > 3 else ''}"
        raise MentionRefused(f"{len(matches)} files are called {name}: {some}.", hint="Write more of the path.")
    return build_places_item(name, "file" if files else "folder", matches, "mention") if matches else None


def _is_in_project(sources: ContextSources, name: str) -> bool:
    """True if a name can only mean a file of the project, by its first directory or its ending."""
    above, slash, _ = name.partition("/")
    if slash:  # `@types/` is a scope of packages, and often a directory as well.
        return above != "types" and _find_kind(sources, above) == "directory"
    return name.rpartition(".")[2] in sources.names.endings - {name}


def _find_kind(sources: ContextSources, path: str) -> str:
    try:
        return sources.find_kind(path)
    except ValueError:  # no file can have this name
        return ""


def _filter_existing(sources: ContextSources, paths: tuple[str, ...], kind: str) -> tuple[str, ...]:
    return tuple(path for path in paths[:MAX_PLACES] if _find_kind(sources, path) == kind)


def _build_path_item(sources: ContextSources, path: str, kind: str, start: int, end: int) -> ContextItem:
    if kind == "directory":
        if start:
            raise MentionRefused(f"{path} is a directory, so it has no lines.")
        label = "the project" if path == "." else f"{path}/"
        return ContextItem(key=f"folder:{path}", kind="folder", label=label, path=path, reason="mentioned")
    if kind != "file":
        raise MentionRefused(f"{path} is not a regular file.")
    if not start:
        return build_file_item(sources, path)
    return build_file_item(sources, path, start, _clip_end(sources, path, start, end))


def _clip_end(sources: ContextSources, path: str, start: int, end: int) -> int:
    if start < 1:
        raise MentionRefused("the first line is 1.")
    if end < start:
        raise MentionRefused(f"the last line ({end}) is before the first ({start}).")
    text = sources.read_lines(path, MAX_LINED)
    if text is None:
        raise MentionRefused(f"{path} is not text, or is too large to quote lines from.")
    if start > len(text):
        raise MentionRefused(f"{path} has {count('line', len(text))}.")
    return min(end, len(text))


async def _resolve_symbol(sources: ContextSources, name: str) -> ContextItem | None:
    parts = split_name(name)
    if not all(part.replace("$", "_").isidentifier() for part in parts):
        return None
    symbol_places = await sources.list_defining_files((parts[-1],))
    item = find_symbol(sources, name, symbol_places.get(parts[-1], ()), MAX_PLACES)
    return None if item is None else replace(item, origin="mention", reason="mentioned")


async def _build_refusal(sources: ContextSources, mention: Mention) -> MentionRefused:
    is_path = "/" in mention.name or bool(mention.start) or "." in mention.name[1:]
    extra_names = () if is_path else (*SPECIAL_WORDS, *await sources.list_names(mention.name[:SHARED_BEGINNING]))
    nearest_names = sources.names.find_near(mention.name, extra_names)
    hint = f"Did you mean {' or '.join(f'@{name}' for name in nearest_names)}?" if nearest_names else ""
    later = f" ({sources.index_state})" if sources.index_state and not is_path else ""
    return MentionRefused(f"there is no file {'' if is_path else 'or symbol '}with this name{later}.", hint=hint)
