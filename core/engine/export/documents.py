"""An export in the format that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from core.engine.export.record import format_json, read_export
from core.errors import StateError
from core.protocol.queries import ExportAnswer, ExportFormat, build_export_name
from core.sessions.log import SessionLog


def export_session(directory: Path, export_format: ExportFormat, log: SessionLog | None = None) -> ExportAnswer:
    """Return the session in a directory, or from its open log, as a document. Raises `StateError`."""
    session = read_export(directory, log)
    match export_format:
        case "json":
            text = format_json(session)
        case "md":
            from core.engine.export.markdown import format_markdown

            text = format_markdown(session)
        case "html":
            from core.engine.export.page import format_page

            text = format_page(session)
        case _:
            assert_never(export_format)
    return ExportAnswer(name=build_export_name(session.title, export_format), text=text)


def write_export(answer: ExportAnswer, target: Path) -> Path:
    """Write a document to a new file, or into a directory under its own name. Returns the path. Raises `StateError`:
    there is a file of this name already, or it can't be written."""
    path = target.expanduser()
    path = path / answer.name if path.is_dir() else path
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(answer.text)
    except FileExistsError:
        raise StateError(f"{path} is there already.", hint="Name another file.", code="file_exists") from None
    except OSError as problem:
        raise StateError(f"{path} can't be written: {problem.strerror}.", hint="Name another place.") from problem
    return path
