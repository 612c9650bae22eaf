"""The parts of a change of code that a review can't show, and so nobody can judge: each makes the change red.

They are characters that can't be seen, the end of a long line, lines beyond the most that are shown, and all of a file
that counts as binary though its name says that it is code. Data that nobody reads line by line (lock files, minified
ones, JSON, pictures in XML, what a notebook has put out) has long lines as a matter of course.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from core.languages import detect_language
from core.notebooks.notebook import find_notebook
from core.notebooks.rendering import render_sections
from core.protocol.review import Hunk
from core.shadow.diff.diff_lines import CONTEXT, MAX_LINES, MAX_WIDTH
from core.shadow.diff.text_lines import detect_encoding, find_shown_encodings, is_binary
from core.text.unseen_text import decode_as_shown, describe_unseen

_DATA: Final = frozenset({"", "json", "markdown", "restructuredtext", "tex", "diff"})
# Code and configuration whose language is not known, by the name of the file in small letters.
_MORE_CODE = re.compile(
    r"\.(awk|tcl|el|lisp|scm|rkt|vbs|bas|fish|nu|cr|v|sv|vhdl?|hbs|ejs|erb|astro|coffee|pas|asm|s|bzl|star|jsonnet|cue|rego"
    r"|sol|psd1|csproj|vbproj|fsproj|props|targets|sln|service|timer|desktop|cron|reg|spec|ebuild|pp|j2|jinja2?|tpl|tmpl"
    r"|mustache|liquid|pug|haml|jsp|aspx?|phtml|hta|wsf)\Z"
    r"|\A(go\.mod|pipfile|justfile|procfile|brewfile|build|workspace|codeowners|crontab|\.env.*|(requirements|constraints)"
    r"[^/]*\.(txt|in))\Z"
)
_GENERATED = re.compile(r"[.-]min\.(js|mjs|cjs|css)\Z|\.(svg|lock)\Z|[.-]lock\.[a-z]+\Z|\.lock\.[a-z]+\Z")


def describe_unshown(path: str, old: bytes, new: bytes, hunks: Sequence[Hunk]) -> str:
    """Return what of a change is not shown, as the end of "it …"; "": all of it is."""
    if not new:
        return ""
    is_code = new.startswith(b"#!") or detect_language(path) not in _DATA or _has_name_of_code(path)
    if is_binary(new) or is_binary(old):
        word = "holds a NUL byte" if is_binary(new) else "held a NUL byte before"
        return f"{word}, so that its text is not shown" if is_code else ""
    encoding = find_shown_encodings(old, new)[1]
    return describe_unseen(old, new, encoding) or _describe_cut(path, old, new, hunks, is_code=is_code)


def _has_name_of_code(path: str) -> bool:
    return _MORE_CODE.search(path.rpartition("/")[2].lower()) is not None


def _describe_cut(path: str, old: bytes, new: bytes, hunks: Sequence[Hunk], *, is_code: bool) -> str:
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
    """Count the long lines of a notebook as it is read: what it has put out is summed up there, its code is not."""
    notebook = find_notebook(data) if max(map(len, data.split(b"\n")), default=0) > MAX_WIDTH else None
    sections = render_sections(notebook) if notebook is not None else ()
    return Counter(line for section in sections for line in section.lines if len(line) > MAX_WIDTH)
