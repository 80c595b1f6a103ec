"""Facts of pods: from the paths of logs and from what the API server states."""

from __future__ import annotations

import json
import zipfile

import pytest
from click.testing import CliRunner

import warmup_insights as wi
from warmup_insights.analysis.advice.rules_settings import probe_of
from warmup_insights.cli import cli as main
from warmup_insights.errors import InputError
from warmup_insights.ingest.pods import place_of, read_pods
from warmup_insights.model.figures import BY_NAME

LOG = """\
(APIServer pid=1) INFO 10-16 10:02:00 [api_utils.py:339] vLLM API server version 0.31.0
(EngineCore pid=7) INFO 10-16 10:02:05 [core.py:112] Initializing a V1 LLM engine (v0.31.0) with config: model='o/m', dtype=torch.bfloat16
(EngineCore pid=7) INFO 10-16 10:03:00 [core.py:337] init engine (profile, create kv cache, warmup model) took 50.00 s
(APIServer pid=1) INFO 10-16 10:03:10 [launcher.py:46] Application startup complete.
"""
NAME = "server-6c5d8f9b7d-x2x7q"


def pod(restarts=0, args=("serve", "o/m"), name=NAME):
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}} if restarts else {}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "prod",
                     "creationTimestamp": "2026-10-16T10:00:00Z"},
        "spec": {"nodeName": "node-3",
                 "containers": [{"name": "vllm", "args": list(args)}, {"name": "proxy"}]},
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "True",
                 "lastTransitionTime": "2026-10-16T10:00:20Z"},
                {"type": "Ready", "status": "True",
                 "lastTransitionTime": "2026-10-16T10:03:20Z"},
            ],
            "containerStatuses": [
                {"name": "proxy", "restartCount": 0},
                {"name": "vllm", "restartCount": restarts, "lastState": ended,
                 "state": {"running": {"startedAt": "2026-10-16T10:01:50Z"}}},
            ],
        },
    }  # fmt: skip


def pulled(took="1m20.5s", name=NAME):
    return {
        "kind": "Event", "type": "Normal", "reason": "Pulled",
        "involvedObject": {"kind": "Pod", "namespace": "prod", "name": name},
        "message": f'Successfully pulled image "r/vllm:0.31" in {took} (1m20.5s including '
        "waiting). Image size: 9876543210 bytes.",
    }  # fmt: skip


UNHEALTHY = {
    **pulled(), "type": "Warning", "reason": "Unhealthy",
    "message": "Startup probe failed: HTTP probe failed with statuscode: 503",
}  # fmt: skip


def read(tmp_path, *objects, restart=0, more=("--timezone", "UTC", "--year", "2026")):
    folder = tmp_path / f"prod_{NAME}_0a1b2c3d-0000-1111-2222-333344445555" / "vllm"
    folder.mkdir(parents=True)
    log = folder / f"{restart}.log"
    log.write_text(LOG)
    args = ["ingest", str(log), "--db", str(tmp_path / "runs.db"), *more]
    if objects:
        described = tmp_path / "pod.json"
        described.write_text(json.dumps({"kind": "List", "items": list(objects)}))
        args += ["--pod", str(described)]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    with wi.open(str(tmp_path / "runs.db")) as database:
        return database.run("latest").summary


def figure(summary, name):
    return BY_NAME[name].read(summary)


def test_what_came_before_the_first_line(tmp_path):
    summary = read(tmp_path, pod(), pulled(), UNHEALTHY)
    assert (summary.pod.namespace, summary.pod.pod) == ("prod", NAME)
    assert (summary.pod.container, summary.pod.node) == ("vllm", "node-3")
    assert figure(summary, "pod_scheduled_s") == 20.0
    assert figure(summary, "pod_pull_s") == 80.5
    assert figure(summary, "pod_started_s") == 110.0
    assert figure(summary, "before_first_line_s") == 10.0
    assert figure(summary, "pod_ready_s") == 90.0
    assert summary.pod.reasons == [
        "Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503"
    ]
    assert summary.time.wall_s == 70.0


def test_an_earlier_start_has_none_of_the_times_of_the_last(tmp_path):
    summary = read(tmp_path, pod(restarts=2), pulled(), restart=1)
    assert (summary.pod.restart, summary.pod.num_restarts) == (1, 2)
    assert summary.pod.reasons == ["OOMKilled (exit code 137)"]
    for name in (
        "pod_scheduled_s",
        "pod_pull_s",
        "pod_started_s",
        "before_first_line_s",
    ):
        assert figure(summary, name) is None


def test_a_restart_was_not_scheduled_again(tmp_path):
    summary = read(tmp_path, pod(restarts=1), pulled(), restart=1)
    assert figure(summary, "pod_scheduled_s") is None
    assert figure(summary, "before_first_line_s") == 10.0


def test_without_a_time_zone_the_first_line_is_nowhere(tmp_path):
    summary = read(tmp_path, pod(), more=())
    assert figure(summary, "before_first_line_s") is None
    assert figure(summary, "pod_started_s") == 110.0


def test_a_path_alone_names_the_pod(tmp_path):
    summary = read(tmp_path, restart=3)
    assert (summary.pod.pod, summary.pod.restart) == (NAME, 3)
    assert figure(summary, "pod_started_s") is None


def test_a_container_that_restores_a_snapshot_is_restored(tmp_path):
    summary = read(tmp_path, pod(args=("snapshot", "restore", "/snap")))
    assert summary.start.kind == "restored"


def test_another_pod_is_not_joined(tmp_path):
    summary = read(tmp_path, pod(name="other-6c5d8f9b7d-aaaaa"))
    assert summary.pod.node is None


def test_the_same_facts_are_appended_once(tmp_path):
    read(tmp_path, pod())
    args = [
        "ingest", str(next(tmp_path.glob("prod_*/vllm/0.log"))), "--db",
        str(tmp_path / "runs.db"), "--pod", str(tmp_path / "pod.json"),
    ]  # fmt: skip
    assert CliRunner().invoke(main, args).exit_code == 0
    with wi.open(str(tmp_path / "runs.db")) as database:
        kinds = [type(e).__name__ for e in database.run("latest").iter_events()]
    assert kinds.count("PodSeen") == 1


def test_logs_of_an_archive_keep_their_pods(tmp_path):
    bundle = tmp_path / "pods.zip"
    name = f"prod_{NAME}_0a1b2c3d-0000-1111-2222-333344445555/vllm/0.log"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr(name, LOG)
    db = str(tmp_path / "runs.db")
    assert CliRunner().invoke(main, ["ingest", str(bundle), "--db", db]).exit_code == 0
    with wi.open(db) as database:
        assert database.run("latest").summary.pod.pod == NAME


@pytest.mark.parametrize(
    ("path", "pod", "container"),
    [
        ("d/namespaces/prod/pods/s-0/vllm/vllm/logs/current.log", "s-0", "vllm"),
        (f"dump/prod/{NAME}/logs.txt", NAME, None),
    ],
)
def test_paths_of_must_gather_and_of_a_cluster_dump(path, pod, container):
    found = place_of(path)
    assert (found.namespace, found.pod, found.container) == ("prod", pod, container)


@pytest.mark.parametrize("path", ["results/run-1/logs.txt", "0.log", "a/b/c/0.log"])
def test_other_paths_name_no_pod(path):
    assert place_of(path) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "Node"}', "kind: Pod"])
def test_what_holds_no_pod_is_one_sentence(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match="kubectl get pod,event -o json"):
        read_pods([str(path)])


CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}


def only_pod(tmp_path, *objects):
    described = tmp_path / "pod.json"
    described.write_text(json.dumps({"kind": "List", "items": list(objects)}))
    db = str(tmp_path / "runs.db")
    done = CliRunner().invoke(main, ["ingest", "--pod", str(described), "--db", db])
    with wi.open(db) as database:
        return done, [run.summary for run in database.runs()]


def test_a_pod_without_a_log_is_a_run_with_its_restarts(tmp_path):
    failing = pod(restarts=4)
    failing["status"]["containerStatuses"][1]["state"] = CRASHING
    failing["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"reason": "Error", "exitCode": 1}
    }
    for _ in range(2):
        done, (found,) = only_pod(tmp_path, failing)
        assert done.exit_code == 0, done.output
    assert (found.pod.container, found.pod.num_restarts) == ("vllm", 4)
    assert found.pod.reasons == [
        "CrashLoopBackOff: back-off 5m0s", "OOMKilled (exit code 137)",
    ]  # fmt: skip
    assert found.source.name == f"prod/{NAME}/vllm"
    assert figure(found, "ready_s") is None
    assert figure(found, "wall_s") is None


def test_a_pod_in_order_without_a_log_is_no_run(tmp_path):
    done, found = only_pod(tmp_path, pod())
    assert done.exit_code == 1
    assert found == []


def test_a_pod_described_later_joins_the_run_of_its_log(tmp_path):
    read(tmp_path, restart=2)
    done, (found,) = only_pod(tmp_path, pod(restarts=2))
    assert done.exit_code == 0, done.output
    assert found.pod.reasons == ["OOMKilled (exit code 137)"]
    assert found.time.wall_s == 70.0


def test_a_log_that_is_read_later_takes_the_place_of_its_pod(tmp_path):
    only_pod(tmp_path, pod(restarts=2))
    read(tmp_path, pod(restarts=2), restart=2)
    with wi.open(str(tmp_path / "runs.db")) as database:
        (run,) = database.runs()
        assert run.summary.time.wall_s == 70.0


def test_a_probe_counts_from_the_start_of_the_container(tmp_path):
    summary = read(tmp_path, pod())
    probe = probe_of([summary])
    assert probe.longest_s == 90.0


def test_without_anything_to_read_the_command_is_refused(tmp_path):
    done = CliRunner().invoke(main, ["ingest", "--db", str(tmp_path / "runs.db")])
    assert done.exit_code == 2
