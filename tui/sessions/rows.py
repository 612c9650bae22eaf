"""Sessions and search hits as rows of a list. Titles, tags and quotes are foreign text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.queries import SessionInfo, TranscriptHit
from core.text.counting import count
from core.text.display_names import shorten_model
from tui.quantities import format_age
from tui.text import fit_line, replace_hidden

TITLE: Final = 70
_MUTED: Final = "$foreground 55%"
_KINDS: Final = {"title": "title", "prompt": "you", "command": "ran", "tool": "called", "review": "review"}


class SessionGroup(NamedTuple):
    """Sessions under one heading."""

    heading: str
    sessions: tuple[SessionInfo, ...]


def is_unavailable(session: SessionInfo) -> bool:
    """True if a session can't be opened here: another program has it, or its log can't be read."""
    return session.locked or bool(session.problem)


def is_quiet_run(session: SessionInfo) -> bool:
    """True for a run of `-p` without pending work."""
    return session.unattended and not (session.pending or session.asked or session.tags or session.locked)


def group_sessions(sessions: Sequence[SessionInfo]) -> list[SessionGroup]:
    """Return running sessions, those that need the user, and the rest, the latest first; empty groups are left out."""
    running = tuple(session for session in sessions if session.locked)
    waiting = tuple(session for session in sessions if not session.locked and (session.pending or session.asked))
    recent = tuple(
        session
        for session in sessions
        if not (session.locked or session.pending or session.asked or is_quiet_run(session))
    )
    groups = (("Open elsewhere", running), ("Needs you", waiting), ("Recent", recent))
    return [SessionGroup(name, members) for name, members in groups if members]


def matches(session: SessionInfo, words: Sequence[str]) -> bool:
    """True if the displayed text of the session contains every word."""
    tags = " ".join(f"#{tag}" for tag in session.tags)
    text = f"{session.title} {session.model} {session.mode} {session.branch} {tags} {session.id}".casefold()
    return all(word in text for word in words)


def format_session(session: SessionInfo, now: int, *, is_current: bool) -> Content:
    """Return the two lines of a session in the list to choose from."""
    facts = (
        count("turn", session.turns),
        fit_line(session.branch, 30),
        fit_line(shorten_model(session.model), 40),
        fit_line(session.mode, 12),
    )
    details = " · ".join(filter(None, (format_age(now - session.updated), *facts)))
    parts = [_format_title(session, TITLE), *_format_tags(session), Content.styled(f"\n  {details}", _MUTED)]
    parts += _format_waiting(session)
    if is_current:
        parts.append(Content.styled(" · this session", "$accent"))
    elif session.locked:
        parts.append(Content.styled(" · open elsewhere", "$text-warning"))
    if session.problem:
        parts.append(Content.styled(f" · {fit_line(session.problem, 120)}", "$text-error"))
    return Content.assemble(*parts)


def format_short(session: SessionInfo, now: int, width: int) -> Content:
    """Format a session in one line of `width` columns: its title, then pending work, branch and age on the right. That
    it is open elsewhere is said by the heading of its group."""
    ends = (
        [Content.assemble(*_format_waiting(session, first=""))]
        if session.pending or session.asked or session.draft
        else []
    )
    if session.running:
        ends.append(Content.styled("running", "$text-warning"))
    if session.problem:
        ends.append(Content.styled("damaged", "$text-error"))
    if width >= 70 and session.branch:
        ends.append(Content.styled(fit_line(session.branch, 24), _MUTED))
    ends.append(Content.styled(format_age(now - session.updated), _MUTED))
    end = Content(" · ").join(ends)
    room = max(width - end.cell_length - 2, 8)
    title = Content.assemble(_format_title(session, room), *_format_tags(session)).truncate(
        room, ellipsis=True, pad=True
    )
    return Content.assemble(title, "  ", end)


def _format_title(session: SessionInfo, width: int) -> Content:
    title = fit_line(session.title, width) or "untitled"
    return Content.styled(title, "$foreground 50%" if is_unavailable(session) else "bold $foreground")


def _format_tags(session: SessionInfo) -> Iterator[Content]:
    for tag in session.tags:
        yield Content.styled(f" #{fit_line(tag, 40)}", "$text-secondary")


def _format_waiting(session: SessionInfo, first: str = " · ") -> list[Content]:
    counts = ((session.pending, f"{session.pending} to review"), (session.asked, count("question", session.asked)))
    phrases = [words for number, words in counts if number] + ["unsent text"] * session.draft
    return [
        Content.styled(f"{first if not index else ' · '}{words}", "$text-warning")
        for index, words in enumerate(phrases)
    ]


def format_hit(hit: TranscriptHit, now: int) -> Content:
    """Return the two lines of a hit: the session that it is in, and the line with its words."""
    title = fit_line(hit.title, TITLE) or "untitled"
    kind = _KINDS.get(hit.kind, hit.kind)
    head = Content.assemble(
        (title, "$foreground 80%"), (f"  {format_age(now - hit.at)}", _MUTED), (f"\n  {kind:<7}", _MUTED)
    )
    return head + _mark(hit)


def _mark(hit: TranscriptHit) -> Content:
    text, parts, offset = replace_hidden(hit.text), list[Content | tuple[str, str]](), 0
    for start, end in hit.marks:
        parts += [Content(text[offset:start]), (text[start:end], "bold $accent")]
        offset = end
    return Content.assemble(*parts, text[offset:])
