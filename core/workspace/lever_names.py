"""The names by which tools find what they run or obey: one table for what acts by itself, one for what is called.

Names are folded (`core.workspace.names.folded`). A name with a slash is a path's end or, in `Names.directories`, its
part; one that begins with `*` stands for any beginning.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Names(Struct, frozen=True):
    """`risk` goes on where "it …" begins. Everything at or below one of the `directories` counts, in any place."""

    risk: str
    directories: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


HOOK: Final = "runs by itself when git commits, merges or pushes"
GIT: Final = "changes what git runs, or where it fetches from, by itself"
PYTHON: Final = "runs by itself whenever that Python starts"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


RED: Final = (
    Names(
        "changes what the agent may do, or what it is told",
        _words(
            ".cursor .agent-tui .claude .codex .gemini .windsurf .kiro .roo .clinerules .opencode .factory "
            ".augment .continue .trae .qodo .junie .aiassistant .agents .qwen .goose .kilocode .amazonq "
            ".github/instructions .github/prompts .github/agents .github/chatmodes .github/skills "
            ".github/hooks"
        ),
        _words(
            ".cursorrules agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md "
            "crush.md warp.md skill.md copilot-instructions.md .windsurfrules .clinerules .roorules .roomodes "
            ".rules .goosehints .aider.conf.yml .aider.conf.yaml opencode.json opencode.jsonc crush.json "
            ".crush.json"
        ),
    ),
    Names(
        "changes what the agent may see",
        files=_words(
            ".cursorignore .cursorindexingignore .aiexclude .aiignore .geminiignore .aiderignore "
            ".codeiumignore .clineignore .rooignore .claudeignore"
        ),
    ),
    Names("starts programs for the agent by itself", files=_words(".mcp.json mcp.json mcp_config.json")),
    Names(
        "runs by itself when an editor opens the project",
        _words(".vscode .idea .zed .fleet .helix .nova .vs .theia"),
        _words(
            "*.code-workspace *.sublime-project .lite_project.lua .lazy.lua .nvim-dap.lua .ycm_extra_conf.py "
            ".solargraph.yml .cargo/config .cargo/config.toml"
        ),
    ),
    Names(
        "runs by itself when the container is built or opened",
        _words(".devcontainer .gitpod .idx .codesandbox"),
        _words(".devcontainer.json .gitpod.yml .gitpod.dockerfile .replit .stackblitzrc devfile.yaml .devfile.yaml"),
    ),
    Names(
        HOOK,
        _words(".husky .githooks .git-hooks .lefthook .lefthook-local"),
        _words(
            ".pre-commit-config.yaml .pre-commit-config.yml prek.toml .overcommit.yml captainhook.json "
            "grumphp.yml lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml "
            ".lefthook.toml .lefthook.json lefthook-local.yml lefthook-local.yaml lefthook-local.toml "
            "lefthook-local.json .lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml "
            ".lefthook-local.json .huskyrc .huskyrc.json .huskyrc.js .simple-git-hooks.json "
            ".simple-git-hooks.js .simple-git-hooks.cjs simple-git-hooks.json simple-git-hooks.js "
            "simple-git-hooks.cjs .lintstagedrc .lintstagedrc.json .lintstagedrc.yaml .lintstagedrc.yml "
            ".lintstagedrc.js .lintstagedrc.cjs .lintstagedrc.mjs lint-staged.config.js "
            "lint-staged.config.cjs lint-staged.config.mjs lint-staged.config.ts"
        ),
    ),
    Names(
        "runs by itself on the build server, with its secrets, once it is pushed",
        _words(
            ".circleci .buildkite .woodpecker .semaphore .builds .tekton .harness .teamcity .azure-pipelines "
            ".zuul.d zuul.d .copr .github/workflows .github/actions .gitlab/ci .forgejo .gitea"
        ),
        _words(
            "*.gitlab-ci.yml *.gitlab-ci.yaml .travis.yml .travis.yaml .drone.yml .drone.yaml .drone.jsonnet "
            ".drone.star .cirrus.yml .cirrus.star .woodpecker.yml .woodpecker.yaml .build.yml .build.yaml "
            "*jenkinsfile jenkinsfile.groovy *azure-pipelines.yml *azure-pipelines.yaml "
            "bitbucket-pipelines.yml bitbucket-pipelines.yaml *appveyor.yml *appveyor.yaml cloudbuild.yaml "
            "cloudbuild.yml buildspec.yml buildspec.yaml bitrise.yml codemagic.yaml wercker.yml shippable.yml "
            ".readthedocs.yml .readthedocs.yaml netlify.toml vercel.json .onedev-buildspec.yml .zuul.yaml "
            "zuul.yaml .packit.yaml .packit.yml .space.kts"
        ),
    ),
    Names(
        "runs by itself when a shell enters the directory",
        _words(".mise .config/mise .shadowenv.d"),
        _words(
            ".envrc .envrc.local .autoenv .autoenv.zsh .autoenv_leave.zsh .rvmrc .rbenv-vars .ondirrc "
            "mise.toml .mise.toml mise.local.toml .mise.local.toml"
        ),
    ),
    Names(
        "runs by itself when a shell, an editor or an interpreter starts here",
        files=_words(
            ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
            ".zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .tmux.conf .screenrc "
            ".exrc .vimrc .gvimrc .lvimrc .nvimrc .nvim.lua .vim/vimrc .dir-locals.el .dir-locals-2.el .emacs "
            ".rprofile .renviron .pdbrc .pdbrc.py .irbrc .pryrc .byebugrc .rdbgrc .gdbinit *-gdb.py .lldbinit "
            ".ghci .ocamlinit .iex.exs .perldb .erlang .octaverc startup.m jupyter_notebook_config.py "
            "jupyter_server_config.py jupyter_lab_config.py ipython_config.py"
        ),
    ),
    Names(GIT, files=_words(".gitmodules .gitattributes .gitconfig .lfsconfig")),
    Names("changes what another version control runs by itself", _words(".hg .jj .sl .bzr")),
    Names("lets others in, or runs programs, when ssh connects", _words(".ssh"), _words("authorized_keys")),
    Names(PYTHON, files=_words("pyvenv.cfg sitecustomize.py usercustomize.py *._pth")),
)
_CALLED: Final = "runs when you call the tool that reads it"
_CHECKS: Final = "runs code of the project when a checker reads it, or an editor's plugin for that"
_INSTALLS: Final = "decides what an install fetches and runs"
LABELLED: Final = (
    Names("runs whenever pytest starts here", files=("conftest.py",)),
    Names(
        _CALLED,
        files=_words(
            "makefile gnumakefile justfile rakefile taskfile.yml cmakelists.txt package.json setup.py "
            "noxfile.py tox.ini build.rs build.gradle build.gradle.kts settings.gradle settings.gradle.kts "
            "pom.xml dockerfile containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml "
            "gulpfile.js gruntfile.js vagrantfile procfile tiltfile earthfile gemfile podfile dangerfile "
            "guardfile flake.nix shell.nix default.nix devbox.json gradlew mvnw .bazelrc ansible.cfg "
            "pytest.ini rust-toolchain.toml rust-toolchain"
        ),
    ),
    Names(
        _CHECKS,
        files=_words(
            ".pylintrc pylintrc .flake8 mypy.ini .rubocop.yml .luacheckrc .clangd .eslintrc.js .eslintrc.cjs "
            ".prettierrc.js .prettierrc.cjs *.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts"
        ),
    ),
    Names(
        _INSTALLS,
        files=_words(".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnp.cjs .pnp.loader.mjs bunfig.toml pip.conf"),
    ),
)
