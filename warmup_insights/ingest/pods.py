"""Facts of pods: from the paths of their logs, and from `kubectl get pod,event -o json`.

They are appended to the runs of a log as one event. Times of a container are those of its
last start, so they are taken only where the log is that of the last restart. A container
of vLLM that has trouble and no log is a run of its own, with nothing but these facts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmup_insights.errors import InputError, cannot_read
from warmup_insights.ingest.outcome import Outcome
from warmup_insights.model.events import PodSeen, RunStarted
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import PodFacts
from warmup_insights.runs import current, refresh
from warmup_insights.storage import EventStore
from warmup_insights.units import parse_isoformat

MAX_BYTES = 64 << 20
MAX_REASONS = 20
_NAME = r"[a-z0-9][a-z0-9.-]{0,252}"
_PLACES = (
    # kubelet, below /var/log/pods, in an archive as a file of one name
    rf"(?P<namespace>{_NAME})_(?P<pod>{_NAME})_[0-9a-f-]{{8,64}}/(?P<container>{_NAME})/"
    r"(?P<restart>\d{1,6})\.log",
    # oc adm must-gather
    rf"namespaces/(?P<namespace>{_NAME})/pods/(?P<pod>{_NAME})/(?P<container>{_NAME})/"
    rf"{_NAME}/logs/current\.log",
    # kubectl cluster-info dump --output-directory; only pods of deployments have a name
    # that no other folder has
    rf"(?P<namespace>{_NAME})/(?P<pod>{_NAME}-[a-z0-9]{{8,10}}-[a-z0-9]{{5}})/logs\.txt",
)
_PLACE = [re.compile(rf"(?:^|/){place}(?:\.gz|\.zst)?$") for place in _PLACES]
_PULLED = re.compile(
    r"Successfully pulled image .{1,400}? in ((?:[\d.]{1,12}[a-zµ]{1,2}){1,4})"
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_RESTORE = re.compile(r"(?:^|\s)snapshot\s+restore(?:\s|$)")


@dataclass
class Pod:
    """A pod as the API server describes it, and the events about it."""

    manifest: Mapping[str, Any]
    events: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return _key(_mapping(self.manifest, "metadata"))


def read_pods(paths: Sequence[str]) -> list[Pod]:
    """The pods in these files, with the events in any of them.

    Raises InputError for a file that is none of `kubectl get ... -o json`.
    """
    objects = [each for path in paths for each in _objects(path)]
    pods = [Pod(each) for each in objects if each.get("kind") == "Pod"]
    by_key = {pod.key: pod for pod in pods}
    for each in objects:
        about = _mapping(each, "involvedObject")
        if each.get("kind") == "Event" and about.get("kind") == "Pod":
            pod = by_key.get(_key(about))
            if pod is not None:
                pod.events.append(each)
    if not pods:
        raise InputError(
            f"{paths[0]} holds no pod; make it with `kubectl get pod,event -o json`"
        )
    return pods


def _objects(path: str) -> Iterator[Mapping[str, Any]]:
    try:
        data = Path(path).read_bytes()[: MAX_BYTES + 1]
        found = json.loads(data) if len(data) <= MAX_BYTES else None
    except OSError as error:
        raise cannot_read(path, error) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"{path} is no JSON of pods; make it with `kubectl get pod,event -o json`"
        )
    items = found.get("items", [found])
    yield from (each for each in items if isinstance(each, dict))


def join_pods(
    store: EventStore, outcomes: Iterable[Outcome], pods: Sequence[Pod]
) -> list[Outcome]:
    """Append what is known of the pod of each log to its runs, each run once; what came of
    the pods that none of these logs is of."""
    logs = [outcome for outcome in outcomes if outcome.run_ids]
    rest = list(pods)
    for outcome in logs:
        place = place_of(outcome.path)
        pod = _pod_for(place, outcome.path, pods, is_only=len(logs) == 1)
        found = place if pod is None else _seen(pod, place)
        if pod in rest and pod is not None:
            rest.remove(pod)
        if found is not None:
            with store.begin() as transaction:
                transaction.delete_source(_source_id(found))
            # Of several starts in one log only the last is that of the last restart.
            _append(store, outcome.run_ids[-1], found)
    known = [
        (facts, run.run_id)
        for run in (store.runs(limit=None) if rest else [])  # the newest first
        if (facts := current(store, run).summary.pod) is not None
    ]
    others = [outcome for pod in rest for outcome in _without_log(store, pod, known)]
    return [each for each in others if each.run_ids or not logs]


def _append(store: EventStore, run_id: str, found: PodSeen) -> bool:
    """Add the facts to a run, unless they are there; whether they were added."""
    if any(isinstance(e, PodSeen) and e == found for e in store.events(run_id)):
        return False
    with store.begin() as transaction:
        transaction.append(run_id, [found])
    refresh(store, run_id)
    return True


def _without_log(
    store: EventStore, pod: Pod, known: Sequence[tuple[PodFacts, str]]
) -> Iterator[Outcome]:
    """What came of the containers of vLLM in a pod whose log is not read with it.

    The facts go to the stored run of the same start, else to a run of their own where
    there was trouble.
    """
    for name, count in _containers(pod):
        found = _seen(pod, PodSeen(container=name, restart=count))
        place = "/".join(filter(None, (found.namespace, found.pod, name)))
        run_id = next((run for facts, run in known if _is_same(facts, found)), None)
        if run_id is not None:
            is_new = _append(store, run_id, found)
            yield Outcome(place, [run_id], "continued" if is_new else "unchanged")
        elif found.reasons:
            yield Outcome(place, [_run_without_log(store, place, found)])
        else:
            yield Outcome(place, state="nothing")


def _containers(pod: Pod) -> Iterator[tuple[str, int]]:
    """The containers of vLLM, by their image, command and name, and their restarts."""
    counts = {
        state.get("name"): state.get("restartCount")
        for state in _mapping(pod.manifest, "status").get("containerStatuses") or []
        if isinstance(state, dict)
    }
    for each in _mapping(pod.manifest, "spec").get("containers") or []:
        if isinstance(each, dict) and isinstance(name := each.get("name"), str):
            words = [name, each.get("image"), *(each.get("command") or [])]
            if (
                "vllm"
                in " ".join(map(str, [*words, *(each.get("args") or [])])).lower()
            ):
                count = counts.get(name)
                yield name, count if isinstance(count, int) else 0


def _is_same(facts: PodFacts, found: PodSeen) -> bool:
    """Whether a stored run is of this start; its log may not name container or restart."""
    return (
        (facts.namespace, facts.pod) == (found.namespace, found.pod)
        and facts.container in (None, found.container)
        and facts.restart in (None, found.restart)
    )


def _source_id(found: PodSeen) -> str:
    text = f"pod {found.namespace}/{found.pod}/{found.container}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run_without_log(store: EventStore, place: str, found: PodSeen) -> str:
    """Store a run that nothing is known of but its pod."""
    source_id = _source_id(found)
    report = {"lines": 0, "events": 2, "unknown": 0, "dialects": []}
    source = SourceRecord(
        source_id=source_id, name=place, digest=source_id, head_digest=source_id,
        report=report, timezone="UTC",
    )  # fmt: skip
    run = RunRecord(
        run_id=source_id[:12], source_kind="log", source_id=source_id, source_name=place
    )
    with store.begin() as transaction:
        transaction.add_source(source)
        transaction.ensure_run(run)
        transaction.append(run.run_id, [RunStarted(timezone="UTC"), found])
    refresh(store, run.run_id)
    return run.run_id


def place_of(path: str) -> PodSeen | None:
    """Namespace, pod, container and restart in the path of a log."""
    for pattern in _PLACE:
        match = pattern.search(path.replace("\\", "/"))
        if match is not None:
            found = match.groupdict()
            restart = found.get("restart")
            return PodSeen(
                namespace=found["namespace"], pod=found["pod"],
                container=found.get("container"),
                restart=None if restart is None else int(restart),
            )  # fmt: skip
    return None


def _pod_for(
    place: PodSeen | None, path: str, pods: Sequence[Pod], *, is_only: bool
) -> Pod | None:
    """The pod of a log: by its path, else the only one for an only log."""
    if place is not None:
        key = (place.namespace or "", place.pod or "")
        return next((pod for pod in pods if pod.key == key), None)
    named = [pod for pod in pods if pod.key[1] and pod.key[1] in Path(path).name]
    if len(named) == 1:
        return named[0]
    return pods[0] if is_only and len(pods) == 1 else None


def _seen(pod: Pod, place: PodSeen | None) -> PodSeen:
    """What the pod's description states about the start of the engine's container."""
    spec, status = _mapping(pod.manifest, "spec"), _mapping(pod.manifest, "status")
    meta = _mapping(pod.manifest, "metadata")
    states = [s for s in status.get("containerStatuses") or [] if isinstance(s, dict)]
    wanted = place.container if place is not None else None
    if wanted is None and len(states) == 1:
        wanted = states[0].get("name")
    own = next((s for s in states if s.get("name") == wanted), {})
    count = own.get("restartCount")
    restart = place.restart if place is not None else None
    is_last = restart == count if restart is not None else count == 0
    running = _mapping(_mapping(own, "state"), "running")
    conditions = _conditions(status)
    return PodSeen(
        namespace=meta.get("namespace"), pod=meta.get("name"), container=wanted,
        node=spec.get("nodeName"), restart=restart,
        num_restarts=count if isinstance(count, int) else None,
        reasons=list(_reasons(own, pod.events))[:MAX_REASONS],
        created_at=parse_isoformat(meta.get("creationTimestamp")) if is_last and not count else None,
        scheduled_at=conditions.get("PodScheduled") if is_last and not count else None,
        pull_s=_pull_s(pod.events) if is_last and not count else None,
        container_started_at=parse_isoformat(running.get("startedAt")) if is_last else None,
        ready_at=conditions.get("Ready") if is_last else None,
        is_restored=_is_restored(spec, wanted),
    )  # fmt: skip


def _conditions(status: Mapping[str, Any]) -> dict[str, float]:
    """Condition to when it became true."""
    found: dict[str, float] = {}
    for each in status.get("conditions") or []:
        if isinstance(each, dict) and each.get("status") == "True":
            time = parse_isoformat(each.get("lastTransitionTime"))
            if time is not None:
                found[str(each.get("type"))] = time
    return found


def _reasons(
    own: Mapping[str, Any], events: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """What a container waits for, why it ended last, and warnings about the pod."""
    waits = _mapping(_mapping(own, "state"), "waiting")
    if waits.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        yield _sentence(waits)
    ended = _mapping(_mapping(own, "lastState"), "terminated")
    if ended:
        yield f"{ended.get('reason', 'terminated')} (exit code {ended.get('exitCode', '?')})"
    for event in events:
        if event.get("type") == "Warning":
            yield _sentence(event)


def _sentence(found: Mapping[str, Any]) -> str:
    """Reason and message, as the API server has them."""
    text = " ".join(str(found.get("message", "")).split())[:160]
    reason = str(found.get("reason", "Warning"))[:60]
    return f"{reason}: {text}" if text else reason


def _pull_s(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds of all pulls of images, as the kubelet states them; None without any."""
    texts = [_PULLED.search(str(event.get("message", ""))) for event in events]
    known = [_duration(match[1]) for match in texts if match is not None]
    return sum(known) if known else None


def _duration(text: str) -> float:
    """Seconds of a duration as Go prints it, such as `1m2.5s`."""
    parts = re.findall(r"([\d.]+)(h|ms|m|s)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _is_restored(spec: Mapping[str, Any], name: str | None) -> bool:
    """Whether the container restores a snapshot of an engine."""
    for each in spec.get("containers") or []:
        if isinstance(each, dict) and each.get("name") == name:
            words = [*(each.get("command") or []), *(each.get("args") or [])]
            return _RESTORE.search(" ".join(map(str, words))) is not None
    return False


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _key(found: Mapping[str, Any]) -> tuple[str, str]:
    return str(found.get("namespace", "")), str(found.get("name", ""))
