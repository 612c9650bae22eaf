"""Embeddings by the model of the `embed` route: an API, or a local model in a separate process.

Vectors are requested slowly, in the background, and stored. The model that comes with the program is used until most
chunks have a vector, and whenever the route's model fails, so a search never waits long. With privacy on, nothing is
sent to an API; a model on this machine is asked all the same. Texts are those on the disk, never pending ones.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from core.clock import monotonic, pause
from core.config.settings import Settings
from core.engine.shared.models import ModelAccess
from core.engine.shared.project_index import ProjectIndex
from core.errors import AgentTuiError, ConfigError, ContextOverflow, ProviderError
from core.index.database import FILE_NAME, IndexFailed, lock_for_building
from core.index.minilm import DIMENSIONS, MINILM, VectorAnswer, VectorRequest, build_model_command, check_installed
from core.index.reader import Generation, IndexReader
from core.index.search.query import ParsedQuery, parse_query
from core.index.search.vectors import STATIC_MODEL, pack_vector
from core.index.writer import ChunkLocation, IndexWriter, list_without_vector, read_texts, store_vectors
from core.modes import Access
from core.permissions.policy import decide_path
from core.permissions.rules import PermissionRule
from core.protocol.events import IndexStatus
from core.providers.base import EmbeddingProvider, Provider
from core.records import decode_json
from core.sessions.private_directory import find_private_directory
from core.tasks import TaskOwner

_BATCH_TEXTS: Final = 8
"""Texts per request: a query waits for at most one request that is already running."""
_END_SECONDS: Final = 0.3
_LINE_LIMIT: Final = 1 << 20
BATCH: Final = 64
MAX_CHUNKS: Final = 50_000
"""Chunks that a model is sent in one run of an engine; the next run continues a large project."""
_LIMIT_NOTE: Final = f"at most {MAX_CHUNKS:,} pieces are sent in one run"
_LOCK: Final = "vectors"
_PAUSE: Final = 0.5
_QUESTION_SECONDS: Final = 3.0
_TRIES: Final = 4
_RETRY_SECONDS: Final = 300.0  # after a failure
_SUFFICIENT_SHARE: Final = 0.9
_NOT_ENOUGH_VECTORS: Final = "Until it has nine tenths of them, the built-in model is used."
_MAX_CHARACTERS: Final = 6_000
_MIN_CHARACTERS: Final = 400  # of a text that a server refuses as too long again and again


class RemoteEmbeddings:
    """The embeddings by one model. `ids`: the id of the route's model, which is the key of the stored vectors, and the
    API's own name of it. `rules`: only files that they allow the agent to read are sent. `requests_missing`: request
    the vectors that are missing."""

    rules: Sequence[PermissionRule] = ()
    sent = 0
    unused_reason = ""
    """The reason why the model was not used for the last query, "" = it was."""

    requests_missing = True
    known = 0
    """Chunks that have a vector of this model, as of the last count."""

    def __init__(
        self, root: Path, database: Path, index: ProjectIndex, provider: EmbeddingProvider, ids: tuple[str, str]
    ) -> None:
        self.model, self._name = ids
        self.problem = ""
        self._root, self._database = root, database
        self._index = index
        self._provider = provider
        self._tasks = TaskOwner()
        self._is_sufficient = False
        self._characters = _MAX_CHARACTERS  # of a text, as many as the server takes
        self._failed_at = 0.0
        self._filled: Generation | None = None  # the generation of the index whose chunks were all requested

    def start_filling(self) -> None:
        """Request the missing vectors, unless a request runs or failed recently."""
        if not self._tasks.is_busy and not (self.problem and monotonic() - self._failed_at < _RETRY_SECONDS):
            self._tasks.spawn(self._fill(), name="vectors of the embed route")

    async def wait(self) -> None:
        """Wait until no request for vectors runs."""
        await self._tasks.wait()

    async def close(self) -> None:
        await self._tasks.cancel()

    async def embed_question(self, question: ParsedQuery) -> tuple[str, tuple[bytes, bytes] | None]:
        """Return the model that compares a query, and the query's vectors; None = the program's own model makes
        them."""
        if self.requests_missing:
            self.start_filling()
        else:
            self._is_sufficient = await self._count_known()
            self.problem = "" if self._is_sufficient else await self._find_refusal(question)
        self.unused_reason = self.problem or ("" if self._is_sufficient else _NOT_ENOUGH_VECTORS)
        if self.unused_reason:
            return STATIC_MODEL, None
        texts = [question.text[: self._characters], question.first]
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                full_vector, first = await self._provider.embed(self._name, texts)
        except (AgentTuiError, TimeoutError) as failure:
            reason = str(failure) or f"it took more than {_QUESTION_SECONDS:.0f} s"
            self.unused_reason = f"{self.model} did not answer: {reason}"
            return STATIC_MODEL, None
        return self.model, (pack_vector(full_vector), pack_vector(first))

    async def _find_refusal(self, question: ParsedQuery) -> str:
        """Return why the model gives no vector even for a query, "" = it does, or does not answer in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_QUESTION_SECONDS):
                try:
                    await self._provider.embed(self._name, [question.first[:_MIN_CHARACTERS]])
                except AgentTuiError as failure:
                    return f"{self.model} returned no vectors: {failure}"
        return ""

    async def _fill(self) -> None:
        """Embed the chunks without a vector, unless another process of the project does it: the vectors are shared."""
        try:
            generation = await self._index.read(IndexReader.read_generation)
            if generation == self._filled:
                return
            self._is_sufficient = await self._count_known()
            lock = lock_for_building(self._database.with_name(_LOCK))  # not in a thread, which could not be cancelled
            if lock is None:
                return
            try:
                await self._embed_missing()
            finally:
                os.close(lock)
            self._is_sufficient, self._filled = await self._count_known(), generation
            is_cut = self.sent >= MAX_CHUNKS and not self._is_sufficient
            self.problem = f"{self.model} gets the rest after the next start: {_LIMIT_NOTE}" if is_cut else ""
        except (AgentTuiError, sqlite3.Error, OSError) as problem:
            self.problem, self._failed_at = f"{self.model} returned no vectors: {problem}", monotonic()

    async def _embed_missing(self) -> None:
        """Embed the chunks without a vector in batches, until the limit of the run is reached."""
        after = 0
        while self.sent < MAX_CHUNKS and (places := await self._list_missing(after)):
            after = places[-1].id
            texts = await asyncio.to_thread(self._read_texts, places)
            if texts:
                vectors = await self._embed(list(texts.values()))
                await asyncio.to_thread(self._store, list(zip(texts, map(pack_vector, vectors), strict=True)))
                self.sent += len(texts)
                self.known += len(texts)
                await pause(_PAUSE)

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts; temporary failures are retried. Raises `ProviderError`."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._provider.embed(self._name, [text[: self._characters] for text in texts])
            except ContextOverflow:
                if self._characters <= _MIN_CHARACTERS:
                    raise
                self._characters //= 2
                return await self._embed(texts)
            except ProviderError as failure:
                if not failure.retryable or attempt == _TRIES:
                    raise
                await pause(failure.retry_after or 2.0**attempt)
        raise AssertionError("unreachable")

    async def _list_missing(self, after: int) -> list[ChunkLocation]:
        limit = min(BATCH, MAX_CHUNKS - self.sent)
        return await self._index.read(
            lambda reader: list_without_vector(reader.connect(), self.model, after=after, limit=limit)
        )

    async def _count_known(self) -> bool:
        """Count the chunks with a vector of this model. Return True if they are enough to search by it."""

        def count(reader: IndexReader) -> tuple[int, int]:
            connection = reader.connect()
            total = connection.execute("select count(*) from chunks").fetchone()[0]
            known_count = connection.execute(
                "select count(*) from chunks join vectors on model = ? and vectors.text_hash = chunks.text_hash",
                (self.model,),
            ).fetchone()[0]
            return total, known_count

        total, self.known = await self._index.read(count)
        return bool(total and self.known >= total * _SUFFICIENT_SHARE)

    def _read_texts(self, places: Sequence[ChunkLocation]) -> dict[bytes, str]:
        allowed_chunks = [
            chunk for chunk in places if decide_path(Access.READ, chunk.path, rules=self.rules).choice == "allow"
        ]
        top = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return dict(read_texts(top, allowed_chunks))
        finally:
            os.close(top)

    def _store(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Write vectors while the builder may also write: SQLite serializes the transactions."""
        if not self._database.exists():
            raise IndexFailed("the index is missing.")
        connection = sqlite3.connect(self._database, timeout=10, isolation_level=None)
        try:
            with IndexWriter(connection).commit():
                store_vectors(connection, self.model, rows)
        finally:
            connection.close()


class EmbedRoute:
    """The model of the `embed` route in the current configuration. `problem`: why it is not used, "" = it is, or none
    is configured. `requests_missing`: see `RemoteEmbeddings`."""

    requests_missing = True

    def __init__(self, index: ProjectIndex, root: Path, store: Path, models: ModelAccess) -> None:
        self.problem = ""
        self._index, self._root, self._store = index, root, store
        self._models = models
        self._embeddings: RemoteEmbeddings | None = None
        self._provider: Provider | LocalModel | None = None
        self._sent: dict[str, int] = {}

    def add_model_status(self, status: IndexStatus) -> IndexStatus:
        """Return the index status with the state of this model."""
        problem = status.problem or self.problem
        if self._embeddings is None:
            return replace(status, problem=problem)
        known_count = min(self._embeddings.known, status.chunks)
        return replace(status, problem=problem, model=self._embeddings.model, known_to_model=known_count)

    async def embed_question(self, settings: Settings, question: ParsedQuery) -> tuple[str, tuple[bytes, bytes] | None]:
        """Return model and vectors as `RemoteEmbeddings` does; without a usable route, the program's own model."""
        model = settings.resolve_route("embed").model
        self.problem = ""
        if not model:
            await self.close()
            return STATIC_MODEL, None
        is_private = settings.privacy or find_private_directory(self._store / FILE_NAME)
        if is_private and not _is_local(model, settings):
            await self.close()
            self.problem = f"privacy is on: {model} is not used, the built-in model is"
            return STATIC_MODEL, None
        try:
            embeddings = await self._open(model, settings)
        except AgentTuiError as failure:
            self.problem = f"{model} is not used: {failure.message}"
            return STATIC_MODEL, None
        embeddings.rules = settings.permissions.parse_rules()
        embedding = await embeddings.embed_question(question)
        self.problem = embeddings.unused_reason
        return embedding

    async def _open(self, model: str, settings: Settings) -> RemoteEmbeddings:
        """Return the embeddings by a model. Raises `ConfigError`, `ProviderError`."""
        if self._embeddings is None or self._embeddings.model != model:
            await self.close()
            provider, name = await asyncio.to_thread(self._resolve, model, settings)
            if not isinstance(provider, EmbeddingProvider):
                raise ConfigError(
                    f"{provider.name} has no embeddings.", hint="Choose an API with /embeddings for embed."
                )
            self._provider = provider
            self._embeddings = RemoteEmbeddings(
                self._root, self._store / FILE_NAME, self._index, provider, (model, name)
            )
            self._embeddings.sent, self._embeddings.requests_missing = self._sent.get(model, 0), self.requests_missing
        return self._embeddings

    def _resolve(self, model: str, settings: Settings) -> tuple[Provider | LocalModel, str]:
        if _is_local(model, settings):
            check_installed()
            return LocalModel(), model
        return self._models.resolve(model, settings)

    async def close(self) -> None:
        """Stop requests and close the provider. Safe to call twice."""
        embeddings, provider = self._embeddings, self._provider
        self._embeddings = self._provider = None
        if embeddings is not None:
            await embeddings.close()
            self._sent[embeddings.model] = embeddings.sent
        if provider is not None:
            await provider.close()


def _is_local(model: str, settings: Settings) -> bool:
    """True if a model is the local one of the extra `minilm`; a provider of the user's may have the same name."""
    return model == MINILM and MINILM.partition("/")[0] not in settings.providers


async def embed_from_shell(
    root: Path, store: Path, settings: Settings, text: str
) -> tuple[str, tuple[bytes, bytes] | None, str]:
    """Embed a query from the shell as `EmbedRoute.embed_question` does; also return why the model of the route is not
    used ("" = it is). Requests no vectors of the project, which may take long. Raises `IndexFailed`."""
    index = ProjectIndex(root, store, lambda status: None, is_enabled=True)
    route = EmbedRoute(index, root, store, ModelAccess())
    route.requests_missing = False
    try:
        model, vectors = await route.embed_question(settings, parse_query(text))
        index_status = route.add_model_status(await index.read(IndexReader.read_status))
        coverage = (
            f"{index_status.model} has {index_status.known_to_model:,} pieces of the project. "
            if index_status.model
            else ""
        )
        return model, vectors, f"{coverage}{route.problem}" if route.problem else ""
    finally:
        await route.close()
        await index.close()


class LocalModel:
    """An `EmbeddingProvider`. Its process is started with the first texts, and again after a crash."""

    name = MINILM

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of the texts, in their order. Raises `ProviderError`."""
        vectors: list[list[float]] = []
        for begin in range(0, len(texts), _BATCH_TEXTS):
            async with self._turn:
                vectors += await self._ask(VectorRequest(tuple(texts[begin : begin + _BATCH_TEXTS])))
        return vectors

    async def _ask(self, request: VectorRequest) -> list[list[float]]:
        """Return the answer to one request. A cancelled request kills the process: its answer would be read as that of
        the next request."""
        process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
            answer = decode_json(await process.stdout.readline(), VectorAnswer)
        except asyncio.CancelledError:
            await self._kill(process)
            raise
        except (OSError, ValueError, msgspec.DecodeError) as problem:
            await self._kill(process)
            raise ProviderError(f"the process of {MINILM} has crashed.", code="bad_answer") from problem
        if answer.problem:
            raise ProviderError(answer.problem, code="bad_answer")
        if [len(vector) for vector in answer.vectors] != [DIMENSIONS] * len(request.texts):
            raise ProviderError(f"{MINILM} answered no vectors of {DIMENSIONS} numbers.", code="bad_answer")
        return [list(vector) for vector in answer.vectors]

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *build_model_command(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=_LINE_LIMIT,
                    start_new_session=True,
                    env={**os.environ, "TMPDIR": tempfile.gettempdir()},
                )
            except OSError as problem:
                raise ProviderError(f"the process of {MINILM} can't be started: {problem}.") from problem
        return self._process

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        self._process = None
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def close(self) -> None:
        """End the process. Safe to call twice."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            await self._kill(process)
