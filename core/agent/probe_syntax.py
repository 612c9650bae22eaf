"""Whether a file with a probe in it still parses, whether the probe's marks are comments there, and whether what comes
after it belongs to what it did before.

Python is asked itself, since it says best what is wrong; other languages are asked of their grammar, if there is one.
"""

from __future__ import annotations

import io
import tokenize
import warnings

from core.debug.marks import find_marks, has_marks
from core.edits.breakage import new_flaws, told
from core.edits.lines import split_lines
from core.edits.syntax import standing
from core.errors import ToolInputInvalid

_PYTHON = (".py", ".pyi", ".pyw")
_ASIDE = "Nothing was put in place. Give the statement anew, or another line."


def refuse_broken(path: str, before: str, after: str, line: int) -> None:
    """Raises `ToolInputInvalid` with the parser's message when `after`, with a probe before the line (1-indexed) of
    `before`, is worse than that."""
    if path.endswith(_PYTHON) and not _python_flaw(before):
        if flaw := _python_flaw(after):
            raise ToolInputInvalid(f"With this probe {path} does not parse: {flaw}.", hint=_ASIDE)
        if len(find_marks(after)) > _comments(after):
            raise _not_run(path, "string")
        return
    flaws = new_flaws(path, before, after)
    if flaws:
        lines = split_lines(after).bodies
        text = lines[flaws[0].line - 1].strip() if flaws[0].line <= len(lines) else ""
        raise ToolInputInvalid(f"With this probe {path} does not parse: {told(flaws[0])}: {text[:200]}", hint=_ASIDE)
    _refuse_hidden(path, after)
    _refuse_between(path, before, after, line)


def _refuse_hidden(path: str, after: str) -> None:
    """A mark that is no comment stands in a string, in a comment, or in text: so does the probe, and would not run."""
    for mark in find_marks(after):
        at = standing(path, after, mark.line)
        if at is not None and "ERROR" not in at.within and not any("comment" in kind for kind in at.begins):
            raise _not_run(path, at.within[0].replace("_", " ").removesuffix(" fragment").removesuffix(" content"))


def _refuse_between(path: str, before: str, after: str, line: int) -> None:
    """What stands around the probe must belong to what it did, and not lose the `if` whose only statement it is."""
    filled = [number for number, body in enumerate(before.split("\n"), start=1) if body.strip()]
    down = after.count("\n") - before.count("\n")
    above = [(number, number) for number in filled if number < line][-1:]
    below = [(number, number + down) for number in filled if number >= line][:1]
    for number, moved in above + below:
        was, now = standing(path, before, number), standing(path, after, moved)
        if was is not None and now is not None and was.within != now.within:
            torn = next((kind for kind in was.within if was.within.count(kind) != now.within.count(kind)), "statement")
            raise ToolInputInvalid(
                f"{path}: before line {line} a probe would part what belongs together ({torn.replace('_', ' ')}).",
                hint="Nothing was put in place. Give the line before the whole statement.",
            )


def _not_run(path: str, what: str) -> ToolInputInvalid:
    return ToolInputInvalid(f"{path}: at that line a probe would stand within a {what}, and not run.", hint=_ASIDE)


def _python_flaw(text: str) -> str:
    """What Python says of a text, "" = it compiles (or is more than can be asked of the compiler)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<probed>", "exec", dont_inherit=True)
    except SyntaxError as error:
        shown = (error.text or "").strip()
        return f"{error.msg} (line {error.lineno}{f': {shown[:200]}' if shown else ''})"
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _comments(text: str) -> int:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return len(find_marks(text))
    return sum(
        token.type == tokenize.COMMENT and has_marks(token.string.encode("utf-8", "replace")) for token in tokens
    )
