"""The object store of a team: files of sessions in an S3-compatible bucket.

The key of a file is `PREFIX/AGENT/PATH`. Credentials come only from AWS's variables and profile files. Of the service's
errors only the code is repeated, so that no credential reaches a log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from configparser import Error as ProfileUnreadable
from configparser import RawConfigParser
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from core.background.store import StoreUnavailable
from core.errors import ConfigError, StateError
from core.installation import describe_extra
from core.patterns import compile_lazily

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3Store

LOOKS_LIKE: Final = "It looks like s3://bucket/prefix?endpoint=https://host&region=name."
REQUEST_SECONDS: Final = 60  # per request: a file, or 5 MB of a large one
RETRIES: Final = 2  # per request; a worker retries without limit
PROFILE_MINUTES: Final = 15  # interval of reading the profile files
_OPTIONS: Final = frozenset({"endpoint", "region"})
_BUCKET: Final = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_CODE: Final = compile_lazily(r"<Code>(\w{1,60})</Code>")
_REFUSED: Final = compile_lazily(r"non-2xx status code: 40[13]\b")
_WRONG_REGION: Final = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"})  # codes of a wrong region
# Variables from which the library itself obtains and renews credentials.
_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class BucketAddress(Struct, frozen=True, kw_only=True):
    """A bucket with a prefix of keys. `endpoint` "" = AWS; `region` "" = from the environment or the profile."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""

    @property
    def place(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_address(text: str) -> BucketAddress:
    """Parse `s3://bucket/prefix?endpoint=URL&region=NAME`. Raises `ConfigError`, which does not repeat credentials."""
    try:
        parts = urlsplit(text)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        endpoint = urlsplit(options.get("endpoint", ""))
        hosts = (parts.hostname, endpoint.hostname, endpoint.port)
    except ValueError:
        raise ConfigError("The address of the object store can't be read.", hint=LOOKS_LIKE) from None
    if "@" in parts.netloc or "@" in endpoint.netloc:
        hint = "They belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in an AWS profile."
        raise ConfigError("The address of the object store contains credentials.", hint=hint)
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or parts.fragment:
        raise ConfigError("The address of the object store has no bucket.", hint=LOOKS_LIKE)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ConfigError(f"The address of the object store has an unknown option: {unknown[0]}.", hint=LOOKS_LIKE)
    if "endpoint" in options and (endpoint.scheme not in {"http", "https"} or not hosts[1] or endpoint.query):
        raise ConfigError("The endpoint of the object store is not a server address.", hint=LOOKS_LIKE)
    prefix = parts.path.strip("/")
    if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        raise ConfigError(f"{prefix!r} is not a valid key prefix.", hint=LOOKS_LIKE)
    return BucketAddress(
        bucket=parts.netloc,
        prefix=prefix,
        endpoint=options.get("endpoint", "").rstrip("/"),
        region=options.get("region", ""),
    )


class ObjectStore:
    """Files of sessions in a bucket. Its methods raise `ConfigError` without credentials or the package, and
    `StoreUnavailable` if the service is unreachable or refuses."""

    def __init__(self, address: BucketAddress) -> None:
        self._address = address
        self._store: S3Store | None = None

    @property
    def place(self) -> str:
        """`s3://bucket/prefix`."""
        return self._address.place

    async def check(self) -> None:
        """Check that the bucket exists and these credentials give access."""
        store = self._open()
        import obstore

        with self._translate_errors():
            async for _ in obstore.list(store, prefix="bga", chunk_size=1):
                return

    async def put(self, agent: str, path: str, data: bytes) -> None:
        """Store a file of an agent's session."""
        store = self._open()
        import obstore

        with self._translate_errors():
            await obstore.put_async(store, f"{agent}/{path}", data)

    async def read(self, agent: str, path: str) -> bytes:
        """Return a file of an agent's session. Raises `StateError` if it is missing."""
        store = self._open()
        import obstore

        with self._translate_errors():
            result = await obstore.get_async(store, f"{agent}/{path}")
            return bytes(await result.bytes_async())

    async def delete(self, agent: str) -> None:
        """Delete all files of an agent."""
        store = self._open()
        import obstore

        with self._translate_errors():
            async for batch in obstore.list(store, prefix=agent):
                await obstore.delete_async(store, [entry["path"] for entry in batch])

    def _open(self) -> S3Store:
        if self._store is None:
            try:
                from obstore.store import S3Store
            except ImportError:
                raise ConfigError(
                    "The object store needs a package that is not installed.", hint=describe_extra("team")
                ) from None
            region = self._address.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            has_variables = any(os.environ.get(name) for name in _VARIABLES)
            if not has_variables:
                _read_profile_credential()  # fails early without credentials
                region = region or _read_profile().get("region")
            config: S3Config = {"region": region or "us-east-1"}
            if self._address.endpoint:
                config["endpoint"] = self._address.endpoint
            with self._translate_errors():
                self._store = S3Store(
                    self._address.bucket,
                    prefix=self._address.prefix or None,
                    config=config,
                    client_options={
                        "allow_http": self._address.endpoint.startswith("http://"),
                        "connect_timeout": timedelta(seconds=10),
                        "timeout": timedelta(seconds=REQUEST_SECONDS),
                    },
                    retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)},
                    credential_provider=None if has_variables else _read_profile_credential,
                )
        return self._store

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as problem:
            raise self._explain(problem) from None

    def _explain(self, problem: Exception) -> StoreUnavailable | StateError:
        """Translate an error of the library, whose own text quotes requests and responses."""
        message, location = str(problem), self._address.place
        match = _CODE.search(message)
        code = match[1] if match else ""
        if code == "NoSuchBucket":
            hint = "Create it, or correct background.blobs."
            return StoreUnavailable(f"The object store has no bucket {self._address.bucket!r}.", hint=hint)
        if _REFUSED.search(message):
            hint = f"Check the AWS credentials: they must be able to list, read, write and delete in {location}."
            return StoreUnavailable(f"The object store refuses access to {location}: {code or 'forbidden'}.", hint=hint)
        if code in _WRONG_REGION:
            hint = "Set its region in background.blobs: ?region=NAME."
            return StoreUnavailable(f"The bucket {self._address.bucket!r} is in another region.", hint=hint)
        if isinstance(problem, FileNotFoundError):
            return StateError(f"A file of this agent is missing from {location}.", code="file_missing")
        if code:
            return StoreUnavailable(f"The object store failed at {location}: {code}.", hint="Its own log has more.")
        endpoint = self._address.endpoint or "AWS"
        hint = "Check that it is running, and that the endpoint in background.blobs is right."
        return StoreUnavailable(f"The object store can't be reached at {endpoint}.", hint=hint)


def _read_profile() -> dict[str, str]:
    """Return the profile that `AWS_PROFILE` names, merged from both files. Raises `ConfigError`."""
    name = os.environ.get("AWS_PROFILE") or "default"
    profile: dict[str, str] = {}
    for variable, usual, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        path = Path(os.environ.get(variable) or Path("~/.aws", usual)).expanduser()
        profiles = RawConfigParser()
        try:
            profiles.read(path, encoding="utf-8")
        except (ProfileUnreadable, OSError, UnicodeDecodeError):  # their messages quote lines of the file
            raise ConfigError(f"{path} can't be read as an AWS profile file.") from None
        if profiles.has_section(section):
            profile |= profiles[section]
    return profile


def _read_profile_credential() -> S3Credential:
    """Return the keys of that profile. Raises `ConfigError` if it has none."""
    profile = _read_profile()
    if not profile.get("aws_access_key_id") or not profile.get("aws_secret_access_key"):
        hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile that has both."
        raise ConfigError("There are no AWS credentials for the object store.", hint=hint)
    return {
        "access_key_id": profile["aws_access_key_id"],
        "secret_access_key": profile["aws_secret_access_key"],
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + timedelta(minutes=PROFILE_MINUTES),
    }
