"""Secrets that a log shows are in no table and no file that we write."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from parsers import all_rules
from parsers.engine.envelope import peel
from tests.helpers import read, summary_of
from warmup_insights.cli import cli
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import encode
from warmup_insights.secrets import mask, mask_text
from warmup_insights.storage import EventStore

# Made up; each stands for a kind of secret, and none of them occurs anywhere else.
API_KEY = "sk-0123456789abcdefghijKLMN"
HUB_TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx"
AWS_ID = "AKIA" + "ABCDEFGHIJKLMNOP"
GITHUB = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
PLAIN = "tr0ub4dor-and-3"

KEYS = [
    "api_key", "api_keys", "apiKey", "API_KEY", "VLLM_API_KEY", "hf_token", "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN", "accessToken", "auth_token", "authToken", "AWS_SECRET_ACCESS_KEY",
    "aws_session_token", "password", "db_password", "dbPassword", "PGPASSWORD", "passwd",
    "client_secret", "clientSecret", "private_key", "privateKey", "ssl_keyfile_password",
    "authorization", "Authorization", "credentials", "passphrase", "bearer", "sas_token",
    "WANDB_API_KEY", "x-api-key", "cookie",
]  # fmt: skip
HARMLESS = [
    "max_num_batched_tokens", "tokenizer", "tokenizer_mode", "max_tokens", "token_ids",
    "kv_cache_tokens", "num_tokens", "skip_tokenizer_init", "keyword", "monkey",
    "author", "authored", "hotkey", "bypass", "num_speculative_tokens", "tokens_per_s",
    "detokenize", "model", "passes", "max_prompt_tokens", "secretary", "key",
]  # fmt: skip
TEXTS = [
    f"using key {API_KEY} now",
    f"token={HUB_TOKEN}",
    f"{AWS_ID} is the id",
    f"https://me:{PLAIN}@host/path",
    f"https://{GITHUB}@github.com/x",
    f"postgresql://me:{PLAIN}@db.example/runs",
    f"https://host/file?token={PLAIN}&x=1",
    f"https://bucket.s3.amazonaws.com/m?X-Amz-Signature={PLAIN}",
    f"https://blob.example/m?sv=1&sig={PLAIN}",
    f"Authorization: Bearer {PLAIN}",
    f"{{'api_key': '{PLAIN}'}}",
    f'{{"hf_token": "{PLAIN}"}}',
    f"api_key=['{PLAIN}']",
    f"--api-key {PLAIN} --port 1",
    f"--hf-token={PLAIN}",
    f"HF_TOKEN={PLAIN} vllm serve",
    f"password: {PLAIN}",
    JWT,
    f"github_pat_{'A1b2C3d4E5' * 4}",
    f"glpat-{'A1b2C3d4E5' * 2}",
    f"xoxb-{'1234567890' * 3}",
    f"AIza{'A1b2C3d4E5' * 3}A1b2C",
    f"nvapi-{'A1b2C3d4E5' * 4}",
]
SECRETS = [
    API_KEY, HUB_TOKEN, AWS_ID, GITHUB, PLAIN, JWT, "A1b2C3d4E5", "1234567890" * 2,
]  # fmt: skip
PROSE = [
    "max_num_batched_tokens=2048, tokenizer='a/b', max_tokens=7",
    "GPU KV cache size: 1,234 tokens",
    "Initializing a V1 LLM engine (v0.26.0) with config: model='m', token_ids=[1]",
    "Warmup finished in 49 secs, allocated 14.19 GiB of device memory",
    "http://127.0.0.1:8000/v1/models",
    "INFO: me@example.org asked: why?",
    "the key: value store, the secret of speed",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_value_is_masked_by_its_key(key):
    assert mask(key, PLAIN) == "***"
    assert mask(key, [PLAIN]) in ("***", ["***"])
    assert mask("outer", {key: PLAIN}) == {key: "***"}


@pytest.mark.parametrize("key", HARMLESS)
def test_keys_that_only_look_alike_keep_their_values(key):
    assert mask(key, PLAIN) == PLAIN


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_masked_by_its_form(text):
    masked = mask_text(text)
    assert "***" in masked
    assert [secret for secret in SECRETS if secret in masked] == []


@pytest.mark.parametrize("text", PROSE)
def test_other_text_stays_as_it_is(text):
    assert mask_text(text) == text


def test_numbers_and_switches_are_no_secrets():
    assert mask("api_key", None) is None
    assert mask("enable_auth", True) is True
    assert mask("password", "") == ""


LOG = "".join(
    f"INFO 11-20 07:31:{number:02} [a.py:1] {line}\n"
    for number, line in enumerate(
        [
            "vLLM API server version 0.26.0",
            "non-default args: {" + ", ".join(f"'{k}': '{PLAIN}'" for k in KEYS) + "}",
            f"non-default args: {{'api_key': ['{API_KEY}', '{PLAIN}'], 'model': 'm'}}",
            f"Initializing a V1 LLM engine (v0.26.0) with config: model='m', "
            f"hf_token={PLAIN}, override={{'password': '{PLAIN}'}}",
            f"HPUGraph frobnication with {API_KEY} took 4 GiB",
            f"Warmup of https://me:{PLAIN}@host failed to take {HUB_TOKEN}",
            f"EngineCore failed to start: password={PLAIN}",
            f"RuntimeError: CUDA out of memory at https://host/?token={PLAIN}",
            "Application startup complete.",
        ]
    )
) + "".join(f"INFO 11-20 07:32:{n:02} [a.py:1] {text}\n" for n, text in enumerate(TEXTS))  # fmt: skip


def test_no_secret_of_a_log_is_in_the_database(tmp_path):
    log, database = tmp_path / "server.log", tmp_path / "a.db"
    log.write_text(LOG)
    with EventStore(database) as store:
        outcome = ingest_path(store, str(log))
        assert outcome.report["unknown"] > 0
        assert len(outcome.run_ids) > 0
        said = json.dumps(outcome.as_dict())
    files = sorted(tmp_path.glob("a.db*"))
    stored = b"".join(file.read_bytes() for file in files)
    assert len(stored) > 10_000
    assert [s for s in SECRETS if s.encode() in stored] == []
    assert [s for s in SECRETS if s in said] == []


def test_no_secret_of_a_log_is_printed(tmp_path):
    log = tmp_path / "server.log"
    log.write_text(LOG)
    arguments = ["ingest", str(log), "--db", str(tmp_path / "a.db")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert "frobnication" in result.output + result.stderr
    assert [s for s in SECRETS if s in result.output + result.stderr] == []


SAMPLES = [
    pytest.param(rule, sample, id=f"{rule.name}-{number}")
    for rule in all_rules()
    for number, sample in enumerate(rule.samples)
]


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
def test_no_rule_carries_a_secret_into_an_event(rule, sample):
    """The secret in place of every piece of text that the rule takes out of its line."""
    for record in peel(sample.line):
        match = rule.match(record.message)
        spans = [match.span(n) for n in range(len(match.groups()) + 1)] if match else []
        for begin, end in spans:
            message = record.message
            if begin < 0 or re.fullmatch(r"[\d.,\s()\[\]-]*", message[begin:end]):
                continue
            for secret in (f"token={PLAIN}", API_KEY, f"key of {API_KEY}"):
                line = "INFO 11-20 07:31:00 [a.py:1] "
                line += message[:begin] + secret + message[end:]
                runs, report = read(line)
                written = [str(report.as_dict()), str(report.kept_lines)]
                written += [str(summary_of(found)) for found in runs.values()]
                written += [encode(e).decode() for run in runs.values() for e in run]
                assert PLAIN not in "".join(written), line
                assert API_KEY not in "".join(written), line
