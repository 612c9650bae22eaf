"""Request bodies checked against the SDKs' own typed parameters, closed: a key that they do not name is a fault.

The SDKs declare bodies as open TypedDicts with lazy iterables; here the same types are rebuilt closed and eager, and
each union of objects is decided by its `type` and `role`, so that a fault is reported once and where it is.
"""

from __future__ import annotations

import functools
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import typing_extensions as te
from pydantic import BaseModel, ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError

Fault = tuple[tuple[str | int, ...], str, str]  # where, pydantic's kind, its message
_UNIONS: Final = (Union, types.UnionType)
_MARKS: Final = (te.Required, te.NotRequired)
_UPLOADS: Final = (typing.IO, os.PathLike)
_KINDS: Final = ("type", "role")


def faults_of(params: Any, body: object) -> list[Fault]:
    """What is wrong with a body, by the typed parameters of an SDK; the most precise fault first."""
    try:
        _adapter(params).validate_python(body, strict=True)
    except ValidationError as error:
        faults = [
            (_place(entry["loc"], body), entry["type"], entry["msg"]) for entry in error.errors(include_url=False)
        ]
        return sorted(faults, key=lambda fault: -len(fault[0]))
    return []


@functools.cache
def _adapter(params: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_closed(params))


def _place(loc: Sequence[str | int], body: object) -> tuple[str | int, ...]:
    """The path within the body: pydantic names the branches of unions, too."""
    place: list[str | int] = []
    here: Any = body
    for number, step in enumerate(loc):
        if isinstance(here, dict) and (step in here or number == len(loc) - 1):
            place.append(step)
            here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            place.append(step)
            here = here[step]
    return tuple(place)


@functools.cache
def _closed(hint: Any) -> Any:
    if te.is_typeddict(hint):
        return _closed_object(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return _closed_union(args)
    if origin is Annotated:
        return _closed(args[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Iterable) and not _is_mapping(origin):
        return list[_closed(args[0])]  # type: ignore[misc]
    if getattr(hint, "__name__", "") == "SequenceNotStr" or getattr(origin, "__name__", "") == "SequenceNotStr":
        return list[_closed(args[0])]  # type: ignore[misc]
    return hint


def _is_mapping(origin: type) -> bool:
    return issubclass(origin, dict) or hasattr(origin, "keys")


_OBJECTS: dict[Any, Any] = {}


def _closed_object(source: Any) -> Any:
    """The TypedDict again, closed unless it was opened on purpose."""
    if source in _OBJECTS:
        return _OBJECTS[source]
    hints = get_type_hints(source, include_extras=True)
    fields = {name: _field(hint) for name, hint in hints.items()}
    typed_dict = te.TypedDict(source.__name__, fields, total=False)  # type: ignore[operator]
    extra = getattr(source, "__pydantic_config__", {}).get("extra", "forbid")
    typed_dict.__pydantic_config__ = ConfigDict(extra=extra)  # type: ignore[attr-defined]
    _OBJECTS[source] = typed_dict
    return typed_dict


def _field(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in _MARKS or origin in (typing.Required, typing.NotRequired):
        inner = _closed(get_args(hint)[0])
        return te.Required[inner] if origin in (te.Required, typing.Required) else inner
    return _closed(hint)


def _closed_union(members: Sequence[Any]) -> Any:
    flat = [hint for member in members for hint in _members(member) if _is_json(hint)]
    objects = [hint for hint in flat if te.is_typeddict(hint)]
    others = [_closed(hint) for hint in flat if not te.is_typeddict(hint)]
    if len(objects) < 2:
        return _union(*others, *(_closed(hint) for hint in objects))
    tagged = [Annotated[_closed(hint), Tag(_tag(hint))] for hint in objects]
    return _union(*others, Annotated[_union(*tagged), Discriminator(_chooser(objects))])


def _union(*members: Any) -> Any:
    return functools.reduce(operator.or_, members)


def _is_json(hint: Any) -> bool:
    """Not what only an SDK takes: a file to be read, an object of the SDK's own."""
    return get_origin(hint) not in _UPLOADS and not (isinstance(hint, type) and issubclass(hint, BaseModel))


def _members(hint: Any) -> list[Any]:
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in _UNIONS:
        return [alternative for member in get_args(hint) for alternative in _members(member)]
    return [hint]


def _tag(source: Any) -> str:
    return f"{source.__module__.rpartition('.')[2]}.{source.__name__}"


def _chooser(objects: Sequence[Any]) -> Callable[[Any], str | None]:
    """Which object of a union a value wants to be: its `type` and `role` agree, and it leaves fewest keys over."""
    known = [(_tag(hint), get_type_hints(hint), get_type_hints(hint, include_extras=True)) for hint in objects]

    def choose(value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        fits = [(tag, marked) for tag, plain, marked in known if all(_agrees(plain, value, key) for key in _KINDS)]
        return min(fits, key=lambda fit: _misfit(fit[1], value), default=(None, None))[0]

    return choose


def _agrees(hints: dict[str, Any], value: dict[str, Any], key: str) -> bool:
    allowed = _literals(hints.get(key))
    if key not in value:
        return True
    return not allowed or value[key] in allowed


def _literals(hint: Any) -> list[Any]:
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) in (*_UNIONS, *_MARKS, typing.Required, typing.NotRequired, Annotated):
        return [literal for member in get_args(hint) for literal in _literals(member)]
    return []


def _misfit(hints: dict[str, Any], value: dict[str, Any]) -> int:
    missing = [name for name, hint in hints.items() if get_origin(hint) in _MARKS and name not in value]
    return len(missing) + sum(key not in hints for key in value)


def open_objects(schema: object, path: str = "") -> list[str]:
    """The places of objects in a schema whose fields are not said to be all."""
    if isinstance(schema, list):
        return [place for number, child in enumerate(schema) for place in open_objects(child, f"{path}/{number}")]
    if not isinstance(schema, dict):
        return []
    here = [path] if schema.get("type") == "object" and schema.get("additionalProperties") is not False else []
    return here + [place for key, child in schema.items() for place in open_objects(child, f"{path}/{key}")]
