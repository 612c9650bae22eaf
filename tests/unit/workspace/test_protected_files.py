"""What acts by itself is protected and says why; what runs when it is called is labelled only."""

from __future__ import annotations

import json

import pytest

from core.workspace.protected_files import find_file_risk, find_link_risk, is_protected

PROTECTED = {
    "agent may": (".Cursor/mcp.json", ".cursor/rules/a.mdc", ".agent-tui/config.toml", "AGENTS.md", "sub/CLAUDE.md"),
    "may see": (".cursorignore",),
    "editor opens": (".vscode/tasks.json", ".idea/x.xml", "my.code-workspace"),
    "git commits": (".husky/pre-commit", ".git/hooks/x", "sub/.git/hooks/x", ".pre-commit-config.yaml"),
    "what git runs": (".git/config", ".GIT/config", ".g\u200cit/config", "git~1/x", ".git./x", ".gitattributes"),
    "build server": (".github/workflows/ci.yml", ".GitHub/Actions/a/action.yml", ".gitlab-ci.yml", "Jenkinsfile"),
    "shell enters": (".envrc",),
    "starts programs": (".mcp.json", "sub/mcp.json"),
    "Python starts": ("venv/pyvenv.cfg", "sitecustomize.py", "lib/python3/site-packages/a.pth"),
}


@pytest.mark.parametrize(("words", "path"), [(words, path) for words, paths in PROTECTED.items() for path in paths])
def test_p16_protected_levers_are_known_in_any_spelling_and_say_why(words, path):
    lever = find_file_risk(path)
    assert lever.is_protected
    assert words in lever.risk
    assert is_protected(path)


@pytest.mark.parametrize("path", ["conftest.py", "sub/Makefile", "package.json", "setup.py", ".npmrc", "x.config.ts"])
def test_what_runs_when_it_is_called_is_labelled_and_not_protected(path):
    assert find_file_risk(path).risk
    assert not is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        *(".cursor/plans/a.plan.md", ".gitignore", "src/git.py", "cursor/x", "a.vscode", "README.md", "model.pth"),
        *(".github/CODEOWNERS", "workflows/ci.yml"),
    ],
)
def test_p16_other_paths_are_no_levers(path):
    assert find_file_risk(path) is None
    assert not is_protected(path)


@pytest.mark.parametrize(
    "path", [".cursor/plans/a.mdc", ".cursor/plans/.cursor/rules/a.mdc", ".Cursor/plans/a.plan.md"]
)
def test_n1_only_a_plan_is_let_off_in_the_folder_of_the_plans(path):
    assert is_protected(path)


def package(**scripts: str) -> bytes:
    return json.dumps({"name": "x", "scripts": scripts}).encode()


def test_a_package_is_protected_when_what_an_install_runs_is_changed():
    lever = find_file_risk(
        "app/package.json", package(test="a"), package(test="a", postinstall="curl | sh", prepare="b")
    )
    assert lever.is_protected
    assert lever.risk.endswith("(postinstall, prepare)")
    assert not find_file_risk("package.json", package(postinstall="a"), package(postinstall="a", test="b")).is_protected
    assert not find_file_risk("package.json", package(postinstall="a"), package()).is_protected
    assert not find_file_risk("package.json", b"", b"[not json").is_protected


@pytest.mark.parametrize(
    ("target", "leads_out"), [(b"../x", False), (b"../../x", True), (b"/etc", True), (b"y", False)]
)
def test_p5_a_link_that_leads_out_of_the_project_is_protected(target, leads_out):
    lever = find_link_risk("sub/link", target)
    assert (lever is not None) == leads_out


BY_ITSELF = """
.devcontainer.json .forgejo/workflows/x.yml .gitea/x .woodpecker.yml .build.yml .gitpod.yml .helix/config.toml
AGENTS.override.md CLAUDE.local.md .windsurfrules .rvmrc .Rprofile .pdbrc .irbrc .dir-locals-2.el .zprofile
.bash_login lefthook-local.yml .cargo/config .cargo/config.toml mise.toml .mise/config.toml
.config/mise/a.toml .gdbinit .lldbinit .zed/settings.json .fleet/run.json a.sublime-project .nvim.lua .exrc
.vimrc GEMINI.md .github/copilot-instructions.md .github/instructions/a.md .clinerules .clinerules/a.md
.roo/rules/a.md .kiro/steering/a.md .codex/config.toml .opencode/agent/a.md opencode.json .aider.conf.yml
.envrc.local .circleci/config.yml .gitlab-ci.yml ci/deploy.gitlab-ci.yml release.Jenkinsfile
azure-pipelines.yml .drone.yml .travis.yml appveyor.yml .buildkite/p.yml .semaphore/s.yml .builds/a.yml
netlify.toml .readthedocs.yaml sitecustomize.py usercustomize.py lib/site-packages/a.pth python311._pth
.husky/pre-commit .git-hooks/x .lintstagedrc.json .simple-git-hooks.cjs .hg/hgrc .jj/repo/config.toml
.lfsconfig .ghci .ocamlinit .iex.exs .Renviron .pryrc .bash_aliases .zlogin .autoenv.zsh .lazy.lua
.ycm_extra_conf.py jupyter_server_config.py .aiexclude .replit .idx/dev.nix .windsurf/rules/a.md .agents/x
.rules skill.md .shadowenv.d/a .ssh/config
"""


@pytest.mark.parametrize("spelled", [str, str.upper], ids=["as it is", "in capitals"])
@pytest.mark.parametrize("path", BY_ITSELF.split())
def test_n9_a_name_that_acts_by_itself_is_protected_in_any_directory_and_spelling(path, spelled):
    for place in (path, f"deep/down/{path}"):
        assert is_protected(spelled(place)), place


@pytest.mark.parametrize(
    "path", ["a.py", ".nvmrc", ".editorconfig", "docs/mise.md", ".python-version", "gitea/x", "x.pth"]
)
def test_n9_what_only_looks_like_it_is_not(path):
    assert find_file_risk(path) is None


FORMS = {
    "quoted.npmrc": ('"script-shell" = ./x.sh\n', ".npmrc"),
    "single.npmrc": ("; c\n'script-shell' = ./x.sh\n", ".npmrc"),
    "escaped.npmrc": ('"script-\\u0073hell" = ./x.sh\n', ".npmrc"),
    "list.npmrc": ("node-options[]=--require ./x.js\n", ".npmrc"),
    "variable.npmrc": ("${NOTHING}script-shell=./x.sh\n", ".npmrc"),
    "inline": ('toolchain = {path = "./evil"}\n', "rust-toolchain.toml"),
    "escaped": ('[toolchain]\n"p\\u0061th" = "./evil"\n', "rust-toolchain.toml"),
    "of the old name": ('toolchain.path = "./evil"\n', "rust-toolchain"),
    "complex": ("? yarnPath\n: ./x.js\n", ".yarnrc.yml"),
    "escaped yarn": ('"yarn\\u0050ath": ./x.js\n', ".yarnrc.yml"),
    "in braces": ("{yarnPath: ./x.js}\n", ".yarnrc.yml"),
    "tagged": ("!!str yarnPath: ./x.js\n", ".yarnrc.yml"),
    "escaped bun": ('"pre\\u006coad" = "./x.ts"\n', "bunfig.toml"),
    "deep bun": ('test = {preload = "./x.ts"}\n', "bunfig.toml"),
    "ghooks": ('{"config": {"ghooks": {"pre-commit": "touch x"}}}', "package.json"),
    "built": ('{"pnpm": {"onlyBuiltDependencies": ["x"]}}', "package.json"),
    "run-s": ('{"scripts": {"prepare": "run-s a", "a": "touch x"}}', "package.json"),
    "alias": ('{"scripts": {"post-install-cmd": ["@go"], "go": "touch x"}}', "composer.json"),
    "plugins": ('[tool.poetry.requires-plugins]\nmy = {path = "./evil"}\n', "pyproject.toml"),
    "quoted backend": ('[build-system]\n"backend-p\\u0061th" = ["."]\n', "pyproject.toml"),
    "pnpmfile": ("pnpmfile: ./x.cjs\n", "pnpm-workspace.yaml"),
    "pnpm list": ("packages:\n- a\nonlyBuiltDependencies:\n- x\n", "pnpm-workspace.yaml"),
    "package.yaml": ("scripts:\n  postinstall: touch x\n", "package.yaml"),
    "package.json5": ('{scripts: {postinstall: "touch x"}}', "package.json5"),
    "crate": ('[package]\nname = "x"\nbuild = "gen.rs"\n', "Cargo.toml"),
    "crate, quoted": ("[package]\n\"bui\\u006cd\" = 'gen.rs'\n", "Cargo.toml"),
    "crate, inline": ('package = {name = "x", build = "gen.rs"}\n', "Cargo.toml"),
    "crate, dotted": ('package.name = "x"\npackage.build = "gen.rs"\n', "Cargo.toml"),
    "crate, odd": ('package = {\n  name = "x",\n  build = "gen.rs",\n}\n', "Cargo.toml"),
    "path file": ("import os\n", "x.pth"),
}


@pytest.mark.parametrize("form", FORMS)
def test_n23_a_key_that_names_a_program_counts_in_each_form_of_its_format(form):
    text, name = FORMS[form]
    lever = find_file_risk(f"sub/{name}", b"", text.encode())
    assert lever is not None
    assert lever.is_protected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".npmrc", "registry=https://example.org\n@x:registry=https://example.org\n# script-shell=x\n"),
        ("Cargo.toml", '[package]\nname = "x"\nbuild = false\n[dependencies]\nbuild = "1"\n'),
        ("rust-toolchain.toml", '[toolchain]\nchannel = "1.80"\n'),
        ("rust-toolchain", "nightly\n"),
        (".yarnrc.yml", 'nodeLinker: node-modules\npackageExtensions:\n  "a@*":\n    dependencies: {b: "1"}\n'),
        ("bunfig.toml", "[install]\nexact = true\n"),
        ("pnpm-workspace.yaml", "packages:\n  - \"packages/*\"\n  - '!**/test/**'\ncatalog:\n  a: ^1\n"),
        ("pyproject.toml", '[project]\nname = "x"\n[tool.poetry]\nname = "x"\n'),
        ("package.yaml", "name: x\nlibrary:\n  source-dirs: src\n"),
        ("package.json", '{"config": {"port": 1}, "scripts": {"test": "npm run prepare"}}'),
        ("x.pth", "../src\n"),
    ],
)
def test_n23_what_else_such_a_file_says_is_ordinary(name, text):
    lever = find_file_risk(name, b"", text.encode())
    assert lever is None or not lever.is_protected


RUN_BY_TOOLS = """
.vimrc.local _vimrc _exrc .lvimrc .local.vimrc _nvimrc x-gdb.gdb x-gdb.scm devfile.yml .devfile.yml .RData .env.leave
.tmux-sessionizer rust-analyzer.toml rust-project.json .rust-project.json .lsp/config.edn .factorypath
.pdm-plugins/lib/x.py .poetry/plugins/x/p.py hk.pkl hk.yaml .rusty-hook.toml .cargo-husky/hooks/pre-commit .cnb.yml
.vela.yml .taskcluster.yml .cpanel.yml .deployment amplify.yml .eas/workflows/x.yml .platform.app.yaml
.upsun/config.yaml buddy.yml .buddy/x.yml codeship-steps.yml .rwx/ci.yml .tangled/workflows/ci.yml render.yaml
.scrutinizer.yml .ebextensions/x.config .platform/hooks/prebuild/a.sh screwdriver.yaml .prow.yaml .woodpecker/x.yaml
.pi/settings.json .amp/settings.json .crush/x .rovodev/x .tabnine/x .zencoder/x .openhands/setup.sh codebuddy.md
iflow.md firebender.json GROK.md Directory.x.targets before.x.sln.targets
"""


@pytest.mark.parametrize("path", RUN_BY_TOOLS.split())
def test_n23_a_name_that_some_tool_runs_or_obeys_by_itself_is_protected(path):
    assert is_protected(path)
    assert is_protected(f"deep/{path}".upper())


@pytest.mark.parametrize("path", ["mix.exs", "x.csproj", "dune", "Package.swift", "pixi.toml", "render.py", "hk.py"])
def test_n23_what_a_person_builds_with_is_not(path):
    assert not is_protected(path)
