"""What acts by itself is red and says why; what runs when it is called is labelled only."""

from __future__ import annotations

import json

import pytest

from core.workspace.protected_files import find_file_risk, find_link_risk, is_protected

RED = {
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


@pytest.mark.parametrize(("words", "path"), [(words, path) for words, paths in RED.items() for path in paths])
def test_p16_red_levers_are_known_in_any_spelling_and_say_why(words, path):
    lever = find_file_risk(path)
    assert lever.is_protected
    assert words in lever.risk
    assert is_protected(path)


@pytest.mark.parametrize("path", ["conftest.py", "sub/Makefile", "package.json", "setup.py", ".npmrc", "x.config.ts"])
def test_what_runs_when_it_is_called_is_labelled_and_not_red(path):
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


def test_a_package_is_red_when_what_an_install_runs_is_changed():
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
def test_p5_a_link_that_leads_out_of_the_project_is_red(target, leads_out):
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
def test_n9_a_name_that_acts_by_itself_is_red_in_any_directory_and_spelling(path, spelled):
    for place in (path, f"deep/down/{path}"):
        assert is_protected(spelled(place)), place


@pytest.mark.parametrize(
    "path", ["a.py", ".nvmrc", ".editorconfig", "docs/mise.md", ".python-version", "gitea/x", "x.pth"]
)
def test_n9_what_only_looks_like_it_is_not(path):
    assert find_file_risk(path) is None
