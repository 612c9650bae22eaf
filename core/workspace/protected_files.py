"""Files that run by themselves or that steer the agent: their names, and descriptions of their risks.

Protected files (`is_protected`, the table `PROTECTED`) act without being called: when a shell enters the directory, an
editor opens it, git or an install runs, or a language server starts. Others change what the agent may do. They are
accepted one by one, with a confirmation, and never in bulk. The files of `LABELLED` run when the user calls a tool that
reads them (a makefile, a test, a build): they are labelled, and accepted like any file.

Names are folded (`core.workspace.file_names.fold_name`), so they compare as on the most lenient file system. A name
with a slash is the end of a path or, in `RiskyNames.directories`, a part of it; `*` in the name of a file matches
anything.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct

from core.git.layout import GIT_RISK, HOOK_RISK
from core.patterns import compile_lazily
from core.text.path_patterns import compile_pattern
from core.workspace.acting_content import find_acting_change
from core.workspace.file_names import fold_name, is_git_internal, is_plan


class RiskyNames(Struct, frozen=True):
    """Names that share a risk, separated by blanks. `risk` completes the sentence "it …".

    Everything at or below one of the `directories` counts, at any depth.
    """

    risk: str
    directories: str = ""
    files: str = ""


BUILD_SERVER_RISK: Final = "runs automatically on the build server, with its secrets, once it is pushed"
PYTHON_RISK: Final = "runs automatically whenever that Python starts"
PROTECTED: Final = (
    RiskyNames(
        "changes what the agent may do or is told",
        ".cursor .agent-tui .claude .codex .gemini .windsurf .kiro .roo .clinerules .opencode .factory "
        ".augment .continue .trae .qodo .junie .aiassistant .agents .qwen .goose .kilocode .amazonq "
        ".pi .amp .crush .rovodev .tabnine .zencoder .openhands .iflow .codebuddy .grok .firebender "
        ".github/instructions .github/prompts .github/agents .github/chatmodes .github/skills "
        ".github/hooks",
        ".cursorrules agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md "
        "crush.md warp.md codebuddy.md iflow.md grok.md firebender.json skill.md "
        "copilot-instructions.md .windsurfrules .clinerules .roorules .roomodes "
        ".rules .goosehints .aider.conf.yml .aider.conf.yaml opencode.json opencode.jsonc crush.json "
        ".crush.json",
    ),
    RiskyNames(
        "changes what the agent may see",
        files=".cursorignore .cursorindexingignore .aiexclude .aiignore .geminiignore .aiderignore "
        ".codeiumignore .clineignore .rooignore .claudeignore",
    ),
    RiskyNames("starts programs for the agent automatically", files=".mcp.json mcp.json mcp_config.json"),
    RiskyNames(
        "runs automatically when an editor opens the project",
        ".vscode .idea .zed .fleet .helix .nova .vs .theia .vim .nvim .lapce .bsp .bloop .metals .ruby-lsp "
        ".nlsp-settings .externaltoolbuilders",
        "*.code-workspace *.sublime-project .lite_project.lua .lazy.lua .nvim-dap.lua .ycm_extra_conf.py "
        ".solargraph.yml .cargo/config .cargo/config.toml coc-settings.json .vimspector.json .neoconf.json .nlsp.json "
        ".kateproject .tern-project .luarc.json .luarc.jsonc omnisharp.json hie.yaml .hie-bios build.zig "
        "rust-analyzer.toml rust-project.json .rust-project.json .lsp/config.edn .factorypath",
    ),
    RiskyNames(
        "runs automatically when cargo checks or builds, as an editor does when it opens the project",
        files="build.rs",
    ),
    RiskyNames(
        "runs automatically when the build tool starts, as an editor does when it opens the project",
        ".mvn",
        "gradle-wrapper.properties gradle-wrapper.jar init.gradle init.gradle.kts directory.build.* "
        "directory.solution.* directory.*.props directory.*.targets before.*.targets after.*.targets "
        "nuget.config msbuild.rsp tools/bazel .bazeliskrc",
    ),
    RiskyNames(
        "runs automatically when packages are installed, or whenever their manager starts",
        ".yarn/releases .yarn/plugins .yarn/sdks .bundle .pdm-plugins .poetry/plugins",
        "binding.gyp .pnpmfile.cjs .pnpmfile.mjs .pnp.cjs .pnp.loader.mjs .pdm-python",
    ),
    RiskyNames("runs automatically when an editor formats a file", files=".formatter.exs"),
    RiskyNames(
        "runs when `task` is called here, also by an editor that lists tasks",
        files="taskfile.yml taskfile.yaml taskfile.dist.yml taskfile.dist.yaml",
    ),
    RiskyNames(
        "is started by editors and tools as the project's interpreter",
        files="bin/python bin/python2 bin/python2.* bin/python3 bin/python3.* bin/activate bin/activate.* "
        "scripts/python.exe scripts/pythonw.exe scripts/activate scripts/activate.*",
    ),
    RiskyNames("runs automatically when PHP serves the directory", files=".user.ini"),
    RiskyNames(
        "runs automatically when the container is built or opened",
        ".devcontainer .gitpod .idx .codesandbox",
        ".devcontainer.json .gitpod.yml .gitpod.dockerfile .replit .stackblitzrc devfile.yaml .devfile.yaml "
        "devfile.yml .devfile.yml",
    ),
    RiskyNames(
        HOOK_RISK,
        ".husky .githooks .git-hooks .lefthook .lefthook-local .cargo-husky/hooks",
        ".pre-commit-config.yaml .pre-commit-config.yml prek.toml hk.pkl hk.yml hk.yaml "
        ".rusty-hook.toml .overcommit.yml captainhook.json "
        "grumphp.yml lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml "
        ".lefthook.toml .lefthook.json lefthook-local.yml lefthook-local.yaml lefthook-local.toml "
        "lefthook-local.json .lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml "
        ".lefthook-local.json .huskyrc .huskyrc.* husky.config.* .simple-git-hooks.* simple-git-hooks.* .lintstagedrc "
        ".lintstagedrc.* lint-staged.config.* .nano-staged.* nano-staged.* .commitlintrc .commitlintrc.* "
        "commitlint.config.*",
    ),
    RiskyNames(
        BUILD_SERVER_RISK,
        ".circleci .buildkite .woodpecker .semaphore .builds .tekton .harness .teamcity .azure-pipelines "
        ".zuul.d zuul.d .copr .upsun .buddy .rwx .ebextensions .platform/hooks .eas/workflows .tangled/workflows "
        ".github/workflows .github/actions .gitlab/ci .forgejo .gitea",
        "*.gitlab-ci.yml *.gitlab-ci.yaml .travis.yml .travis.yaml .drone.yml .drone.yaml .drone.jsonnet "
        ".drone.star .cirrus.yml .cirrus.star .woodpecker.yml .woodpecker.yaml .build.yml .build.yaml "
        "*jenkinsfile jenkinsfile.groovy *azure-pipelines.yml *azure-pipelines.yaml "
        "bitbucket-pipelines.yml bitbucket-pipelines.yaml *appveyor.yml *appveyor.yaml cloudbuild.yaml "
        "cloudbuild.yml buildspec.yml buildspec.yaml bitrise.yml codemagic.yaml wercker.yml shippable.yml "
        ".readthedocs.yml .readthedocs.yaml netlify.toml vercel.json .onedev-buildspec.yml .zuul.yaml "
        "zuul.yaml .packit.yaml .packit.yml .space.kts .cnb.yml .vela.yml .vela.yaml .taskcluster.yml "
        ".cpanel.yml .deployment amplify.yml .platform.app.yaml buddy.yml codeship-*.yml render.yaml "
        ".scrutinizer.yml screwdriver.yaml .screwdriver.yaml .prow.yaml",
    ),
    RiskyNames(
        "runs automatically when a shell enters the directory",
        ".mise .config/mise mise-tasks .mise-tasks .shadowenv.d",
        ".envrc .envrc.* .autoenv .autoenv.* .autoenv_* .rvmrc .rbenv-vars .ondirrc "
        "mise.toml mise.*.toml .mise.toml .mise.*.toml .rtx.toml .config/mise.toml",
    ),
    RiskyNames(
        "is loaded automatically by tools and editors that start here, and can name programs to run",
        files=".env .env.leave .env.local .env.development .env.production .env.test .env.*.local",
    ),
    RiskyNames(
        "runs automatically when a shell, an editor or an interpreter starts here",
        files=".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
        ".zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .tmux.conf .screenrc "
        ".exrc _exrc .vimrc _vimrc .vimrc.local .gvimrc .lvimrc .local.vimrc .nvimrc _nvimrc "
        ".nvim.lua .vim/vimrc .dir-locals.el .dir-locals-2.el .emacs "
        ".rprofile .renviron .rdata .tmux-sessionizer .pdbrc .pdbrc.py .irbrc .pryrc .byebugrc "
        ".rdbgrc .gdbinit *-gdb.py *-gdb.gdb *-gdb.scm .lldbinit "
        ".ghci .ocamlinit .iex.exs .perldb .erlang .octaverc startup.m jupyter_notebook_config.py "
        "jupyter_server_config.py jupyter_lab_config.py ipython_config.py",
    ),
    RiskyNames(GIT_RISK, files=".gitmodules .gitattributes .gitconfig .lfsconfig"),
    RiskyNames("changes what another version control system runs automatically", ".hg .jj .sl .bzr .svn .pijul _darcs"),
    RiskyNames("lets others in, or runs programs, when ssh connects", ".ssh", "authorized_keys"),
    RiskyNames(
        PYTHON_RISK,
        "sitecustomize usercustomize",
        "pyvenv.cfg sitecustomize.py sitecustomize.*.so sitecustomize.so sitecustomize.*.pyd sitecustomize.pyd "
        "sitecustomize.pyc sitecustomize.*.pyc usercustomize.py usercustomize.*.so usercustomize.so "
        "usercustomize.*.pyd usercustomize.pyd usercustomize.pyc usercustomize.*.pyc *._pth",
    ),
)
_TOOL_RISK: Final = "runs when you call the tool that reads it"
_CHECKS: Final = "runs project code when a checker, or its editor plugin, reads it"
_INSTALLS: Final = "decides what an install fetches and runs"
LABELLED: Final = (
    RiskyNames("runs whenever pytest starts here", files="conftest.py"),
    RiskyNames(
        _TOOL_RISK,
        files="makefile gnumakefile justfile rakefile cmakelists.txt package.json setup.py "
        "noxfile.py tox.ini composer.json pyproject.toml build.gradle build.gradle.kts settings.gradle "
        "settings.gradle.kts pom.xml dockerfile containerfile compose.yaml compose.yml docker-compose.yml "
        "docker-compose.yaml "
        "gulpfile.js gruntfile.js vagrantfile procfile tiltfile earthfile gemfile gems.rb podfile dangerfile "
        "guardfile flake.nix shell.nix default.nix devbox.json gradlew mvnw .bazelrc ansible.cfg "
        "pytest.ini rust-toolchain.toml rust-toolchain",
    ),
    RiskyNames(
        _CHECKS,
        files=".pylintrc pylintrc .flake8 mypy.ini .rubocop.yml .luacheckrc .clangd .eslintrc.js .eslintrc.cjs "
        ".prettierrc.js .prettierrc.cjs *.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts",
    ),
    RiskyNames(
        _INSTALLS,
        files=".npmrc .yarnrc .yarnrc.yml bunfig.toml pip.conf uv.toml poetry.toml gradle.properties .tool-versions",
    ),
)


class FileRisk(Struct, frozen=True):
    """The risk of a file. `risk` completes the sentence "it …": "runs by itself when …"."""

    risk: str
    is_protected: bool = False


class _RiskTable:
    def __init__(self, names: Iterable[RiskyNames]) -> None:
        self._directories: dict[tuple[str, ...], str] = {}
        self._files: dict[tuple[str, ...], str] = {}
        self._endings: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for risky_names in names:
            endings = [name for name in risky_names.files.split() if name.startswith("*")]
            patterns = [name for name in risky_names.files.split() if "*" in name[1:]]
            files = [name for name in risky_names.files.split() if name not in (*endings, *patterns)]
            self._directories |= {tuple(name.split("/")): risky_names.risk for name in risky_names.directories.split()}
            self._files |= {tuple(name.split("/")): risky_names.risk for name in files}
            self._endings |= {name[1:]: risky_names.risk for name in endings}
            self._patterns += [(compile_pattern(name, syntax="stars"), risky_names.risk) for name in patterns]
        any_pattern = "|".join(pattern.pattern for pattern, _ in self._patterns)
        self._any_pattern = re.compile(any_pattern or r"(?!)", re.DOTALL)
        self.first_parts = frozenset(name[0] for name in (*self._directories, *self._files) if len(name) > 1)

    def find_risk(self, parts: list[str]) -> str | None:
        """Return the risk of a path of folded names, None for no risk."""
        for part in (*zip(parts), *pairwise(parts)):
            if part in self._directories:
                return self._directories[part]
        known_risk = self._files.get((parts[-1],)) or self._files.get(tuple(parts[-2:]))
        known_risk = known_risk or next((risk for end, risk in self._endings.items() if parts[-1].endswith(end)), None)
        tail = "/".join(parts[-2:])
        if known_risk or not self._any_pattern.fullmatch(tail):
            return known_risk
        return next((risk for pattern, risk in self._patterns if pattern.fullmatch(tail)), None)


# Python executes such a line; weights of a model have none.
_IMPORT: Final = compile_lazily(rb"^import[ \t]", re.MULTILINE)
_AUTOMATIC: Final = _RiskTable(PROTECTED)
_CALLED: Final = _RiskTable(LABELLED)


def is_protected(rel: str) -> bool:
    """True if a change of this path is never accepted in bulk; plan files (`is_plan`) are not protected."""
    risk = find_file_risk(rel)
    return risk is not None and risk.is_protected


def may_hold_protected(rel: str) -> bool:
    """True if a name below a directory of this name may be protected though its own is not (`.cargo`, `.github`)."""
    return fold_name(rel.rpartition("/")[2]) in _AUTOMATIC.first_parts


def find_file_risk(rel: str, old: bytes = b"", new: bytes = b"") -> FileRisk | None:
    """Return the risk of a file, if known. `old`, `new`: its content before and after a change."""
    parts = [fold_name(part) for part in rel.split("/")]
    if is_plan(rel):
        return None
    if is_git_internal(rel):
        return FileRisk(HOOK_RISK if "hooks" in parts else GIT_RISK, is_protected=True)
    if parts[-1].endswith(".pth") and (
        not {"site-packages", "dist-packages"}.isdisjoint(parts)
        or (_IMPORT.search(new) is not None and b"\0" not in new and new != old)
    ):
        return FileRisk(PYTHON_RISK, is_protected=True)
    if (risk := _AUTOMATIC.find_risk(parts)) is not None:
        return FileRisk(risk, is_protected=True)
    if acting := find_acting_change(parts[-1], old, new):
        return FileRisk(acting, is_protected=True)
    return FileRisk(call_risk) if (call_risk := _CALLED.find_risk(parts)) else None


def find_link_risk(rel: str, target: bytes) -> FileRisk | None:
    """Return the risk of a symbolic link that leads out of the project, else None."""
    destination = posixpath.normpath(posixpath.join(posixpath.dirname(rel), target.decode("utf-8", "replace")))
    if destination.startswith("/") or destination.split("/")[0] == "..":
        return FileRisk("points outside the project: what is written to it ends up elsewhere", is_protected=True)
    return None
