"""Secrets are found by their shapes, told by session, and never printed whole."""

from __future__ import annotations

import json
import random
import string
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sync.cli import cli
from sync.secret_patterns import find_secrets, masked
from tests.builders import T0, assistant, copy, fill, session, tool, user

ALNUM = string.ascii_letters + string.digits


def made(alphabet: str, length: int, seed: int = 1) -> str:
    """Random characters; no secret stands in this file as one."""
    return "".join(random.Random(seed).choices(alphabet, k=length))


PRIVATE_KEY = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----", *(made(ALNUM, 64, n) for n in range(5)), "-----END"]
)

SECRETS = {
    "private key": PRIVATE_KEY,
    "AWS access key": "AKIA" + made(string.ascii_uppercase, 16),
    "GitHub token": "ghp_" + made(ALNUM, 36),
    "GitLab token": "glpat-" + made(ALNUM, 20),
    "Anthropic key": "sk-ant-api03-" + made(ALNUM, 93),
    "OpenAI key": "sk-proj-" + made(ALNUM, 120),
    "Google API key": "AIza" + made(ALNUM, 35),
    "Slack token": "xoxb-1234098-" + made(ALNUM, 24),
    "Stripe key": "sk_live_" + made(ALNUM, 24),
    "npm token": "npm_" + made(ALNUM, 36),
    "PyPI token": "pypi-AgEIcHlwaS5vcmc" + made(ALNUM, 120),
    "Hugging Face token": "hf_" + made(string.ascii_letters, 34),
    "SendGrid key": f"SG.{made(ALNUM, 22)}.{made(ALNUM, 43)}",
    "Telegram token": "123409876:AA" + made(ALNUM, 33),
    "JSON web token": f"eyJ{made(ALNUM, 20)}.eyJ{made(ALNUM, 40)}.{made(ALNUM, 43)}",
    "password in a URL": made(ALNUM, 12),
    "assigned secret": made(ALNUM, 24),
}

AROUND = {
    "password in a URL": "postgres://app:{}@db.internal:5432/app",
    "assigned secret": 'DB_PASSWORD = "{}"',
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("around", ["{}", "before {} after", 'key="{}"', "(`{}`)", "\n{}\n"])
def test_each_kind_is_found_wherever_it_stands(kind: str, around: str) -> None:
    text = AROUND.get(kind, around).format(SECRETS[kind])
    [found] = find_secrets(text)
    assert found.kind == kind
    assert SECRETS[kind].startswith(text[found.start : found.end].rstrip())


def test_a_private_key_within_json_is_found_whole() -> None:
    text = json.dumps({"private_key": PRIVATE_KEY})
    [found] = find_secrets(text)
    assert found.kind == "private key"
    assert text[found.end :].startswith("-----END")


@pytest.mark.parametrize(
    "assignment",
    [
        "password: {}", "api_key={}", "API-KEY: '{}'", '"clientSecret": "{}"', "token := `{}`",
        "export GITHUB_TOKEN={}", ":access_key => '{}'", "--password={}",
    ],
)  # fmt: skip
def test_a_random_value_of_a_telling_name_is_found(assignment: str) -> None:
    [found] = find_secrets(assignment.format(made(ALNUM, 24)))
    assert found.kind == "assigned secret"


@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['DB_PASSWORD']",
        "const token = process.env.GITHUB_TOKEN",
        "api_key = get_api_key_from_vault(name)",
        'password: "correct horse battery"',
        "token: string | undefined; tokens_input: 123456789012",
        'apiKey: "your-api-key-goes-here-0000"',
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "https://user:${PASSWORD}@example.com",
        "https://github.com/anomalyco/opencode@v1.2",
        "git@github.com:anomalyco/opencode.git",
        "-----BEGIN PUBLIC KEY-----\n" + made(ALNUM, 64),
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\n" + made(ALNUM, 64),
        "sha256:" + made("0123456789abcdef", 64),
        "commit " + made("0123456789abcdef", 40),
        "550e8400-e29b-41d4-a716-446655440000",
        "ses_1f2e3d4c5b6a7988ffeeddccbb msg_1f2e3d4c5b6a7988ffeeddccbb",
        "sk-learn and sk-estimator-with-a-rather-long-hyphenated-name",
        "tokenize='trigram case_sensitive 0', token_type: access_token_of_the_user",
        "secretName: my-kubernetes-secret-name",
        "eyJhbGciOiJIUzI1NiJ9 is a header alone",
        "integrity sha512-" + made(ALNUM, 86) + "==",
        "data:image/png;base64," + made(ALNUM, 400),
    ],
)
def test_what_only_resembles_a_secret_is_not_reported(text: str) -> None:
    assert list(find_secrets(text)) == []


def test_a_masked_secret_tells_its_owner_alone_which_it_is() -> None:
    token = SECRETS["GitHub token"]
    assert masked(token) == "ghp_... (40 characters)"
    assert masked(PRIVATE_KEY) == "-----BEGIN RSA PRIVATE KEY-----..."


@pytest.mark.parametrize(
    "text",
    [
        "password" * 200_000, "token=" * 200_000, "a" * 1_000_000 + "://",
        "://a:" * 200_000, "-----BEGIN PRIVATE KEY-----" * 40_000, "eyJ" * 300_000,
        "sk-ant-" * 150_000, "-----BEGIN PRIVATE KEY-----" + " " * 1_000_000,
        "eyJ" + "a" * 1_000_000, "xoxb-" + "1" * 1_000_000,
    ],
    ids=lambda text: f"{text[:12]}...{len(text)}",
)  # fmt: skip
def test_a_long_text_is_read_in_proportion_to_its_length(text: str) -> None:
    began = time.process_time()
    list(find_secrets(text))
    assert time.process_time() - began < 10


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["audit", "--index", str(path), *words])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    github, aws = SECRETS["GitHub token"], SECRETS["AWS access key"]
    return fill(
        tmp_path / "history.db",
        copy(
            session("ses_a", f"Use {github} please"),
            user("msg_1", f"export GITHUB_TOKEN={github}"),
            assistant("msg_2", tool("bash", command="env", output=f"X={aws}\nY={github}"), at=T0),
        ),
        copy(session("ses_b", "Nothing here"), user("msg_3", "password: correct horse")),
        copy(session("ses_c", "Other", at=T0 + 5), user("msg_4", aws)),
    )


def test_secrets_are_reported_by_session_without_being_printed(index: Path) -> None:
    done = run(index)
    assert done.exit_code == 1
    for secret in SECRETS.values():
        assert secret not in done.output
    lines = done.output.splitlines()
    assert lines[:-1] == [
        "ses_c  2026-12-01T01:00:00.005Z  Other",
        "    AWS access key: AKIA... (20 characters), once, in msg_4",
        "ses_a  2026-12-01T01:00:00.000Z  Use [secret] please",
        "    GitHub token: ghp_... (40 characters), 3 times, in title, msg_1, msg_2",
        "    AWS access key: AKIA... (20 characters), once, in msg_2",
    ]
    assert lines[-1].startswith("3 likely secrets in 2 sessions.")


def test_the_json_says_the_same(index: Path) -> None:
    done = run(index, "--json", "ses_c")
    assert done.exit_code == 1
    assert json.loads(done.output) == [
        {
            "session_id": "ses_c",
            "title": "Other",
            "updated": "2026-12-01T01:00:00.005Z",
            "secrets": [
                {
                    "kind": "AWS access key",
                    "secret": "AKIA... (20 characters)",
                    "times": 1,
                    "messages": ["msg_4"],
                }
            ],
        }
    ]


def test_a_clean_history_exits_with_0(index: Path) -> None:
    done = run(index, "ses_b")
    assert (done.exit_code, done.output) == (0, "No likely secrets found\n")
    assert (run(index, "ses_b", "--json").exit_code, run(index, "ses_b", "--json").output) == (
        0,
        "[]\n",
    )


def test_a_missing_index_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path / "none.db")
    assert done.exit_code not in (0, 2)
    assert "opencode-history sync" in done.output
