"""Calls in the syntax of a model's own template, which a server should have parsed and left in the text.

Only the end of an answer counts: calls and nothing else from a marker on. A marker within a code fence, backticks or a
quoted line is an example, and so is a tag after a word and a space. An incomplete call is reported as such, since its
missing part is unknown.
"""

from __future__ import annotations

import ast
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.records import parse_json, parse_json_part
from core.syntax.python_parser import parse_python_expression
from core.text.json_repairs import extract_call_name, repair_arguments
from core.text.markup import Fence, track_fence

_SPACED: Final = r"(?:[\w-]{1,20}:|[|｜]DSML[|｜])?"  # prefix of tag names in some templates
_TOKEN: Final = r"<[|｜]/?\w[^<>|｜\s]{0,40}[|｜]>"
_FRAME: Final = (
    rf"</?{_SPACED}(?:tool_calls?|function_calls?|tools?|toolcall|TOOLCALL|function|invoke)>|\[/?TOOL_CALLS\]"
    r"|functools(?=\[)"
)
_TAG: Final = rf"<{_SPACED}(?:tool_calls?|function_calls?|toolcall|TOOLCALL)>|<{_SPACED}invoke\s+name=|<function[= ]"
_SURE: Final = (
    r"<[|｜](?:tool|python_tag|START_ACTION|action_start)[^<>|｜\s]{0,40}[|｜]>|\[TOOL_CALLS\]|<[|｜]DSML[|｜]\w"
    r"|<\|channel\|>\s*commentary\s+to="
)
_BARE: Final = (
    r"functions\.[\w-]+:\d+\s*(?=\{)|functools(?=\[)|(?:assistant\s*)?commentary to=functions\."
    r"|(?:\[\s{0,20})?\{\s{0,20}\"(?:name|function|type|tool|tool_name)\"\s*:"
)
# A call as Python, in a namespace or a fence that only templates use; both may be printed.
_PYTHON: Final = r"(?:print[ ]?\([ ]?)?(?:tool_code|default_api)\.\w{1,64}[ ]?\("
_CODE: Final = "tool_code"
_MARKER: Final = compile_lazily(
    rf"(?P<sure>{_SURE}|{_PYTHON}|```{_CODE}[ \t]*$)|(?P<tag>{_TAG})|(?P<bare>{_BARE})", re.MULTILINE
)
_PYTHON_CALL: Final = compile_lazily(_PYTHON)
_CODE_BLOCK: Final = compile_lazily(rf"```{_CODE}[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_PYTHON_SIGN: Final = compile_lazily(
    r"[()]|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
_SKIPPED: Final = compile_lazily(rf"(?:\s+|{_FRAME}|{_TOKEN})*")
_FUNCTION: Final = compile_lazily(
    r"<function(?:=|\s+name=)[\"']?(?P<name>[\w.:-]+)[\"']?\s*>(?P<body>.*?)</function>", re.DOTALL
)
_PARAMETER: Final = compile_lazily(
    r"\s*<parameter(?:=|\s+name=)[\"']?(?P<key>[\w.-]+)[\"']?\s*>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL
)
_INVOKE: Final = compile_lazily(
    rf"<(?P<space>{_SPACED})invoke\s+name=\"(?P<name>[^\"]+)\"\s*>(?P<body>.*?)</(?P=space)invoke>", re.DOTALL
)
_INVOKED: Final = compile_lazily(
    rf"\s*<(?P<space>{_SPACED})parameter\s+name=\"(?P<key>[^\"]+)\"(?:\s+string=\"(?P<text>\w+)\")?\s*>"
    r"\n?(?P<value>.*?)\n?</(?P=space)parameter>",
    re.DOTALL,
)
_PAIRED: Final = compile_lazily(
    r"(?P<name>[\w.:-]+)\s*(?P<body>(?:<arg_key>(?:(?!</arg_value>).)*</arg_value>\s*)*)(?=</tool_call>)", re.DOTALL
)
_PAIR: Final = compile_lazily(
    r"\s*<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>\n?(?P<value>.*?)\n?</arg_value>", re.DOTALL
)
_NAMED: Final = compile_lazily(
    rf"(?:function{_TOKEN})?(?:(?:assistant|commentary|analysis)\s*|{_TOKEN})*(?:to=)?(?P<name>[\w.:-]+)"
    rf"(?:\s|{_TOKEN}|```(?:json)?|json|\[ARGS\]|\[CALL_ID\]\s*\w+)*(?=\{{)"
)
_FENCE_END: Final = compile_lazily(r"\s*```")
_NAMES: Final = ("name", "tool_name", "tool", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
_OTHER_KEYS: Final = frozenset({"type", "id", "index"})
_PARTIAL_CALL: Final = compile_lazily(
    r"<function(?:=|\s+name=)[\"']?([\w.:-]+)|invoke\s+name=\"([\w.:-]+)|\"name\"\s*:\s*\"([\w.:-]+)\""
    r"|functions\.([\w-]+)|<tool_call>\s*([\w.:-]+)\s*<arg_key>|(?:tool_code|default_api)\.(\w+)"
)
# Text after the marker of a partial call, unlike a sentence about one; and a tag that was cut off.
_PLAUSIBLE: Final = compile_lazily(r"\s*(?:$|[\[{<]|[\w.:-]+(?:\s*(?:$|[{<\[`])|\(|\s*\n))")
_CUT_TAG: Final = compile_lazily(r"<[^<>\n]{0,40}$")
_LONGEST_PYTHON: Final = 1_000_000  # characters of a call as Python
_NEAR: Final = 400  # characters behind a marker that are searched for the name of a call
_ENDS: Final = compile_lazily(rf"</{_SPACED}(?:tool_calls?|function|function_calls|invoke)>")
_CODE_SPAN: Final = compile_lazily(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_QUOTED: Final = compile_lazily(r"\s{0,3}>|\s{4}|\t")


class LeakedCall(Struct, frozen=True):
    """A call. `arguments`: a JSON object as text."""

    name: str
    arguments: str


class Leak(Struct, frozen=True, kw_only=True):
    """Calls of an answer. `is_whole`: all of them are complete; `is_last`: nothing follows; `is_sure`: such a marker
    never occurs in prose, whatever the name of the call."""

    calls: tuple[LeakedCall, ...]
    is_whole: bool = True
    is_last: bool = True
    is_sure: bool = False


def find_leak(text: str) -> Leak | None:
    """Return the calls that an answer ends with, or else the first ones in it; None = there are none."""
    leaks: list[Leak] = []
    read = 0
    end_of_all = max((end.end() for end in _ENDS.finditer(text)), default=0)
    for marker in _find_markers(text):
        if marker.start() < read:
            continue
        calls, end = read_calls(text, marker.start())
        if calls:
            is_last = end == len(text) or _CUT_TAG.match(text, end) is not None
            leak = Leak(calls=tuple(calls), is_last=is_last, is_sure=marker["sure"] is not None)
            if is_last:
                return leak
            leaks.append(leak)
            read = end
        elif partial_leak := _read_partial_call(text, marker, end_of_all):
            leaks.append(partial_leak)
    last = (candidate for candidate in leaks if candidate.is_last)
    return next(last, leaks[0] if leaks else None)


def read_calls(text: str, start: int = 0) -> tuple[list[LeakedCall], int]:
    """Return the consecutive calls at a position, and their end."""
    calls: list[LeakedCall] = []
    position = _skip(text, start)
    while position < len(text):
        leaked_calls, end = _read_form(text, position)
        if not leaked_calls:
            break
        calls += leaked_calls
        position = _skip(text, end)
    return calls, position


def _skip(text: str, position: int) -> int:
    match = _SKIPPED.match(text, position)
    return match.end() if match else position


def _find_markers(text: str) -> Iterator[re.Match[str]]:
    """Yield the markers where a call may begin: outside of examples."""
    fence: Fence | None = None
    line_start, markers = 0, deque(_MARKER.finditer(text))
    for line in text.split("\n") if markers else ():
        before, fence = fence, track_fence(fence, line)
        line_markers = []
        while markers and markers[0].start() <= line_start + len(line):
            line_markers.append(markers.popleft())
        is_template = before is None and fence is not None and fence.info == _CODE
        if line_markers and before is None and (fence is None or is_template) and not _QUOTED.match(line):
            spans = [match.span() for match in _CODE_SPAN.finditer(line)]
            for marker in line_markers:
                column = marker.start() - line_start
                is_inner = marker["bare"] is not None and _follows_tag(text, marker.start())
                is_example = is_inner or any(first <= column < last for first, last in spans)
                if not is_example and _may_begin(marker, line[:column]):
                    yield marker
        line_start += len(line) + 1


def _follows_tag(text: str, position: int) -> bool:
    """True if the last character before a position, apart from white space, ends a tag."""
    while position and text[position - 1].isspace():
        position -= 1
    return text[position - 1 : position] == ">"


def _may_begin(marker: re.Match[str], above: str) -> bool:
    """True if a marker begins its line, or directly follows text, unlike a word."""
    if marker["sure"] or not above.strip():
        return True
    return marker["tag"] is not None and not above[-1].isspace() and above[-1] not in "\"'`(<="


def _read_partial_call(text: str, marker: re.Match[str], end_of_all: int) -> Leak | None:
    """Return an incomplete call at a marker; None = there is none, or text follows it. `end_of_all`: the end of the
    last complete call in the text."""
    start = marker.start()
    if marker["bare"] is not None:
        return None
    if end_of_all > start and _skip(text, end_of_all) < len(text):
        return None
    is_python = _PYTHON_CALL.match(text, start) is not None
    if is_python and text[_find_python_end(text, start) :].strip():
        return None
    match = _PARTIAL_CALL.search(text, start, start + _NEAR)
    name = next(filter(None, match.groups()), "") if match else ""
    is_sure = is_python or (marker["sure"] is not None and _PLAUSIBLE.match(text, marker.end()) is not None)
    if not name and not is_sure:
        return None
    call = LeakedCall(extract_call_name(name) if name else "unnamed", "{}")
    return Leak(calls=(call,), is_whole=False, is_sure=is_sure)


def _read_form(text: str, position: int) -> tuple[list[LeakedCall], int]:
    """Return the calls in the form at a position, and its end; no calls: the form is none of these."""
    for form, pair in ((_FUNCTION, _PARAMETER), (_INVOKE, _INVOKED), (_PAIRED, _PAIR)):
        if block := form.match(text, position):
            arguments = _read_pairs(block["body"], pair)
            return ([_build_call(block["name"], arguments)] if arguments is not None else []), block.end()
    if block := _CODE_BLOCK.match(text, position):
        return _read_python_lines(block["body"]), block.end()
    if _PYTHON_CALL.match(text, position):
        return _read_python(text, position)
    if text[position] in "{[":
        return _read_json(text, position)
    if match := _NAMED.match(text, position):
        value, end = _read_value(text, match.end())
        fence = _FENCE_END.match(text, end)
        if isinstance(value, dict):
            return [_build_call(match["name"], value)], fence.end() if fence else end
    return [], position


def _read_pairs(body: str, pair: re.Pattern[str]) -> dict[str, Any] | None:
    """Return arguments with a tag for every one, or all together as JSON; None = other text is left over."""
    if body.lstrip().startswith("{"):
        value = _parse(repair_arguments(body.strip()))
        return value if isinstance(value, dict) else None
    arguments: dict[str, Any] = {}
    position = 0
    while argument := pair.match(body, position):
        key, value = argument["key"].strip(), argument["value"]
        if key in arguments:
            return None
        arguments[key] = _parse(value) if argument.groupdict().get("text") == "false" else value
        position = argument.end()
    return arguments if not body[position:].strip() else None


def _read_json(text: str, position: int) -> tuple[list[LeakedCall], int]:
    value, end = _read_value(text, position)
    values = value if isinstance(value, list) else [value]
    calls = [_read_table(entry) for entry in values]
    valid_calls = [call for call in calls if call is not None]
    return (valid_calls, end) if valid_calls and len(valid_calls) == len(calls) else ([], position)


def _read_table(value: Any) -> LeakedCall | None:
    """Return the call that a JSON object represents: it has a name, arguments, and no other content."""
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):
        return _read_table(inner) if value.keys() <= _OTHER_KEYS | {"function"} else None
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    key = next((key for key in _ARGUMENTS if key in value), "")
    if not name or not key or len(value.keys() - _OTHER_KEYS) != 2:
        return None
    arguments = value[key] if value[key] is not None else {}
    if isinstance(arguments, str):
        arguments = _parse(repair_arguments(arguments))
    return _build_call(name, arguments) if isinstance(arguments, dict) else None


def _read_python_lines(body: str) -> list[LeakedCall]:
    """Return the calls that a block consists of; none = it holds something else."""
    calls: list[LeakedCall] = []
    position = 0
    while body[position:].strip():
        start = position + len(body[position:]) - len(body[position:].lstrip())
        python_calls, position = _read_python(body, start)
        if not python_calls:
            return []
        calls += python_calls
    return calls


def _find_python_end(text: str, position: int) -> int:
    """Return the end of the brackets that open behind a position; that of the text if they stay open."""
    depth = 0
    for sign in _PYTHON_SIGN.finditer(text, position, position + _LONGEST_PYTHON):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if depth <= 0 and sign[0] in {"(", ")"}:
            return sign.end()
    return len(text)


def _read_python(text: str, position: int) -> tuple[list[LeakedCall], int]:
    """Return the call that a Python expression at a position is, with literals by name, and its end."""
    end = _find_python_end(text, position)
    try:
        expression = parse_python_expression(text[position:end].strip())
        match expression:
            case ast.Call(ast.Name("print"), [ast.Call() as call], []):
                pass
            case ast.Call() as call:
                pass
            case _:
                return [], position
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            return [], position
        arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [_build_call(name, arguments)], end
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, SystemError):
        return [], position


def _build_call(name: str, arguments: Mapping[str, Any]) -> LeakedCall:
    return LeakedCall(extract_call_name(name), json.dumps(arguments, ensure_ascii=False))


def _read_value(text: str, position: int) -> tuple[Any, int]:
    """Return the JSON value at a position, and its end; None = there is none. Raw line ends in strings are accepted."""
    try:
        return parse_json_part(json.JSONDecoder(strict=False), text, position)
    except ValueError:
        return None, position


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text
