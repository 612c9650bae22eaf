"""The names by which tools find what they run or obey: one table for what runs by itself, one for what is called.

Names are folded (`core.workspace.file_names.fold_name`). A name with a slash is a path's end or, in
`RiskyNames.directories`, its part; one that begins with `*` stands for any beginning.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class RiskyNames(Struct, frozen=True):
    """Names that share a risk, words each. `risk` completes the sentence "it …".

    Everything at or below one of the `directories` counts, at any depth.
    """

    risk: str
    directories: str = ""
    files: str = ""


HOOK_RISK: Final = "runs by itself when git commits, merges or pushes"
GIT_RISK: Final = "changes what git runs, or where it fetches from, by itself"
PYTHON_RISK: Final = "runs by itself whenever that Python starts"


PROTECTED: Final = (
    RiskyNames(
        "changes what the agent may do, or what it is told",
        ".cursor .agent-tui .claude .codex .gemini .windsurf .kiro .roo .clinerules .opencode .factory "
        ".augment .continue .trae .qodo .junie .aiassistant .agents .qwen .goose .kilocode .amazonq "
        ".github/instructions .github/prompts .github/agents .github/chatmodes .github/skills "
        ".github/hooks",
        ".cursorrules agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md "
        "crush.md warp.md skill.md copilot-instructions.md .windsurfrules .clinerules .roorules .roomodes "
        ".rules .goosehints .aider.conf.yml .aider.conf.yaml opencode.json opencode.jsonc crush.json "
        ".crush.json",
    ),
    RiskyNames(
        "changes what the agent may see",
        files=".cursorignore .cursorindexingignore .aiexclude .aiignore .geminiignore .aiderignore "
        ".codeiumignore .clineignore .rooignore .claudeignore",
    ),
    RiskyNames("starts programs for the agent by itself", files=".mcp.json mcp.json mcp_config.json"),
    RiskyNames(
        "runs by itself when an editor opens the project",
        ".vscode .idea .zed .fleet .helix .nova .vs .theia",
        "*.code-workspace *.sublime-project .lite_project.lua .lazy.lua .nvim-dap.lua .ycm_extra_conf.py "
        ".solargraph.yml .cargo/config .cargo/config.toml",
    ),
    RiskyNames(
        "runs by itself when the container is built or opened",
        ".devcontainer .gitpod .idx .codesandbox",
        ".devcontainer.json .gitpod.yml .gitpod.dockerfile .replit .stackblitzrc devfile.yaml .devfile.yaml",
    ),
    RiskyNames(
        HOOK_RISK,
        ".husky .githooks .git-hooks .lefthook .lefthook-local",
        ".pre-commit-config.yaml .pre-commit-config.yml prek.toml .overcommit.yml captainhook.json "
        "grumphp.yml lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml "
        ".lefthook.toml .lefthook.json lefthook-local.yml lefthook-local.yaml lefthook-local.toml "
        "lefthook-local.json .lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml "
        ".lefthook-local.json .huskyrc .huskyrc.json .huskyrc.js .simple-git-hooks.json "
        ".simple-git-hooks.js .simple-git-hooks.cjs simple-git-hooks.json simple-git-hooks.js "
        "simple-git-hooks.cjs .lintstagedrc .lintstagedrc.json .lintstagedrc.yaml .lintstagedrc.yml "
        ".lintstagedrc.js .lintstagedrc.cjs .lintstagedrc.mjs lint-staged.config.js "
        "lint-staged.config.cjs lint-staged.config.mjs lint-staged.config.ts",
    ),
    RiskyNames(
        "runs by itself on the build server, with its secrets, once it is pushed",
        ".circleci .buildkite .woodpecker .semaphore .builds .tekton .harness .teamcity .azure-pipelines "
        ".zuul.d zuul.d .copr .github/workflows .github/actions .gitlab/ci .forgejo .gitea",
        "*.gitlab-ci.yml *.gitlab-ci.yaml .travis.yml .travis.yaml .drone.yml .drone.yaml .drone.jsonnet "
        ".drone.star .cirrus.yml .cirrus.star .woodpecker.yml .woodpecker.yaml .build.yml .build.yaml "
        "*jenkinsfile jenkinsfile.groovy *azure-pipelines.yml *azure-pipelines.yaml "
        "bitbucket-pipelines.yml bitbucket-pipelines.yaml *appveyor.yml *appveyor.yaml cloudbuild.yaml "
        "cloudbuild.yml buildspec.yml buildspec.yaml bitrise.yml codemagic.yaml wercker.yml shippable.yml "
        ".readthedocs.yml .readthedocs.yaml netlify.toml vercel.json .onedev-buildspec.yml .zuul.yaml "
        "zuul.yaml .packit.yaml .packit.yml .space.kts",
    ),
    RiskyNames(
        "runs by itself when a shell enters the directory",
        ".mise .config/mise .shadowenv.d",
        ".envrc .envrc.local .autoenv .autoenv.zsh .autoenv_leave.zsh .rvmrc .rbenv-vars .ondirrc "
        "mise.toml .mise.toml mise.local.toml .mise.local.toml",
    ),
    RiskyNames(
        "runs by itself when a shell, an editor or an interpreter starts here",
        files=".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
        ".zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .tmux.conf .screenrc "
        ".exrc .vimrc .gvimrc .lvimrc .nvimrc .nvim.lua .vim/vimrc .dir-locals.el .dir-locals-2.el .emacs "
        ".rprofile .renviron .pdbrc .pdbrc.py .irbrc .pryrc .byebugrc .rdbgrc .gdbinit *-gdb.py .lldbinit "
        ".ghci .ocamlinit .iex.exs .perldb .erlang .octaverc startup.m jupyter_notebook_config.py "
        "jupyter_server_config.py jupyter_lab_config.py ipython_config.py",
    ),
    RiskyNames(GIT_RISK, files=".gitmodules .gitattributes .gitconfig .lfsconfig"),
    RiskyNames("changes what another version control runs by itself", ".hg .jj .sl .bzr"),
    RiskyNames("lets others in, or runs programs, when ssh connects", ".ssh", "authorized_keys"),
    RiskyNames(PYTHON_RISK, files="pyvenv.cfg sitecustomize.py usercustomize.py *._pth"),
)
_CALLED: Final = "runs when you call the tool that reads it"
_CHECKS: Final = "runs code of the project when a checker reads it, or an editor's plugin for that"
_INSTALLS: Final = "decides what an install fetches and runs"
LABELLED: Final = (
    RiskyNames("runs whenever pytest starts here", files="conftest.py"),
    RiskyNames(
        _CALLED,
        files="makefile gnumakefile justfile rakefile taskfile.yml cmakelists.txt package.json setup.py "
        "noxfile.py tox.ini build.rs build.gradle build.gradle.kts settings.gradle settings.gradle.kts "
        "pom.xml dockerfile containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml "
        "gulpfile.js gruntfile.js vagrantfile procfile tiltfile earthfile gemfile podfile dangerfile "
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
        files=".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnp.cjs .pnp.loader.mjs bunfig.toml pip.conf",
    ),
)
