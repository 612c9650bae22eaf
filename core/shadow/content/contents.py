"""The content of a path as a state and its bytes: storing, merging, comparing, and what a review can show of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.errors import ContentLost
from core.languages import detect_language
from core.notebooks.notebook import find_notebook
from core.notebooks.rendering import render_sections
from core.patterns import compile_lazily
from core.protocol.review import Change, FileState, Hunk, Operation, Origin
from core.shadow.content.blob_store import BlobStore
from core.shadow.diff.diff_lines import CONTEXT, MAX_LINES, MAX_WIDTH
from core.shadow.diff.hunks import build_whole_hunk, compute_hunks, is_divisible
from core.shadow.diff.text_lines import detect_encoding, find_display_encodings, is_binary, split_lines
from core.shadow.diff.three_way_merge import MergeChunk, is_mergeable, merge_three_way, split_chunks
from core.text.unseen_text import decode_as_shown, describe_unseen
from core.workspace.protected_files import FileRisk, find_file_risk, find_link_risk

_DATA: Final = frozenset({"", "json", "markdown", "restructuredtext", "tex", "diff"})
# Names of code and configuration files without a known language, in lower case.
_MORE_CODE = compile_lazily(
    r"\.(awk|tcl|el|lisp|scm|rkt|vbs|bas|fish|nu|cr|v|sv|vhdl?|hbs|ejs|erb|astro|coffee|pas|asm|s|bzl|star|jsonnet|cue|rego"
    r"|sol|psd1|csproj|vbproj|fsproj|props|targets|sln|service|timer|desktop|cron|reg|spec|ebuild|pp|j2|jinja2?|tpl|tmpl"
    r"|mustache|liquid|pug|haml|jsp|aspx?|phtml|hta|wsf)\Z"
    r"|\A(go\.mod|pipfile|justfile|procfile|brewfile|build|workspace|codeowners|crontab|\.env.*|(requirements|constraints)"
    r"[^/]*\.(txt|in))\Z"
)
_GENERATED = compile_lazily(r"[.-]min\.(js|mjs|cjs|css)\Z|\.(svg|lock)\Z|[.-]lock\.[a-z]+\Z|\.lock\.[a-z]+\Z")
_NOT_PROTECTED = FileRisk("")


def describe_undisplayed(path: str, old: bytes, new: bytes, hunks: Sequence[Hunk]) -> str:
    """Describe the parts of a change that a review cannot show, as the end of "it …"; "" = it shows all.

    Nobody can judge what is not shown, so such a change is protected.
    """
    if not new:
        return ""
    is_code = new.startswith(b"#!") or detect_language(path) not in _DATA or _has_name_of_code(path)
    if is_binary(new) or is_binary(old):
        word = "holds a NUL byte" if is_binary(new) else "held a NUL byte before"
        return f"{word}, so its text is not shown" if is_code else ""
    encoding = find_display_encodings(old, new)[1]
    return describe_unseen(old, new, encoding) or _describe_clipped(path, old, new, hunks, is_code=is_code)


def _has_name_of_code(path: str) -> bool:
    return _MORE_CODE.search(path.rpartition("/")[2].lower()) is not None


def _describe_clipped(path: str, old: bytes, new: bytes, hunks: Sequence[Hunk], *, is_code: bool) -> str:
    if path.lower().endswith(".ipynb"):
        return _describe_long(_count_long_cell_lines(new) - _count_long_cell_lines(old))
    if not is_code or _GENERATED.search(path.lower()):
        return ""
    return _describe_many(hunks) or _describe_long(_count_long_lines(new) - _count_long_lines(old))


def _describe_many(hunks: Sequence[Hunk]) -> str:
    rows = sum(hunk.old_lines + hunk.new_lines + 2 * CONTEXT + 1 for hunk in hunks)
    return f"has more lines than the {MAX_LINES:,} that are shown" if rows > MAX_LINES else ""


def _describe_long(lines: Counter[str]) -> str:
    if not lines:
        return ""
    size, number = max(map(len, lines)), lines.total()
    description = f"{size:,} characters, of which {size - MAX_WIDTH:,} are not shown"
    return (
        f"holds a line of {description}"
        if number == 1
        else f"holds {number:,} long lines, the longest of {description}"
    )


def _count_long_lines(data: bytes) -> Counter[str]:
    if max(map(len, data.split(b"\n")), default=0) <= MAX_WIDTH:  # no encoding has fewer bytes than characters
        return Counter()
    lines = decode_as_shown(data, detect_encoding(data)).split("\n")
    return Counter(text for line in lines if len(text := line.removesuffix("\r")) > MAX_WIDTH)


def _count_long_cell_lines(data: bytes) -> Counter[str]:
    """Count the long lines in the rendered text of a notebook, where outputs are summarized and code is not."""
    notebook = find_notebook(data) if max(map(len, data.split(b"\n")), default=0) > MAX_WIDTH else None
    sections = render_sections(notebook) if notebook is not None else ()
    return Counter(line for section in sections for line in section.lines if len(line) > MAX_WIDTH)


@contextmanager
def explain_lost_content(path: str) -> Iterator[None]:
    """Raise `ContentLost` with the name of the file whose stored bytes are lost, and the possible remedies."""
    try:
        yield
    except ContentLost as error:
        raise ContentLost(
            f"{path}: {error.message[0].lower()}{error.message[1:]}",
            hint="It can no longer be shown or accepted: reject the file, and have the change made again.",
        ) from error


class ChangeSides(Struct, frozen=True, kw_only=True):
    """The base of a path and its proposed state."""

    base: FileState
    pending: FileState


class Contents(Struct, eq=False):
    """States with their bytes in a `BlobStore`. `risks_by_path`: the risks of paths beyond their names (`Risks`)."""

    blobs: BlobStore
    risks_by_path: dict[str, str] = field(default_factory=dict)

    def read(self, state: FileState) -> bytes:
        """Return the bytes of a state; b"" for an absent path."""
        return b"" if state.kind == "absent" else self.blobs.get(state.blob)

    def read_change(self, change: Change) -> tuple[bytes, bytes]:
        """Return the bytes against which the hunks of a change are counted, and the pending bytes. Raises
        `ContentLost`."""
        return self.read(change.counted_state), self.read(change.pending)

    def store(self, state: FileState, data: bytes | None) -> FileState:
        """Store the bytes of a state that was read from disk, and return the state."""
        if data is not None:
            self.blobs.put(data)
        return state

    def store_file(self, data: bytes, mode: int) -> FileState:
        """Store the bytes of a file, and return its state."""
        return FileState(kind="file", blob=self.blobs.put(data), mode=mode, size=len(data))

    def merge(
        self, base: FileState, ours: FileState, theirs: FileState, *, prefer_ours: bool = False
    ) -> FileState | None:
        """Merge three states: their bytes by lines, their modes, and whether the path exists. None: they clash."""
        if theirs in (ours, base):
            return ours
        if ours == base:
            return theirs
        if not (base.kind == ours.kind == theirs.kind == "file"):
            return ours if prefer_ours else None
        merged_content = merge_three_way(self.read(base), self.read(ours), self.read(theirs), prefer_ours=prefer_ours)
        if merged_content is None:
            return None
        return self.store_file(merged_content, ours.mode if ours.mode != base.mode else theirs.mode)

    def split_chunks(self, base: FileState, ours: FileState, theirs: FileState) -> list[MergeChunk] | None:
        """Split three states into the chunks of their merge; None if they cannot be merged as texts."""
        if not (base.kind == ours.kind == theirs.kind == "file"):
            return None
        sides = [self.read(state) for state in (base, ours, theirs)]
        return split_chunks(*sides) if is_mergeable(*sides) else None

    def build_change(
        self,
        path: str,
        sides: ChangeSides,
        known_hunks: Iterable[Hunk] = (),
        rename_source: tuple[str, FileState] | None = None,
        origin: Origin | None = None,
    ) -> Change:
        """Build the change between two states; hunks with the same content have the ids and todos of `known_hunks`.

        `rename_source`: the old path and state of which the new file is a rename; see `Change.moved`.
        """
        rename_source = rename_source if sides.base.kind == "absent" and sides.pending.kind == "file" else None
        compared_sides = replace(sides, base=rename_source[1]) if rename_source else sides
        old, new = self.read(compared_sides.base), self.read(sides.pending)
        earlier = tuple(hunk for hunk in known_hunks if not hunk.moves)
        hunks = _compute_hunks(compared_sides, old, new, earlier) if not rename_source or old != new else ()
        if rename_source:
            hunks = (*build_whole_hunk(["rename", rename_source[0], path], moves=True), *hunks)
        file_risk = find_link_risk(path, new) if sides.pending.kind == "symlink" else None
        file_risk = file_risk or find_file_risk(path, b"" if rename_source else old, new) or _NOT_PROTECTED
        file_risk = file_risk if file_risk.is_protected else _find_unshown(path, sides, (old, new), hunks) or file_risk
        if not file_risk.is_protected and path in self.risks_by_path:
            file_risk = FileRisk(self.risks_by_path[path], is_protected=True)
        return Change(
            path=path,
            operation="rename" if rename_source else _classify_operation(sides),
            base=sides.base,
            pending=sides.pending,
            renamed_from=rename_source[0] if rename_source else "",
            source=rename_source[1] if rename_source else None,
            hunks=assign_todo(hunks, earlier),
            added=sum(hunk.new_lines for hunk in hunks),
            removed=sum(hunk.old_lines for hunk in hunks),
            binary=is_binary(old) or is_binary(new),
            language=detect_language(path),
            protected=file_risk.is_protected,
            risk=file_risk.risk,
            origin=origin,
        )


def _find_unshown(
    path: str, sides: ChangeSides, content: tuple[bytes, bytes], hunks: tuple[Hunk, ...]
) -> FileRisk | None:
    """Return the risk of a new text that the review cannot show completely. The target of a link is always shown."""
    is_link = sides.pending.kind == "symlink"
    unshown = describe_unseen(*content) if is_link else describe_undisplayed(path, *content, hunks)
    return FileRisk(unshown, is_protected=True) if unshown else None


def assign_todo(hunks: tuple[Hunk, ...], known_hunks: Iterable[Hunk], todo: str = "") -> tuple[Hunk, ...]:
    """Return the hunks with their todos: those in `known_hunks` preserve theirs, new ones get `todo`."""
    todos = {hunk.id: hunk.todo for hunk in known_hunks}
    if not todo and not any(todos.values()):
        return hunks
    return tuple(replace(hunk, todo=todos.get(hunk.id, todo)) for hunk in hunks)


def narrow_change(change: Change, sides: ChangeSides, hunks: tuple[Hunk, ...]) -> Change:
    """Return the change with the hunks that remain pending after a verdict (or its undoing) moved one side."""
    is_rename = change.source is not None and sides.base.kind == "absent" and sides.pending.kind == "file"
    return replace(
        change,
        operation="rename" if is_rename else _classify_operation(sides),
        renamed_from=change.renamed_from if is_rename else "",
        source=change.source if is_rename else None,
        base=sides.base,
        pending=sides.pending,
        hunks=hunks,
        added=sum(hunk.new_lines for hunk in hunks),
        removed=sum(hunk.old_lines for hunk in hunks),
        check=change.check if sides.pending == change.pending else None,
        broken="",
    )


def _classify_operation(sides: ChangeSides) -> Operation:
    base, pending = sides.base, sides.pending
    if base.kind == "absent":
        return "create" if pending.kind != "absent" else "edit"
    if pending.kind == "absent":
        return "delete"
    return "mode" if base.blob == pending.blob and base.kind == pending.kind and base.mode != pending.mode else "edit"


def _compute_hunks(sides: ChangeSides, old: bytes, new: bytes, known_hunks: Iterable[Hunk]) -> tuple[Hunk, ...]:
    if sides.base == sides.pending:
        return ()
    text = "symlink" not in {sides.base.kind, sides.pending.kind} and not is_binary(old) and not is_binary(new)
    if text and old != new and is_divisible(old, new):
        return compute_hunks(old, new, known_hunks)
    identity = [f"{state.kind} {state.blob} {state.mode:o}" for state in (sides.base, sides.pending)]
    if text and old != new:
        return build_whole_hunk(identity, len(split_lines(old)), len(split_lines(new)))
    return build_whole_hunk(identity)
