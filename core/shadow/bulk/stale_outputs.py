"""Outputs of files that name dependencies: what is stale once such a file is no longer what they were made from."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from core.shadow.content.paths import list_parents

_PYTHON = (".venv", "venv", "env", ".tox", ".nox", "__pypackages__")
_NODE = ("node_modules", "bower_components", ".yarn", ".pnp.cjs")
_JVM = ("build", "target", "out", ".gradle")
OUTPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "bower.json"), _NODE),
    **dict.fromkeys(("pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", ".yarnrc.yml"), _NODE),
    **dict.fromkeys(("*requirements*.txt", "*requirements*.in", "constraints*.txt", "pyproject.toml"), _PYTHON),
    **dict.fromkeys(
        ("setup.py", "setup.cfg", "Pipfile", "Pipfile.lock", "poetry.lock", "pdm.lock", "uv.lock"), _PYTHON
    ),
    **dict.fromkeys(("environment*.yml", "environment*.yaml"), _PYTHON),
    **dict.fromkeys(("Cargo.toml", "Cargo.lock"), ("target", "vendor")),
    **dict.fromkeys(("go.mod", "go.sum", "go.work"), ("vendor", "bin")),
    **dict.fromkeys(("Gemfile", "Gemfile.lock", "*.gemspec"), ("vendor", ".bundle")),
    **dict.fromkeys(("composer.json", "composer.lock"), ("vendor",)),
    **dict.fromkeys(("pom.xml", "build.gradle", "build.gradle.kts", "gradle.lockfile", "build.sbt"), _JVM),
    **dict.fromkeys(("mix.exs", "mix.lock", "rebar.config"), ("deps", "_build")),
    **dict.fromkeys(("pubspec.yaml", "pubspec.lock"), (".dart_tool", "build")),
    **dict.fromkeys(("*.csproj", "*.fsproj", "packages.config", "packages.lock.json"), ("obj", "bin", "packages")),
    **dict.fromkeys(("Package.swift", "Package.resolved"), (".build",)),
    **dict.fromkeys(("Podfile", "Podfile.lock"), ("Pods",)),
    **dict.fromkeys(("deno.json", "deno.lock"), ("node_modules", "vendor")),
    **dict.fromkeys(("conanfile.txt", "conanfile.py", "vcpkg.json"), ("build", "vcpkg_installed")),
    **dict.fromkeys(("elm.json", "shard.yml", "dub.json"), ("elm-stuff", "lib", ".dub")),
    **dict.fromkeys(("stack.yaml", "*.cabal", "cabal.project"), (".stack-work", "dist-newstyle")),
}


def names_dependencies(path: str) -> bool:
    """True if a file says what is to be installed or built."""
    return bool(_find_outputs(path))


def _find_outputs(path: str) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    return next((names for pattern, names in OUTPUTS.items() if fnmatchcase(name, pattern)), ())


def find_stale_outputs(path: str, tops: Iterable[str]) -> list[str]:
    """Return those of the kept tops that are made from a file: outputs beside it, above it or below its directory."""
    names, parent = _find_outputs(path), path.rpartition("/")[0]
    above = {"", parent, *list_parents(path)}
    stale = []
    for top in tops:
        parts = top.split("/")
        index = next((number for number, part in enumerate(parts) if part in names), None)
        if index is None:
            continue
        directory = "/".join(parts[:index])
        if directory in above or not parent or directory.startswith(f"{parent}/"):
            stale.append(top)
    return stale
