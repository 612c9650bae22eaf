"""agent-tui as an agent of Harbor (https://harborframework.com/docs), by its import path:

    harbor run --agent agent_tui_agent:AgentTui --ak package=PATH --model anthropic/claude-sonnet-5-5 …

This file needs Harbor 0.26 or newer, and nothing of agent-tui: the program is installed in the environment of the task.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harbor.agents.agent_auth_resolution import ModelConnectionSpec
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed import base
from harbor.agents.installed.base import BaseInstalledAgent, ErrorPattern, with_prompt_template
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.utils.trajectory_utils import load_model_usage_from_trajectory
from pydantic import Field

HERE = Path(__file__).resolve().parent
PLACE = "/opt/agent-tui"
PROGRAM = f"{PLACE}/bin/agent-tui"
INSTALLER = "/installed-agent/install.sh"
INSTRUCTION = "/installed-agent/instruction.md"
# Prints the error of a response, for a person and for the patterns below; texts of models and tools stay out of it.
EXPLAIN = """
import json, sys
try:
    response = json.load(open(sys.argv[1]))
except (OSError, ValueError):
    sys.exit("agent-tui [NO_RESPONSE] there is no response")
codes = [document["metadata"]["errorCode"] for document in response["documents"] if document["type"] == "error"]
print(f"agent-tui [{codes[-1] if codes else 'FAILED'}]", response["metadata"]["stopMessage"], file=sys.stderr)
"""


class AgentTuiOptions(InstalledAgentOptions):
    """What `--ak NAME=VALUE` can set."""

    package: str | None = Field(
        default=None, description="A wheel or a checkout of agent-tui on the machine that runs Harbor."
    )
    in_place: bool = Field(
        default=True,
        description="Work on the environment itself, also outside of the project; False: on a copy of the project, "
        "whose changes are accepted at the end.",
    )
    accept: str = Field(default="all", description="What is accepted at the end: all, verified, or a pattern.")
    mode: Annotated[Literal["agent", "plan", "ask", "debug"] | None, Cli("--mode")] = Field(
        default=None, description="The mode of the session."
    )
    max_steps: Annotated[int | None, Cli("--max-steps")] = Field(default=None, description="The most model calls.")
    max_cost: Annotated[float | None, Cli("--max-cost")] = Field(default=None, description="The most US dollars.")
    time_limit: Annotated[str | None, Cli("--time-limit")] = Field(
        default=None,
        description="End the turn after this time; set it below the task's own limit, so that the trajectory is "
        "written.",
    )
    allowed_tools: Annotated[str | None, Cli("--allowed-tools")] = Field(
        default=None, description="The only tools that may be called, separated by commas."
    )
    reasoning_effort: Annotated[str | None, Cli("--effort")] = Field(
        default=None, description="none, minimal, low, medium, high, xhigh or max."
    )


def _match_codes(codes: str, exception: type[base.NonZeroAgentExitCodeError]) -> ErrorPattern:
    return ErrorPattern(rf"^agent-tui \[(?:{codes})\]", exception)


class AgentTui(BaseInstalledAgent):
    """agent-tui, run once with `-p`; its trajectory is the source of tokens and cost."""

    capabilities = AgentCapabilities(atif=True, reasoning_effort=True)
    options_model = AgentTuiOptions
    options: AgentTuiOptions
    DEFAULT_SETUP_TIMEOUT_SEC: ClassVar[float] = 900.0  # some sixty packages come from an index
    MODEL_CONNECTION = ModelConnectionSpec()
    # Only our own codes at the beginning of a line count: what a tool or a model says never looks like a failed API.
    ERROR_PATTERNS: ClassVar[list[ErrorPattern]] = [
        ErrorPattern(rf"(?m){pattern.pattern}", pattern.exception)
        for pattern in (
            _match_codes("RATE_LIMITED", base.ApiRateLimitError),
            _match_codes("QUOTA_EXHAUSTED", base.ApiUsageLimitError),
            _match_codes("OVERLOADED", base.ApiOverloadedError),
            _match_codes("SERVER_FAILED", base.ApiInternalServerError),
            _match_codes("STREAM_CUT", base.ApiConnectionClosedError),
            _match_codes("STALLED", base.ApiResponseStalledError),
            _match_codes("CONTEXT_OVERFLOW", base.ContextWindowExceededError),
            _match_codes("KEY_MISSING|KEY_REJECTED|KEY_COMMAND_FAILED", base.AgentAuthenticationError),
            _match_codes("MODEL_UNKNOWN|MODEL_INVALID|PROVIDER_UNKNOWN", base.ModelNotFoundError),
            _match_codes("UNREACHABLE|TLS_FAILED|PROXY_UNUSABLE|ADDRESS_UNKNOWN", base.NetworkConnectionError),
            _match_codes("REQUEST_INVALID|PROVIDER_FAILED|BAD_ANSWER|STREAM_INVALID", base.UnknownApiError),
        )
    ]

    @staticmethod
    def name() -> str:
        return "agent-tui"

    def get_version_command(self) -> str | None:
        return f"{PROGRAM} --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().rpartition(" ")[2]

    async def install(self, environment: BaseEnvironment) -> None:
        package = self._find_package()
        await self.ensure_system_dependencies(environment, ("bash", "git", "ca_certificates"))
        if package.is_dir():
            remote = "/installed-agent/agent-tui"
            with tempfile.TemporaryDirectory(prefix="agent-tui-") as scratch:
                await asyncio.to_thread(_copy_checkout, package, Path(scratch))
                await environment.upload_dir(Path(scratch), remote)
        else:
            remote = f"/installed-agent/{package.name}"
            await environment.upload_file(package, remote)
        await environment.upload_file(HERE / "install.sh", INSTALLER)
        await self._ensure_installer(environment)
        await self.exec_as_root(environment, command=f"sh {INSTALLER} {shlex.quote(remote)} {PLACE}")

    def _find_package(self) -> Path:
        package = Path(self.options.package).expanduser() if self.options.package else None
        if package is None or not package.exists():
            raise ValueError("agent-tui: give a wheel or a checkout with --ak package=PATH, or --ak skip_install=true")
        return package

    async def _ensure_installer(self, environment: BaseEnvironment) -> None:
        """Install what the script needs where the environment has no Python that will do."""
        probe = "python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'"
        if (await environment.exec(command=probe, user="root")).return_code:
            await self.ensure_system_dependencies(environment, ("curl", "tar"))

    def build_command(self) -> str:
        """Return the command line of a run: the response and the trajectory are files, the reason of a failure is on
        standard error. A limit of ours, or something left alone, is no failure: the task's verifier judges."""
        if not self.model_name:
            raise ValueError("agent-tui needs a model: --model PROVIDER/NAME")
        logs = self.environment_logs_dir.as_posix()
        options = ["--model", self.model_name, "--trust", "--accept", self.options.accept, "--exit-zero"]
        options += ["--sandbox", "in-place" if self.options.in_place else "container", "--i-know"]
        options += ["--allow", "Shell(*)"]
        options += ["--output-format", "json", "--trajectory", f"{logs}/trajectory.json"]
        response = f"{logs}/response.json"
        return (
            f"mkdir -p {logs}; {PROGRAM} -p {shlex.join(options)} {self.build_cli_flags()} "
            f"< {INSTRUCTION} > {response} 2> {logs}/agent-tui.txt; code=$?; "
            f"[ $code -eq 0 ] && exit 0; tail -n 20 {logs}/agent-tui.txt; "
            f"{PLACE}/bin/python -c {shlex.quote(EXPLAIN)} {response}; exit $code"
        )

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self._upload_config_text(
            environment, content=instruction, remote_path=INSTRUCTION, filename="instruction.md"
        )
        await self.exec_as_agent(environment, command=self.build_command(), env=self.model_connection.env)

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Read tokens and cost from the trajectory, and what was checked from the response."""
        path = self.logs_dir / "trajectory.json"
        try:
            metrics: dict[str, Any] = json.loads(path.read_text())["final_metrics"]
        except (OSError, ValueError, KeyError):
            self.logger.warning("agent-tui left no trajectory: it was ended before it could write one")
            return
        context.n_input_tokens = metrics.get("total_prompt_tokens")
        context.n_cache_tokens = metrics.get("total_cached_tokens")
        context.n_output_tokens = metrics.get("total_completion_tokens")
        context.cost_usd = metrics.get("total_cost_usd")
        context.model_usage = load_model_usage_from_trajectory(path)
        try:
            facts = json.loads((self.logs_dir / "response.json").read_text())["metadata"]
        except (OSError, ValueError, KeyError):
            return
        kept = ("sessionId", "stopReason", "turnCount", "toolCallCount", "checks", "acceptedChanges", "pendingChanges")
        context.metadata = {"agent_tui": {name: facts.get(name) for name in kept}}


def _copy_checkout(checkout: Path, target: Path) -> None:
    """Copy the files of a checkout that its last commit has; without git, what a wheel is built from."""
    done = subprocess.run(["git", "-C", str(checkout), "archive", "HEAD"], capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"agent-tui: {checkout} is no git checkout; build a wheel and give that")
    with tempfile.TemporaryFile() as file:
        file.write(done.stdout)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(target, filter="data")
