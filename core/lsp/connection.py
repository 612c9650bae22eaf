"""A running language server: its open documents and their diagnostics.

Pulled diagnostics belong to the text that was sent before the request. Pushed ones carry a version; without it, the
last push after a change counts once no further one follows. None means "not known in time", which is not "none".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.languages import detect_language
from core.lsp.client import CANCELLED, LspClient, RequestRefused, ServerGone
from core.lsp.messages import (
    ENCODINGS,
    UNREADABLE,
    DiagnosticReport,
    Encoding,
    LineTable,
    PublishedDiagnostics,
    build_uri,
    parse_diagnostics,
    parse_uri,
)
from core.protocol.language import Diagnostic
from core.records import decode_json

_QUIET_SECONDS: Final = 0.4  # pause after which unversioned pushes are complete: some servers push syntax before types
_LANGUAGE_IDS: Final = {"tsx": "typescriptreact", "jsx": "javascriptreact", "csharp": "csharp", "bash": "shellscript"}
_MAX_ATTEMPTS: Final = 3
QuestionKind = Literal["definition", "references", "hover", "rename"]


class ServerDocument:
    """An open document. `diagnostics`: those of its current text, None = unknown; `is_certain`: they can't be of an
    earlier text."""

    def __init__(self, path: str, uri: str, text: str, encoding: Encoding) -> None:
        self.path, self.uri, self.version = path, uri, 0
        self.diagnostics: tuple[Diagnostic, ...] | None = None
        self.pushed = asyncio.Event()
        self._encoding = encoding
        self.set_text(text)

    def set_text(self, text: str) -> None:
        self.text = text
        self._lines: LineTable | None = None
        self.version += 1
        self.diagnostics = None
        self.is_certain = False
        self.pushed.clear()

    @property
    def lines(self) -> LineTable:
        """The lines of the current text, computed on demand."""
        if self._lines is None:
            self._lines = LineTable(self.text, self._encoding)
        return self._lines


class ServerCapabilities(Struct, frozen=True, rename="camel"):
    """The capabilities of a server that this client uses."""

    position_encoding: str = "utf-16"
    diagnostic_provider: Any = None
    definition_provider: Any = None
    references_provider: Any = None
    hover_provider: Any = None
    rename_provider: Any = None


class _InitializeResult(Struct, frozen=True):
    capabilities: ServerCapabilities = ServerCapabilities()


class ServerConnection:
    """One server over the workspace at `root`. Paths are relative to it. Callers serialise its use."""

    def __init__(self, name: str, root: Path, send: Callable[[bytes], None], settings: Mapping[str, Any]) -> None:
        self.name, self._root = name, str(root)
        self._settings = settings
        self.client = LspClient(send, self._handle_notification, settings)
        self.capabilities = ServerCapabilities()
        self.documents: dict[str, ServerDocument] = {}
        self.on_push: Callable[[str], None] = lambda _: None
        self.client.on_end = self._wake_all

    @property
    def uses_pull(self) -> bool:
        """True if the server answers pulls for diagnostics; otherwise it pushes them."""
        return bool(self.capabilities.diagnostic_provider)

    @property
    def encoding(self) -> Encoding:
        """The encoding in which the server counts columns."""
        return next(
            (candidate for candidate in ENCODINGS if candidate == self.capabilities.position_encoding), "utf-16"
        )

    def can_answer(self, kind: QuestionKind) -> bool:
        """True if the server supports requests of a kind."""
        return bool(getattr(self.capabilities, f"{kind}_provider"))

    async def initialize(self, directory: str, options: Mapping[str, Any], *, seconds: float) -> None:
        """Initialize the server for a directory of the workspace ("." = all of it). Raises `ToolFailed` and
        `TimeoutError`."""
        uri = build_uri(self._root if directory == "." else f"{self._root}/{directory}")
        params = {
            "processId": None,
            "clientInfo": {"name": "agent-tui"},
            "rootUri": uri,
            "workspaceFolders": [{"uri": uri, "name": directory}],
            "initializationOptions": options or None,
            "capabilities": CLIENT_CAPABILITIES,
        }
        answer = await self.client.request("initialize", params, seconds=seconds)
        try:
            self.capabilities = decode_json(answer, _InitializeResult).capabilities
        except UNREADABLE:
            self.client.fail("Its answer to the first request can't be read.")
        self.client.notify("initialized", {})
        if self._settings:
            self.client.notify("workspace/didChangeConfiguration", {"settings": self._settings})

    def set_text(self, path: str, text: str) -> ServerDocument:
        """Open a document, or change its text; the server no longer reads the file."""
        document = self.documents.get(path)
        if document is None:
            uri = build_uri(f"{self._root}/{path}")
            document = self.documents[path] = ServerDocument(path, uri, text, self.encoding)
            language = detect_language(path)
            item = {"uri": document.uri, "languageId": _LANGUAGE_IDS.get(language, language), "version": 1}
            self.client.notify("textDocument/didOpen", {"textDocument": item | {"text": _to_wire(text)}})
        elif document.text != text:
            document.set_text(text)
            change = {"textDocument": {"uri": document.uri, "version": document.version}}
            self.client.notify("textDocument/didChange", change | {"contentChanges": [{"text": _to_wire(text)}]})
        return document

    def close_document(self, path: str) -> None:
        """Close a document; the server reads the file on disk again."""
        if (document := self.documents.pop(path, None)) is not None:
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})

    async def diagnose(self, path: str, *, seconds: float) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of a document's current text; None: not known in time. Raises `ToolFailed`."""
        document = self.documents[path]
        if document.diagnostics is None or self.uses_pull:
            document.diagnostics = None
            try:
                async with asyncio.timeout(seconds):
                    await (self._pull(document, seconds) if self.uses_pull else self._wait_for_push(document))
            except TimeoutError:
                return None
        return document.diagnostics

    async def _pull(self, document: ServerDocument, seconds: float) -> None:
        params = {"textDocument": {"uri": document.uri}}
        for attempt in range(_MAX_ATTEMPTS):
            version = document.version
            try:
                answer = await self.client.request("textDocument/diagnostic", params, seconds=seconds)
            except RequestRefused as refused:
                if refused.number in CANCELLED and attempt < _MAX_ATTEMPTS - 1:
                    continue
                return
            try:
                report = decode_json(answer, DiagnosticReport)
            except UNREADABLE:
                return
            if version == document.version:
                document.diagnostics = self._parse(document, report.items)
            return

    async def _wait_for_push(self, document: ServerDocument) -> None:
        while document.diagnostics is None:
            if self.client.problem:
                raise ServerGone(self.client.problem)
            await document.pushed.wait()
            document.pushed.clear()
        while not document.is_certain:  # the first push may be of the previous text
            document.pushed.clear()
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    await document.pushed.wait()
            except TimeoutError:
                document.is_certain = True

    def _parse(self, document: ServerDocument, items: list[msgspec.Raw]) -> tuple[Diagnostic, ...]:
        return parse_diagnostics(items, document.path, document.lines, self.name) if items else ()

    def _wake_all(self) -> None:
        for document in self.documents.values():
            document.pushed.set()

    def _handle_notification(self, method: str, params: msgspec.Raw) -> None:
        if method != "textDocument/publishDiagnostics" or self.uses_pull:
            return
        report = decode_json(params, PublishedDiagnostics)
        path = self.to_relative(report.uri)
        document = self.documents.get(path)
        if document is None or (report.version is not None and report.version < document.version):
            return
        document.diagnostics = self._parse(document, report.diagnostics)
        document.is_certain = report.version is not None
        document.pushed.set()
        self.on_push(path)

    def to_relative(self, uri: str) -> str:
        """Return the path of a URI relative to the workspace, else the absolute path; "" if it is no file."""
        path = parse_uri(uri)
        return path[len(self._root) + 1 :] if path.startswith(f"{self._root}/") else path


def _to_wire(text: str) -> str:
    """Return the text with lone surrogates replaced, as JSON can't carry them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": False},
        # Stops the server from watching files itself. No change is reported: it restarts when files appear or vanish.
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        "synchronization": {"didSave": False},
        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
        "definition": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "rename": {"prepareSupport": False},
    },
    "window": {"workDoneProgress": True},
}
