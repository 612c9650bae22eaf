from __future__ import annotations

from pathlib import Path

from core.sandbox import host_view
from core.sandbox.host_view import TOOLCHAINS


def test_a_home_is_what_the_environment_says_unless_that_is_no_home():
    assert host_view.find_home({"HOME": "/home/ann"}) == Path("/home/ann")
    assert (
        host_view.find_home({"HOME": "/"})
        == host_view.find_home({"HOME": "relative"})
        == host_view.find_home({})
        == Path("/tmp/home")
    )


def test_toolchains_are_allowed_by_name_and_nothing_beside_them_is(tmp_path: Path):
    for name in (".cargo/bin", ".cargo/registry", ".pyenv/versions", ".ssh", ".config/gh", ".local/share/keyrings"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".cargo/credentials.toml").touch()
    toolchains = {path for path in host_view.find_toolchains({"HOME": str(tmp_path)}) if path.is_relative_to(tmp_path)}
    assert toolchains == {tmp_path / ".cargo/bin", tmp_path / ".cargo/registry", tmp_path / ".pyenv/versions"}


def test_a_virtual_environment_counts_only_if_it_is_one(tmp_path: Path):
    environment = tmp_path / "venv"
    environment.mkdir()
    env = {"HOME": str(tmp_path / "home"), "VIRTUAL_ENV": str(environment)}
    assert environment not in host_view.find_toolchains(env)
    (environment / "pyvenv.cfg").touch()
    assert environment in host_view.find_toolchains(env)


def test_no_toolchain_is_a_place_of_credentials():
    credentials = {".ssh", ".aws", ".netrc", ".docker", ".kube", ".config", ".gnupg", ".cargo", ".m2", ".npm", ".local"}
    assert not credentials & set(TOOLCHAINS)
    assert not [name for name in TOOLCHAINS if name.startswith((".config/", ".local/share/keyrings"))]


def test_k3_the_systems_secrets_and_other_peoples_homes_are_masked():
    masked = set(host_view.list_masked())
    assert {path for path in map(Path, ("/etc/shadow", "/root")) if path.exists()} <= masked
    assert Path("/usr") not in masked
