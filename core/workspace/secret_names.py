"""Files that hold secrets, recognised by name: not read without a question, not searched, not shown to commands.

A name alone is enough for what is hardly ever anything else (`.env`, private keys). Names that are as often harmless
count only where git ignores the file: what a project publishes is no secret any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from core.workspace.file_names import fold_name

_HARMLESS = re.compile(
    r"\.(example|sample|template|dist|defaults?|schema|pub)(\.json|\.ya?ml)?$|^\.env\.(ci|test)$|^cacert\.pem$"
)
_SECRET = re.compile(
    r"\.env|\.env\.[\w.-]+|\.envrc\.private|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.netrc|_netrc|\.pypirc|\.git-credentials"
    r"|\.htpasswd|\.pgpass|pgpass\.conf|\.my\.cnf|\.mylogin\.cnf|.+\.(keystore|jks|kdbx?|ppk|p8|ovpn|agekey)"
    r"|\.vault[_-]?(pass(word)?|token)|gha-creds-[\w-]+\.json|secring\.(gpg|pgp)|\.dockercfg|\.?recentservers\.xml"
    r"|\.(bash|zsh|psql|mysql|rediscli|sqlite|node_repl|python|irb)_history|fish_history"
    r"|\.authinfo(\.gpg)?|\.rediscli_auth|\.dockerconfigjson|\.dev\.vars\.[\w-]+|http-client\.private\.env\.json"
    r"|\.(github|gitlab|gh|npm|nomad|consul)[-_]token|wallet\.dat|logins\.json|key[34]\.db|.+\.keychain(-db)?"
)
_SECRET_IF_IGNORED = re.compile(
    r".+\.(env|pem|key|p12|pfx|tfvars|tfstate|asc|gpg)|.+\.tfvars\.json|.+\.tfstate\.(backup|[\d.]+)|\.npmrc|\.envrc"
    r"|(secrets?|credentials?)(\.[\w-]+)?\.(json|ya?ml|toml|ini|txt|xml)|auth\.json"
    r"|service[-_]?account[\w-]*\.json|kubeconfig|.*[-_.]secrets?|\.?secrets?|client_secret[\w.-]*\.json|\.dev\.vars"
    r"|credentials|\.s3cfg|\.boto|\.?rclone\.conf|\.databrickscfg|application_default_credentials\.json"
    r"|[\w.-]*firebase-adminsdk[\w.-]*\.json|\.yarnrc\.yml|\.?pip\.conf|\.terraformrc|terraform\.rc|\.sentryclirc"
    r"|sentry\.properties|\.renviron|local\.settings\.json|wp-config\.php|(key|keystore|signing)\.properties"
    r"|\.?htpasswd|\.ftpconfig|sftp(-config)?\.json|\.remote-sync\.json|\.?msmtprc|\.fetchmailrc"
    r"|(github|gitlab|gh|npm|access|auth|api|bearer|refresh)[-_]?tokens?(\.(txt|json|ya?ml))?|tokens?\.(json|pickle|txt)"
    r"|\.?api[-_]?keys?(\.(txt|json|ya?ml))?|\.?passwords?(\.(txt|json|ya?ml))?|\.passwd|private[-_]key|(deploy|github)_(key|rsa)"
    r"|(gcp|google|aws|azure)[-_](key|credentials)[\w-]*\.json|[\w-]+[-.]credentials(\.(json|ya?ml|toml))?|kaggle\.json"
    r"|([\w-]+\.)?kubeconfig(\.ya?ml)?|\.modal\.toml|\.pdm\.toml|\.curlrc|\.wgetrc|\.snowsql|connections\.toml"
    r"|appsettings\.[\w-]+\.json|cypress\.env\.json|mnemonic\.txt|wg\d+\.conf|vault[-_]pass(word)?(\.txt)?|\.clasprc\.json"
)
# Names that say nothing without the directory that they stand in; where that is, hardly anything else stands.
_SECRET_TAIL = re.compile(
    r"(?:.*/)?(?:\.docker/config\.json|\.kube/(?:config|cache/.+)|\.config/(?:gh|glab-cli|hub|configstore)/.+"
    r"|\.aws/(?:credentials|config)|\.azure/.+\.json|\.config/gcloud/.+|\.codex/auth\.json|\.composer/auth\.json"
    r"|\.m2/settings(?:-security)?\.xml|\.gem/credentials|\.cargo/credentials(?:\.toml)?|\.gnupg/.+"
    r"|\.(?:claude/\.credentials|gemini/(?:oauth_creds|google_accounts)|qwen/oauth_creds)\.json|\.claude\.json"
    r"|\.config/github-copilot/(?:apps|hosts)\.json|\.config/(?:hcloud/cli\.toml|doctl/config\.yaml|ngrok/ngrok\.yml)"
    r"|\.config/(?:fly|linode-cli|netlify|op|openai|planetscale|scw|stripe|turso|solana|wandb|argocd|exercism)(?:/.+)?"
    r"|\.config/(?:pypoetry/auth\.toml|hub|teleport/.+|helm/registry/.+|configstore/.+)|\.fly/config\.yml|\.ngrok2/.+"
    r"|\.(?:kaggle/kaggle\.json|huggingface/token|cache/huggingface/(?:stored_)?tokens?|hex/hex\.config|oci/config)"
    r"|\.(?:snowflake/.+\.toml|snowsql/config|supabase/access-token|planetscale/.+|stripe/.+|solana/.+\.json|tsh/.+)"
    r"|\.(?:dbt/profiles\.yml|heroku/.+|netlify/config\.json|okta/.+|op/config|twilio-cli/.+|sbt/\.credentials)"
    r"|\.(?:ivy2/\.credentials|dart/.+|dbeaver/credentials-config\.json|vault-token|doppler/.+|aws/sso/cache/.+)"
    r"|\.(?:gradle/gradle\.properties|bundle/config|nuget/nuget\.config|idea/(?:datasources\.local|webservers)\.xml)"
    r"|\.config/sops/age/keys\.txt|\.local/share/keyrings/.+|\.ssh/(?!known_hosts|config$|.+\.pub$).+)"
)
# What editors and careful people make of a name when they keep a copy beside it: `.env~`, `.id_rsa.swp`, `id_rsa.bak`.
_COPY = re.compile(r"#(.+)#|\.(.+)\.sw[a-p]|(.+?)(?:~|\.(?:bak|backup|old|orig|save))")
# Part of every name that may be one, in small letters (to ignore case takes five times as long): most names are none.
_QUICK_CHECK = re.compile(
    r"env|rc|id_|cred|secret|key|pem|p12|pfx|tf|jks|kdb|ppk|pass|cnf|vault|vars|kube|account|s3cfg|boto|rclone|"
    r"databricks|firebase|\.p8|ovpn|auth|gha-|gpg|pgp|\.asc|history|dockercfg|servers|pip|sentry|renv|settings|"
    r"wp-config|properties|htpass|ftp|sync|api|token|wallet|logins|keychain|config|kaggle|toml|wg\d|mnemonic"
)

IsIgnored = Callable[[str, bool], bool]


def is_secret(rel: str, is_ignored: IsIgnored) -> bool:
    """True if a workspace-relative path names such a file. `ignored(rel, is_dir)` returns True if git ignores it."""
    names = _list_candidate_names(rel.rpartition("/")[2])
    if any(_SECRET.fullmatch(name) for name in names) or _has_secret_tail(rel):
        return True
    return any(_SECRET_IF_IGNORED.fullmatch(name) for name in names) and is_ignored(rel, False)


def _has_secret_tail(rel: str) -> bool:
    if not rel.startswith(".") and "/." not in rel:  # most paths
        return False
    return _SECRET_TAIL.fullmatch("/".join(map(fold_name, rel.split("/")))) is not None


def may_be_secret_path(rel: str) -> bool:
    """True if a path is worth a closer look, by its name or by the directories that it stands in."""
    return may_be_secret(rel.rpartition("/")[2]) or _has_secret_tail(rel)


def may_be_secret(name: str) -> bool:
    """True if a name is worth a closer look; fast for the others."""
    if name.isascii() and not _QUICK_CHECK.search(name.lower()):
        return False
    return any(
        _SECRET.fullmatch(candidate_name) or _SECRET_IF_IGNORED.fullmatch(candidate_name)
        for candidate_name in _list_candidate_names(name)
    )


def _list_candidate_names(name: str) -> list[str]:
    """Return the name, and what it is a copy of; without those that are harmless."""
    name = fold_name(name)
    match = _COPY.fullmatch(name)
    original = next(filter(None, match.groups())) if match else name
    return [candidate for candidate in dict.fromkeys((name, original)) if not _HARMLESS.search(candidate)]
