"""`buckets`: what it prints, what it refuses, and where its settings come from."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from warmup_insights.bucketing.file import read_bucket_file
from warmup_insights.cli import cli
from warmup_insights.cli.buckets import buckets
from warmup_insights.errors import InputError, SettingError

LIMITS = [
    "--max-num-seqs=16",
    "--max-num-batched-tokens=2048",
    "--max-model-len=4096",
    "--num-kv-blocks=1000",
]
INPUTS = {
    "max_num_seqs": 16,
    "max_num_prefill_seqs": 1,
    "block_size": 128,
    "max_num_batched_tokens": 2048,
    "max_model_len": 4096,
    "num_hpu_blocks": 1000,
    "num_speculative_tokens": 0,
}


@pytest.fixture(autouse=True)
def _no_engine_variables(monkeypatch):
    """Variables of the shell that runs the tests are not those of a test."""
    import os

    for name in list(os.environ):
        if name.startswith(("VLLM_", "PT_HPU_")):
            monkeypatch.delenv(name)


def run(*arguments, error=None):
    result = CliRunner().invoke(cli, ["buckets", *map(str, arguments)])
    if error is None:
        assert result.exit_code == 0, (result.output, result.exception)
    else:
        assert isinstance(result.exception, error), result.output
    return result


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def write_settings(tmp_path):
    def write(**document):
        path = tmp_path / "settings.json"
        path.write_text(json.dumps({"inputs": INPUTS, **document}))
        return f"--settings={path}"

    return write


def test_every_command_and_option_has_help():
    for name, command in buckets.commands.items():
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_generate_prints_the_documented_json(write_settings):
    result = run_json(
        "generate",
        write_settings(
            env={"VLLM_BUCKETING_STRATEGY": "exp", "VLLM_CONTIGUOUS_PA": "false"},
            lookups=[
                {"phase": "prompt", "shape": [3, 128, 0]},
                {"phase": "prompt", "shape": [3, 128, 0]},
                {"phase": "decode", "shape": [3, 10]},
            ],
        ),
    )
    assert len(result["prompt_buckets"]) == 63
    assert result["prompt_buckets"][0] == [1, 128, 0]
    assert len(result["decode_buckets"]) == 41
    assert result["fallback_max_ctx"] == 512
    assert result["ranges"][0] == [[1, 2, 1, 1], [1]]
    assert len(result["ranges"]) == 6
    assert result["lookups"] == [[4, 192, 0], [4, 192, 0], [4, 1, 16]]
    drop = result["dropped"][0]
    assert drop["phase"] == "decode"
    assert drop["bucket"] == [1, 1, 48]
    assert drop["replaced_by"] == [1, 1, 32]
    assert drop["condition"]
    assert result["padding"]["prompt"]["unit"] == "tokens"


def test_a_file_of_buckets_has_no_ranges(write_settings, tmp_path):
    file = tmp_path / "b.txt"
    file.write_text("(1, [256, 512], [0, 4])\n(4, 1, range(16, 65, 16))\n")
    result = run_json(
        "generate", write_settings(env={"VLLM_BUCKETING_FROM_FILE": str(file)})
    )
    assert result["strategy"] == "file"
    assert result["ranges"] == []
    assert len(result["prompt_buckets"]) == 4
    assert len(result["decode_buckets"]) == 4


def test_tables_show_counts_ranges_drops_and_padding():
    out = run("generate", *LIMITS).stdout
    for words in (
        "63 prompt buckets",
        "41 decode buckets",
        "28 candidates dropped or replaced",
        "batch_size <= num_blocks",
        "128, 128, 2048, 11",
        "128 256 384 512 768 896 1280 1664 2048",
        "uniform from 1 to 4096 (assumed)",
        "padded share",
    ):
        assert words in out


def test_all_dropped_buckets_are_listed_on_request():
    short, full = run("generate", *LIMITS), run("generate", *LIMITS, "--dropped")
    assert "(16, 1, 1)" not in short.stdout
    assert "(16, 1, 1)" in full.stdout


def test_options_the_environment_and_set_reach_the_settings(monkeypatch):
    monkeypatch.setenv("VLLM_BUCKETING_STRATEGY", "lin")
    assert run_json("generate", *LIMITS)["strategy"] == "lin"
    monkeypatch.setenv("VLLM_EXPONENTIAL_BUCKETING", "true")
    assert run_json("generate", *LIMITS)["strategy"] == "exp"
    assert run_json("generate", *LIMITS, "--strategy=pad")["strategy"] == "pad"
    assignment = "--set=VLLM_EXPONENTIAL_BUCKETING=false"
    assert run_json("generate", *LIMITS, assignment)["strategy"] == "lin"


def test_the_env_of_a_settings_file_replaces_the_environment(
    monkeypatch, write_settings
):
    monkeypatch.setenv("VLLM_BUCKETING_STRATEGY", "lin")
    assert run_json("generate", write_settings())["strategy"] == "exp"


def test_options_win_over_a_settings_file(write_settings):
    settings = write_settings()
    assert (
        run_json("generate", settings, "--num-kv-blocks=100")["fallback_max_ctx"] == 512
    )


def test_notes_go_to_stderr_and_into_json():
    arguments = ("generate", *LIMITS, "--set=VLLM_DECODE_BS_BUCKET_MAX=4")
    result = run(*arguments)
    assert "VLLM_DECODE_BS_BUCKET_MAX=4 has no effect" in result.stderr
    assert "VLLM_DECODE_BS_BUCKET_MAX" not in result.stdout
    assert len(run_json(*arguments)["notes"]) == 1


def test_measured_lengths_replace_the_assumed(tmp_path):
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("700 10\n")
    out = run("generate", *LIMITS, f"--lengths={lengths}").stdout
    assert "(1, 700, 0) in (1, 768, 0)" in out
    assert "assumed" not in out


def test_written_files_read_back_as_the_printed_buckets(tmp_path):
    path = tmp_path / "out.txt"
    result = run_json("generate", *LIMITS, f"--output-file={path}")
    file = read_bucket_file(path)
    assert [list(bucket) for bucket in file.prompt] == result["prompt_buckets"]
    assert [list(bucket) for bucket in file.decode] == result["decode_buckets"]


def test_files_are_overwritten_only_by_force(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("mine")
    arguments = ("generate", *LIMITS, f"--output-file={path}")
    error = run(*arguments, error=InputError).exception
    assert "--force" in str(error)
    assert path.read_text() == "mine"
    run(*arguments, "--force")
    assert path.read_text() != "mine"


def test_files_that_cannot_be_written_are_named(tmp_path):
    path = tmp_path / "no" / "out.txt"
    result = run("generate", *LIMITS, f"--output-file={path}", error=InputError)
    assert str(path) in str(result.exception)


def test_the_older_scheme_gives_the_logged_lists():
    result = run_json("generate", "--scheme=2d", "--max-num-seqs=4")
    assert len(result["prompt_buckets"]) == 24
    assert len(result["decode_buckets"]) == 48
    assert result["ranges"]["decode"] == [[1, 128, 4], [128, 128, 2048]]
    table = run("generate", "--scheme=2d", "--max-num-seqs=4").stdout
    assert "24 prompt and 48 decode buckets" in table
    budget = "--max-num-batched-tokens=256"
    bounded = run("generate", "--scheme=2d", "--max-num-seqs=4", budget)
    assert "max_num_batched_tokens=256 has no effect" in bounded.stderr
    assert bounded.stdout == table
    path = ("--output-file=x", "--scheme=2d", "--max-num-seqs=4")
    run("generate", *path, error=InputError)


def test_compare_refuses_what_has_nothing_to_compare(tmp_path):
    off = run("compare", *LIMITS, "--set=VLLM_ENABLE_BUCKETING=0", error=InputError)
    assert "runs as it is" in str(off.exception)
    path = tmp_path / "lengths.txt"
    path.write_text("100000\n")
    long = run("compare", *LIMITS, f"--lengths={path}", error=InputError)
    assert "no length up to max_model_len=" in str(long.exception)


def test_the_most_blocks_are_stated_where_no_miss_makes_more():
    """Before v0.17.1 a miss makes what the cache holds (`generate_fallback_bucket`)."""
    newest = run("generate", *LIMITS).stdout
    assert "No decode bucket has more than 512 blocks" in newest
    older = ("--engine-version=v0.13.0", *LIMITS)
    assert "No decode bucket" not in run("generate", *older).stdout
    assert run_json("generate", *older)["fallback_max_ctx"] == 0


def test_lookup_shows_bucket_and_padding():
    result = run_json("lookup", 1, 700, 3, *LIMITS)
    assert result["phase"] == "prompt"
    assert result["bucket"] == [1, 768, 4]
    assert result["outcome"] == "found"
    assert result["padding"]["tokens"] == 68
    out = run("lookup", 17, 1, 40, *LIMITS).stdout
    assert "decode bucket (16, 1, 128)" in out
    assert "not warmed up" in out
    assert "smaller than the shape" in out
    assert "padded" not in out
    assert "-1" not in out


@pytest.mark.parametrize("shape", [(0, 1, 0), (1, 0, 0)])
def test_a_shape_has_a_sequence_and_a_token(shape):
    arguments = ["buckets", "lookup", *map(str, (*shape, *LIMITS))]
    assert CliRunner().invoke(cli, arguments).exit_code == 2


def test_lookup_states_that_no_step_has_a_shape():
    arguments = ("lookup", 2, 100, 0, *LIMITS)
    assert "at most 1 of the sequences" in run_json(*arguments)["never_run"]
    assert "No step has this shape: a prefill takes" in run(*arguments).stdout
    merged = run_json(*arguments, "--set=VLLM_MERGED_PREFILL=1")
    assert (merged["bucket"], merged["never_run"]) == ([1, 512, 0], None)


def test_lookups_of_a_settings_file_merge_prefill_as_lookup_does(write_settings):
    env = {"VLLM_MERGED_PREFILL": "1"}
    shapes = [{"phase": "prompt", "shape": [4, 100, 9]}]
    path = write_settings(env=env, lookups=shapes)
    one = run_json("lookup", 4, 100, 9, path)["bucket"]
    assert run_json("generate", path)["lookups"] == [one] == [[1, 512, 64]]


def test_lookup_shows_what_a_step_with_drafts_runs_in():
    arguments = ("lookup", 3, 1, 10, *LIMITS)
    assert run_json(*arguments)["with_drafts"] is None
    speculative = (*arguments, "--num-speculative-tokens=1")
    batch_size, query_len, _ = run_json(*speculative)["with_drafts"]
    assert (batch_size, query_len) == (8, 1)
    assert "With 1 proposed token for each sequence it runs in (8, 1, " in (
        run(*speculative).stdout
    )


def test_lookup_takes_the_phase_from_the_query_without_an_option():
    assert run_json("lookup", 3, 1, 10, *LIMITS)["phase"] == "decode"
    prompt = run_json("lookup", 1, 1, 10, *LIMITS, "--phase=prompt")
    assert (prompt["phase"], prompt["bucket"]) == ("prompt", [1, 128, 16])


def test_lookup_converts_tokens_to_blocks():
    """700 tokens and the next one: 6 blocks of 128 each for 3 sequences."""
    result = run_json("lookup", 3, 1, 700, *LIMITS, "--context-tokens")
    assert result["shape"] == [3, 1, 18]
    result = run_json("lookup", 1, 128, 700, *LIMITS, "--context-tokens")
    assert result["shape"] == [1, 128, 6]


def test_lookup_walks_a_growing_batch():
    arguments = ("lookup", 3, 1, 700, *LIMITS, "--context-tokens", "--walk=600")
    walk = run_json(*arguments)["walk"]
    assert [step["bucket"] for step in walk] == [[4, 1, 32], [4, 1, 48]]
    assert walk[-1]["last_token"] == 600
    assert "581 to 600" in run(*arguments).stdout
    run("lookup", 3, 1, 18, *LIMITS, "--walk=5", error=InputError)


def test_lookup_in_the_older_scheme():
    arguments = ("--scheme=2d", "--max-num-seqs=4")
    assert run_json("lookup", 3, 412, 0, *arguments)["bucket"] == [4, 512]
    result = run_json("lookup", 3, 1, 513, *arguments)
    assert (result["bucket"], result["outcome"]) == ([4, 640], "found")
    assert "not warmed up" in run("lookup", 5, 412, 0, *arguments).stdout


def test_lint_accepts_a_sound_file(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("(1, 128, 0)\n(1, 1, 4)\n")
    assert "1 prompt and 1 decode buckets" in run("lint", path).stdout


def test_lint_reports_all_and_fails_on_errors(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("(1, 128, 0)\nnonsense\n(1, 1, 4)\n(1, 2)\n(1, 1, 4)\n")
    result = run("lint", path, "--json", error=InputError)
    problems = json.loads(result.stdout)["problems"]
    assert [problem["line"] for problem in problems] == [2, 4, 5]
    assert f"{path}:2" in result.stdout
    # The error counts what the table lists, and repeats none of it.
    assert str(result.exception).endswith("2 errors; correct what is listed")


def test_lint_with_settings_lists_what_is_dropped(tmp_path, write_settings):
    path = tmp_path / "b.txt"
    path.write_text("(1, 128, 0)\n(4, 2048, 0)\n(1, 1, 4)\n")
    settings = write_settings(env={"VLLM_BUCKETING_FROM_FILE": "/absent"})
    out = run("lint", path, settings).stdout
    assert "max_num_batched_tokens" in out


def test_compare_puts_strategies_side_by_side(tmp_path):
    result = run_json("compare", *LIMITS)
    rows = {row["strategy"]: row for row in result["strategies"]}
    assert rows["exponential"]["prompt_buckets"] == 63
    assert rows["linear"]["prompt_buckets"] == 512
    assert rows["padding-aware"]["prompt_buckets"] == 110
    assert result["is_assumed"] is True
    for row in rows.values():
        assert 0 < row["padding"]["prompt"]["ratio"] < 1
    path = tmp_path / "b.txt"
    path.write_text("(1, 128, 0)\n(1, 1, 4)\n")
    with_file = run("compare", *LIMITS, f"--bucket-file={path}").stdout
    for words in ("exponential", "linear", "padding-aware", "file"):
        assert words in with_file


def test_compare_has_one_sign_where_no_decode_step_fits():
    limits = (
        "--max-num-seqs", "1000000", "--max-model-len", "100000000",
        "--max-num-batched-tokens", "8192", "--num-kv-blocks", "4096",
    )  # fmt: skip
    result = CliRunner().invoke(cli, ["buckets", "compare", *limits])
    assert result.exit_code == 0, result.output
    assert "-, -" not in result.stdout


def test_compare_shows_why_a_strategy_is_impossible():
    arguments = ("compare", *LIMITS, "--set=VLLM_PROMPT_BS_BUCKET_MIN=4")
    rows = {row["strategy"]: row for row in run_json(*arguments)["strategies"]}
    assert rows["exponential"]["error"] is None
    assert "VLLM_PROMPT_BS_BUCKET_MIN=4" in rows["linear"]["error"]
    assert "linear: VLLM_PROMPT_BS_BUCKET_MIN=4 is above" in run(*arguments).stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"inputs": 3}', "$.inputs"),
        ('{"inputs": {}, "env": {}}', "max_num_seqs is missing"),
        ('{"inputs": {}, "env": [1]}', "$.env"),
        ('{"inputs": {}, "env": {"A": [1]}}', "$.env[...]"),
        ('{"inputs": {}, "lookups": 3}', "$.lookups"),
        (
            '{"inputs": {}, "lookups": [{"phase": "x", "shape": []}]}',
            "$.lookups[0].phase",
        ),
        ('{"inputs": {}, "lookups": [[1, 2]]}', "$.lookups[0]"),
        ("[" * 100_000, "not a settings file"),
    ],
)
def test_settings_files_that_are_none_are_named(tmp_path, content, words):
    path = tmp_path / "s.json"
    path.write_text(content)
    result = run("generate", f"--settings={path}", error=InputError)
    assert words in str(result.exception)


def test_a_missing_settings_file_is_named(tmp_path):
    result = run("generate", f"--settings={tmp_path / 'absent'}", error=InputError)
    assert "absent cannot be read" in str(result.exception)


def test_values_of_env_may_be_numbers_and_truth_values(write_settings):
    settings = write_settings(
        env={
            "VLLM_BUCKETING_STRATEGY": "lin",
            "VLLM_CONTIGUOUS_PA": True,
            "VLLM_PROMPT_QUERY_BUCKET_MAX": 512,
            "VLLM_EXPONENTIAL_BUCKETING": None,
        }
    )
    result = run_json("generate", settings)
    assert result["ranges"][1][0] == [128, 128, 512]
    assert result["fallback_max_ctx"] == 1000


def test_an_assignment_without_a_name_is_refused():
    for assignment in ("nothing", "=3"):
        run("generate", *LIMITS, f"--set={assignment}", error=SettingError)


def test_wrong_shapes_in_a_settings_file_are_refused(write_settings):
    settings = write_settings(lookups=[{"phase": "decode", "shape": [1, 2, 3]}])
    result = run("generate", settings, error=InputError)
    assert "[1, 2, 3]" in str(result.exception)


SMALL_CACHE = [*LIMITS[1:], "--max-num-seqs=8", "--num-kv-blocks=10"]


@pytest.mark.parametrize("command", [("generate",), ("lookup", 3, 1, 9), ("compare",)])
def test_the_version_whose_rules_are_used_is_named(command):
    assert run_json(*command, *LIMITS)["engine_version"] == "v0.26.0"
    text = run(*command, *LIMITS).stdout
    assert "Bucketing rules of vllm-gaudi v0.26.0 (newest release)" in text
    older = (*command, *LIMITS, "--engine-version=0.19.1")
    assert run_json(*older)["engine_version"] == "v0.19.1"
    assert run(*older).stdout.endswith("Bucketing rules of vllm-gaudi v0.19.1\n")


def test_another_version_gives_its_own_buckets():
    main = run_json("generate", *SMALL_CACHE, "--engine-version=main")
    assert main["fallback_max_ctx"] == 30
    assert run_json("generate", *SMALL_CACHE)["fallback_max_ctx"] == 256


def test_a_strategy_can_be_chosen_in_a_version_without_its_variable():
    old = (*LIMITS, "--engine-version=0.19.0")
    assert run_json("generate", *old, "--strategy=lin")["strategy"] == "lin"
    rows = run_json("compare", *old)["strategies"]
    assert "no padding-aware strategy" in rows[2]["error"]


def test_lint_uses_the_rules_of_a_version_only_with_settings(tmp_path, write_settings):
    path = tmp_path / "b.txt"
    path.write_text("(1, 128, 31)\n(1, 2048, 31)\n(1, 1, 4)\n")
    assert run_json("lint", path)["engine_version"] is None
    run("lint", path, "--engine-version=main", error=InputError)
    older = run_json("lint", path, write_settings(), "--engine-version=0.17.1")
    assert older["engine_version"] == "v0.17.1"
    assert [problem["line"] for problem in older["problems"]] == [2]
    assert run_json("lint", path, write_settings())["problems"] == []


@pytest.mark.parametrize("version", ["0.9.0", "0.99.0", "newest"])
def test_a_version_without_known_rules_is_one_sentence(version):
    wrong = run("generate", *LIMITS, f"--engine-version={version}", error=SettingError)
    assert version in str(wrong.exception)
    assert "main" in str(wrong.exception)


def test_the_older_scheme_has_no_version():
    arguments = ("--scheme=2d", "--max-num-seqs=4", "--engine-version=main")
    run("generate", *arguments, error=InputError)


def test_a_wrong_setting_is_one_sentence_and_exit_code_2():
    """The whole program: nothing on stdout, no traceback."""
    command = [sys.executable, "-m", "warmup_insights", "buckets", "generate", *LIMITS]
    command += ["--strategy=lin", "--set=VLLM_PROMPT_BS_BUCKET_STEP=0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: VLLM_PROMPT_BS_BUCKET_STEP=0 is too small; it must be at least 1\n"
    )
