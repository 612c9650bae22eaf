"""Names of files that hold secrets: those of tools that people use, and none of what projects publish."""

from __future__ import annotations

import pytest

from core.workspace.secret_files import is_secret, may_be_secret_path

ALWAYS = (
    *(".claude/.credentials.json", "home/.gemini/oauth_creds.json", ".config/github-copilot/hosts.json", ".oci/config"),
    *(".config/hcloud/cli.toml", ".config/doctl/config.yaml", ".fly/config.yml", ".kaggle/kaggle.json", ".authinfo"),
    *(
        ".cache/huggingface/token",
        ".snowflake/connections.toml",
        ".sbt/.credentials",
        ".dockerconfigjson",
        "wallet.dat",
    ),
    *(
        "http-client.private.env.json",
        ".dev.vars.production",
        ".github_token",
        "logins.json",
        ".config/stripe/config.toml",
    ),
    *(
        ".env",
        ".env.local",
        "a/.netrc",
        "_netrc",
        ".pypirc",
        ".git-credentials",
        "id_rsa",
        "keys/id_ed25519",
        ".pgpass",
    ),
    *("AuthKey_ABC.p8", "office.ovpn", "gha-creds-0123456789abcdef.json", "a.kdbx", "a.jks", "a.keystore", "a.ppk"),
    *(".docker/config.json", "home/.docker/config.json", ".kube/config", ".config/gh/hosts.yml", ".vault-token"),
    *(".aws/credentials", ".codex/auth.json", ".gnupg/secring.gpg", ".ssh/deploy", ".m2/settings.xml", ".bash_history"),
    *(".config/gcloud/application_default_credentials.json", ".config/glab-cli/config.yml", ".cargo/credentials.toml"),
    *("ID_RSA", ".Docker/Config.json", "id_rsa.bak", ".env~", ".my.cnf", ".mylogin.cnf", ".htpasswd"),
)
IF_IGNORED = (
    *(
        "token.json",
        "token.pickle",
        "github-token.txt",
        "api_key",
        ".api_key",
        "apikey.txt",
        "passwords.txt",
        "gcp-key.json",
    ),
    *("google-credentials.json", "prod.kubeconfig", "kubeconfig.yaml", "wg0.conf", "kaggle.json", "deploy_key"),
    *("appsettings.Production.json", ".modal.toml", "cypress.env.json", "connections.toml"),
    *(".envrc", "auth.json", "prod.tfvars", "prod.auto.tfvars.json", "terraform.tfstate", "terraform.tfstate.backup"),
    *("a.pem", "a.key", "config/master.key", "a.p12", "a.pfx", ".npmrc", "secrets.yml", "credentials.json", "a.gpg"),
    *("service-account-prod.json", "service_account.json", "wp-config.php", ".yarnrc.yml", "pip.conf", "kubeconfig"),
    *("local.settings.json", ".terraformrc", ".sentryclirc", "key.properties", ".Renviron", "client_secret_1.json"),
)
NEVER = (
    *(".env.example", ".env.sample", "id_rsa.pub", "prod.tfvars.example", "terraform.tfvars.example", "auth.json.dist"),
    *("config.json", "src/config", "hosts.yml", "settings.xml", "src/auth.py", "history.md", ".ssh/known_hosts"),
    *(".ssh/config", ".ssh/id_rsa.pub", "docs/secrets.md", "environment.py", "settings.json", ".vscode/settings.json"),
    *(
        "tokens.py",
        "token.ts",
        "api_keys.md",
        "src/config.toml",
        "api.json",
        "design-tokens.css",
        ".config/nvim/init.lua",
    ),
    *(
        ".claude/settings.json",
        ".gemini/settings.json",
        ".config/zed/settings.json",
        "gradle.properties",
        "tokenizer.json",
    ),
    *("keys.txt", "passwords.py", "credentials.md", "p8.py", "main.tf", "variables.tf", "secrets.json.example"),
)


@pytest.mark.parametrize("path", ALWAYS)
def test_n38_a_name_that_is_hardly_ever_anything_else_is_secret(path):
    assert is_secret(path, lambda _path, _is_dir: False)
    assert may_be_secret_path(path)


@pytest.mark.parametrize("path", IF_IGNORED)
def test_n38_a_name_that_is_as_often_harmless_is_secret_where_git_ignores_it(path):
    assert is_secret(path, lambda _path, _is_dir: True)
    assert not is_secret(path, lambda _path, _is_dir: False)
    assert may_be_secret_path(path)


@pytest.mark.parametrize("path", NEVER)
def test_n38_what_projects_publish_is_none(path):
    assert not is_secret(path, lambda _path, _is_dir: True)
