from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ToolFailed
from core.sandbox.tiers.seatbelt_profile import MAX_PROFILE, ProfileInput, build_profile, quote
from tests.unit.sandbox.tiers.sandbox_rules import Profile, unquote

COPY, SCRATCH = "/Users/me/state/1/shop", "/Users/me/state/scratch"
PATHS = ProfileInput(
    writable=(Path(COPY), Path(SCRATCH)),
    readable=(Path("/Users/me/.pyenv/versions"), Path("/Applications/Xcode.app/Contents/Developer")),
    hidden=(Path(f"{COPY}/vault/key"), Path("/Users/me/.pyenv/versions/token")),
)


def resolve(path: str) -> str:
    """Real paths of a Mac."""
    return f"/private{path}" if path.startswith(("/tmp", "/var", "/etc")) else path


def profile(paths: ProfileInput = PATHS) -> Profile:
    return Profile(build_profile(paths, resolve))


def test_the_text_begins_with_the_denial_of_all_else_and_is_balanced():
    text = build_profile(PATHS, resolve)
    assert text.splitlines()[:2] == ["(version 1)", '(deny default (with message "agent-tui"))']
    assert re.sub(r'"(?:\\.|[^"\\])*"', "", text).count("(") == re.sub(r'"(?:\\.|[^"\\])*"', "", text).count(")")


@pytest.mark.parametrize(
    "line",
    [
        "(allow process-exec)",
        "(allow process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow ipc-posix-sem)",
        "(allow pseudo-tty)",
        '(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))',
        '(allow file-read* (literal "/"))',
        "(allow file-read-metadata (vnode-type DIRECTORY))",
        "(allow system-socket (socket-domain AF_UNIX))",
        "(deny appleevent-send)",
        "(deny lsopen)",
        "(deny job-creation)",
    ],
)
def test_each_plain_rule_is_a_line_of_the_text(line: str):
    assert line in build_profile(PATHS, resolve).splitlines()


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ("file-read-data", "/usr/bin/git", "allow"),
        ("file-read-data", "/", "allow"),
        ("file-read-data", "/Applications/Xcode.app/Contents/Developer/usr/bin/git", "allow"),
        ("file-read-data", "/Users/me/.ssh/id_ed25519", "deny"),
        ("file-read-data", "/Users/me/state/sessions/log", "deny"),
        ("file-read-data", "/private/tmp/other", "deny"),
        ("file-read-data", "/private/var/folders/xy/other", "deny"),
        ("file-read-data", "/Users/me/.pyenv/versions/3.12/bin/python", "allow"),
        ("file-read-data", "/Users/me/.pyenv/versions/token", "deny"),
        ("file-read-data", f"{COPY}/src/a.py", "allow"),
        ("file-read-data", f"{COPY}/vault/key", "deny"),
        ("file-read-metadata", "/Users/me/state", "allow"),
        ("file-write-data", f"{COPY}/src/a.py", "allow"),
        ("file-write-create", f"{COPY}/src/new.py", "allow"),
        ("file-write-unlink", f"{COPY}/src/a.py", "allow"),
        ("file-write-mode", f"{COPY}/src/a.py", "allow"),
        ("file-write-unlink", COPY, "deny"),
        ("file-write-data", "/Users/me/shop/src/a.py", "deny"),
        ("file-write-create", "/usr/local/bin/new", "deny"),
        ("file-write-mode", "/Users/me/shop/src/a.py", "deny"),
        ("file-write-create", f"{COPY}-2/new", "deny"),
        ("file-write-data", "/dev/null", "allow"),
        ("file-write-data", "/dev/fd/3", "allow"),
        ("file-write-data", "/dev/disk0", "deny"),
        ("file-read-data", "/dev/ptmx", "allow"),
        ("process-exec", "/bin/ls", "allow"),
        ("nvram-set", "", "deny"),
        ("appleevent-send", "", "deny"),
        ("lsopen", "", "deny"),
    ],
)
def test_files_and_operations_are_decided_as_promised(operation: str, path: str, expected: str):
    assert profile().decide(operation, path) == expected


@pytest.mark.parametrize("name", ["kern.sysv.semmni", "kern.argmax", "hw.ncpu", "kern.usrstack64", "hw.optional.arm64"])
def test_pythons_pools_and_loaders_get_the_numbers_that_they_ask_for(name: str):
    assert profile().decide("sysctl-read", sysctl_name=name) == "allow"
    assert profile().decide("sysctl-write", sysctl_name=name) == "deny"
    assert profile().decide("ipc-posix-sem") == "allow"


@pytest.mark.parametrize(
    ("name", "expected"), [("/psm_0a1b2c3d", "allow"), ("/__KMP_REGISTERED_LIB_123", "allow"), ("/other", "deny")]
)
def test_shared_memory_of_python_and_openmp_is_allowed_by_name(name: str, expected: str):
    assert profile().decide("ipc-posix-shm-write-create", ipc_posix_name=name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("com.apple.system.opendirectoryd.libinfo", "allow"),
        ("com.apple.trustd.agent", "allow"),
        ("com.apple.SecurityServer", "deny"),
        ("com.apple.securityd.xpc", "deny"),
        ("com.apple.coreservices.appleevents", "deny"),
        ("com.apple.coreservices.launchservicesd", "deny"),
        ("com.apple.pasteboard.1", "deny"),
        ("com.apple.windowserver.active", "deny"),
    ],
)
def test_only_harmless_services_are_found(name: str, expected: str):
    assert profile().decide("mach-lookup", global_name=name) == expected


def test_nothing_of_the_network_is_reached_but_the_commands_own_sockets():
    closed = profile()
    assert closed.decide("network-outbound", "localhost:*", remote="ip") == "deny"
    assert closed.decide("network-bind", "localhost:*", local="ip") == "deny"
    assert closed.decide("network-outbound", f"{COPY}/app.sock", remote="unix-socket") == "allow"
    assert closed.decide("network-outbound", "/private/var/run/docker.sock", remote="unix-socket") == "deny"


def test_loopback_is_named_by_what_is_reached():
    paths = ProfileInput(writable=(Path(COPY),), loopback=True)
    text = build_profile(paths, resolve)
    assert '(allow network-outbound (remote ip "localhost:*"))' in text.splitlines()
    assert "network-outbound (local" not in text
    assert profile(paths).decide("network-outbound", "localhost:*", remote="ip") == "allow"
    assert profile(paths).decide("network-outbound", "*:443", remote="ip") == "deny"


def test_paths_are_the_real_ones():
    text = build_profile(ProfileInput(writable=(Path("/tmp/copy"), Path("/var/folders/xy/scratch"))), resolve)
    assert '(subpath "/private/tmp/copy")' in text
    assert '(subpath "/tmp' not in text
    assert '(subpath "/var/' not in text


@given(st.text(alphabet='a"\\*?[](){}\n\té ', min_size=1, max_size=12))
def test_any_name_is_itself_and_no_pattern(name: str):
    name = name.strip("/") or "x"
    assert unquote(quote(name)) == name
    rules = Profile(build_profile(ProfileInput(writable=(Path(f"/w/{name}"),)), str))
    assert rules.decide("file-write-data", f"/w/{name}/a") == "allow"
    assert rules.decide("file-write-data", f"/w/{name}x/a") == "deny"


def test_many_paths_share_rules_and_too_many_are_refused():
    paths = tuple(Path(f"/w/secret{number}") for number in range(3000))
    text = build_profile(ProfileInput(writable=(Path("/w"),), hidden=paths), str)
    assert len(text.encode()) < MAX_PROFILE
    assert len(text.splitlines()) < 200
    assert max(line.count("(subpath") for line in text.splitlines()) <= 200
    deep = tuple(Path(f"/w/{'d' * 200}{number}/f") for number in range(1000))
    with pytest.raises(ToolFailed, match="Too many paths are hidden"):
        build_profile(ProfileInput(writable=(Path("/w"),), hidden=deep), str)


BASE = "/private/tmp/base"
DENIED, SECRET = f"{BASE}/denied", f"{BASE}/denied/secret.txt"
GLOB = tuple(Path(f"{BASE}/glob/{name}.txt") for name in ("one", "two"))
NESTED = Path(f"{BASE}/glob/deep/three.txt")
# The cases of test/sandbox/macos-seatbelt.test.ts and macos-pty.test.ts of sandbox-runtime (Apache-2.0), read as
# operations: `mv` needs the removal of the old name, `cat` the data. Its patterns are listed files here.
VECTORS = [
    ("should block moving a read-denied file to a readable location", (Path(DENIED),), "file-write-unlink", SECRET),
    ("should still block reading the file (sanity check)", (Path(DENIED),), "file-read-data", SECRET),
    ("should block moving an ancestor directory of a read-denied file", (Path(DENIED),), "file-write-unlink", DENIED),
    ("should block moving the grandparent directory", (Path(SECRET),), "file-write-unlink", BASE),
    ("should block moving files matching a glob pattern (*.txt)", GLOB, "file-write-unlink", str(GLOB[0])),
    ("should still block reading files matching the glob pattern", GLOB, "file-read-data", str(GLOB[1])),
    (
        "should block moving the parent directory containing glob-matched files",
        GLOB,
        "file-write-unlink",
        f"{BASE}/glob",
    ),
    ("should block moving files matching a recursive glob pattern", (NESTED,), "file-write-unlink", str(NESTED)),
    (
        "should block write bypass via directory rename (mv a c, write c/b, mv c a)",
        (Path(DENIED),),
        "file-write-unlink",
        DENIED,
    ),
    ("should still block direct writes to denied paths", (Path(DENIED),), "file-write-data", SECRET),
    ("should block a denied path from being made again", (Path(DENIED),), "file-write-create", SECRET),
    ("should block moving an ancestor directory of a write-denied path", (Path(SECRET),), "file-write-unlink", DENIED),
    ("should still block direct writes to glob-matched files", GLOB, "file-write-data", str(GLOB[0])),
]


@pytest.mark.parametrize(("name", "hidden", "operation", "path"), VECTORS)
def test_the_published_cases_of_sandbox_runtime_hold(name: str, hidden: tuple[Path, ...], operation: str, path: str):
    rules = profile(ProfileInput(writable=(Path("/private/tmp"),), hidden=hidden))
    assert rules.decide(operation, path) == "deny", name
    assert rules.decide("file-write-unlink", f"{BASE}/other/file") == "allow", name


def test_the_published_cases_on_processes_and_terminals_hold():
    assert profile().decide("sysctl-read", sysctl_name="kern.proc.all") == "allow"
    assert profile().decide("pseudo-tty") == "allow"
    assert profile().decide("file-write-data", "/dev/ttys004", extension="com.apple.sandbox.pty") == "allow"
    assert profile().decide("file-write-data", "/dev/ttys004") == "deny"
