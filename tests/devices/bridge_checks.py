"""What has to hold on the real Python of the Gaudi bridge; see `bridge_lab`.

`python -m tests.devices.bridge_checks lazy` runs in the lab's folder and prints the
checks as JSON: name to whether it holds, and what was found.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import sys
import tempfile
import traceback
import types
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests/vllm_plugin/standin"
CHECKS = []
TRIES = 3


def check(*modes):
    """A function that gives a text, and raises where it does not hold."""

    def keep(function):
        CHECKS.append((modes or ("lazy", "eager"), function))
        return function

    return keep


def same(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def stand_in_signatures():
    """Module and name of what the tests' stand-ins have, with its signature."""
    from tests.devices.habana_stand_in import StandIn

    for name, module in StandIn(is_lazy=True).modules().items():
        yield from signatures(name, module)
    base = STANDIN / "base"
    sys.path.append(str(base))
    for path in sorted((base / "habana_frameworks").rglob("*.py")):
        name = ".".join(path.relative_to(base).with_suffix("").parts)
        module = types.ModuleType(name.removesuffix(".__init__"))
        exec(compile(path.read_text(), str(path), "exec"), vars(module))
        yield from signatures(module.__name__, module)
    del sys.modules["standin"]  # from now on, memory is that of this process
    sys.path.remove(str(base))


def signatures(name, module):
    for key, value in vars(module).items():
        own = getattr(value, "__module__", "") in (module.__name__, "builtins")
        if key.startswith("_") or isinstance(value, types.ModuleType):
            continue
        if inspect.isclass(value):
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield name, f"{key}.{method}", function
            for parent in value.__mro__[1:-1]:
                for method, function in vars(parent).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield name, f"{key}.{method}", function
        elif callable(value) and (
            own or inspect.ismethod(value) or inspect.isfunction(value)
        ):
            yield name, key, value


def parameters(function):
    """Names and whether each may be left out; `self` is none."""
    found = [
        (p.name, p.default is not p.empty)
        for p in inspect.signature(function).parameters.values()
    ]
    return [pair for pair in found if pair[0] != "self"]


@check("lazy")
def signatures_of_the_stand_ins():
    """Those of the tests are those of the bridge."""
    differing, count, anything = [], 0, [("args", False), ("kwargs", False)]
    for module, name, function in stand_in_signatures():
        real = importlib.import_module(module)
        for part in name.split("."):
            real = getattr(real, part)
        count += 1
        if parameters(real) not in (parameters(function), anything):
            differing.append(
                f"{module}.{name}: {parameters(function)} is {parameters(real)}"
            )
    same(differing, [])
    return f"{count} functions are as in the bridge"


@check()
def device_opens():
    device = make_device()
    reading = device.memory()
    assert 0 <= reading.used_bytes < reading.total_bytes
    device.synchronize()
    facts = device.settings()
    assert device.num_compiled() is not None
    return f"{device.name}, {facts['bridge_mode']} mode"


def make_device():
    from warmup_insights.devices.hpu import HpuDevice

    device = HpuDevice()
    device.torch_name = "cpu"  # below the stand-ins, tensors are those of the CPU
    return device


@check()
def capture_and_replay():
    device = make_device()
    x, out = torch.ones(4), torch.zeros(4)
    graph = device.capture(lambda: out.copy_(x + 1))
    same(float(out[0]), 2.0)
    x.fill_(5.0)
    with torch.inference_mode():
        graph.replay()
    same(float(out[0]), 6.0)
    return "runs the work, and a replay follows its input"


@check()
def capture_that_raises():
    device = make_device()
    x, out = torch.ones(4), torch.zeros(4)
    errors = []

    def fail():
        out.copy_(x + 1)
        raise ValueError("mine")

    for _ in range(TRIES):
        try:
            device.capture(fail)
        except ValueError as error:
            errors.append(error)  # keeps the frames, and with them the graph
    same(len(errors), TRIES)

    def work():
        errors.clear()
        gc.collect()
        out.copy_(x * 3)

    graph = (
        device.capture(work)
        if device.is_lazy
        else device.capture(lambda: out.copy_(x * 3))
    )
    x.fill_(5.0)
    with torch.inference_mode():
        graph.replay()
    same(float(out[0]), 15.0)
    return f"{TRIES} ended by their error, and the next one is whole"


@check("lazy")
def graph_gives_back():
    """By the bridge's own wrapper of modules, its context manager, and by hand."""
    import habana_frameworks.torch as ht

    runs = []

    def count(phase, info):
        if phase == "start":
            runs.append(1)

    module = torch.nn.Linear(4, 4)
    wrapped = ht.hpu.wrap_in_hpu_graph(module, disable_tensor_cache=True)
    gc.callbacks.append(count)
    gc.disable()
    with torch.no_grad():
        for size in range(1, 4):
            wrapped(torch.ones(size, 4))
    of_wrapper = len(runs)
    graph = ht.hpu.HPUGraph()
    out = torch.zeros(2)
    with ht.hpu.graph(graph):
        out.add_(1)
    of_context = len(runs) - of_wrapper
    gc.enable()
    gc.callbacks.remove(count)
    same((of_wrapper, of_context), (0, 1))
    calls = graph.hpu_graph.num_calls
    assert calls, "nothing was recorded"
    graph.clear_inputs()
    same(graph.hpu_graph.num_calls, calls)
    graph.reset()
    same(graph.hpu_graph.num_calls, 0)
    wrapped.clear_cache()
    return (
        "3 captures of wrap_in_hpu_graph, which vllm-gaudi uses, collect garbage "
        f"{of_wrapper} times, one in the context manager {of_context} time"
    )


@check("lazy")
def dropping_a_graph_ends_a_recording():
    """As the stand-in takes it over from the C++: so a failed one is destroyed at once."""
    import habana_frameworks.torch as ht

    old, new = ht.hpu.HPUGraph(), ht.hpu.HPUGraph()
    out = torch.zeros(2)
    new.capture_begin()
    out.add_(1)
    old.reset()
    new.capture_end()
    same(new.hpu_graph.num_calls, 0)
    return "as taken over from HPUGraph::destroy"


@check("lazy")
def out_of_memory():
    from warmup_insights.devices.base import DeviceOutOfMemory

    device = make_device()
    asked = device.memory().total_bytes + (1 << 20)
    try:
        with device.guard():
            torch.empty(asked, dtype=torch.uint8)
    except DeviceOutOfMemory as error:
        same(error.needed_bytes, asked)
        free = error.free_bytes
    else:
        raise AssertionError("no error")
    assert float(torch.ones(4).sum()) == 4.0
    device.synchronize()
    return f"{asked} bytes asked for, {free} free, works afterwards"


@check()
def doctor():
    from warmup_insights.devices import checks

    device = make_device()
    found = [
        check(name, device)
        for name, check in checks.CHECKS.items()
        # Compiled, the stand-in's memory has no end.
        if device.is_lazy or check is not checks.check_out_of_memory
    ]
    wrong = [f"{c.name}: {c.figure}" for c in found if c.result == checks.WRONG]
    same(wrong, [])
    return ", ".join(f"{c.name} {c.result}" for c in found)


@check()
def reference_engine():
    """A whole start with graphs, and serving: the tokens are those of the CPU device."""
    from warmup_insights.devices.cpu import CpuDevice
    from warmup_insights.model.events import GraphCaptured, WarmupStep
    from warmup_insights.runner.session import Session
    from warmup_insights.runner.settings import RunSettings
    from warmup_insights.runner.workload import WorkloadSettings

    is_lazy = os.environ["PT_HPU_LAZY_MODE"] != "0"
    # Each graph of eager mode is a compilation of its own, of seconds.
    length = 96 if is_lazy else 24
    settings = RunSettings(
        block_size=8, max_model_len=length, max_num_batched_tokens=length // 2,
        max_num_seqs=2 if is_lazy else 1, graph_reserved_mem=0.5,
    )  # fmt: skip
    work = WorkloadSettings(num_prompts=4, input_len=6, output_len=5, sigma=0.3)
    events = []
    session = Session(make_device(), settings, events.append, work)
    same(session.run().status, "finished")
    plain = Session(CpuDevice(512 << 20), settings, lambda _: None, work)
    same(plain.run().status, "finished")
    same(session.tokens, plain.tokens)
    graphs = [e for e in events if isinstance(e, GraphCaptured)]
    steps = [e for e in events if isinstance(e, WarmupStep)]
    assert graphs, "no graph"
    tokens = sum(map(len, session.tokens.values()))
    return f"{len(steps)} steps, {len(graphs)} graphs, {tokens} tokens as on the CPU"


def drive(environment=()):
    """The stand-in engine with the plugin, in this lab, in a process of its own."""
    import subprocess

    from tests.vllm_plugin.running import Ran
    from tests.vllm_plugin.running import environment as clean

    folder = tempfile.mkdtemp()
    database = Path(folder) / "runs.db"
    variables = {
        "WARMUP_INSIGHTS_DB": str(database), "WARMUP_INSIGHTS_SYNTHETIC": "1",
        "PT_HPU_ENABLE_CACHE_METRICS": "1", **dict(environment),
    }  # fmt: skip
    env = clean("v0_26", **variables)
    engine = Path(folder) / "engine"  # the stand-in engine without its own bridge
    engine.mkdir()
    for path in (STANDIN / "base").iterdir():
        if path.name != "habana_frameworks":
            (engine / path.name).symlink_to(path)
    paths = (os.environ["BRIDGE_LAB"], STANDIN / "v0_26", engine, ROOT)
    env["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    start = (
        "import torch, sys; from tests.devices.bridge_checks import as_fork; as_fork(); "
        "import habana_frameworks.torch; from standin.drive import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], env=env, cwd=folder, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    return Ran("v0_26", 0, done.stdout, done.stderr, database)


@check()
def plugin_on_the_bridge():
    """The stand-in engine: each recipe, each bucket, and what the bridge counts itself."""
    ran = drive()
    steps = ran.steps()
    recipes = ran.events("recipe_compiled")
    late = ran.events("runtime_compile")
    of_steps = sum(step.compiled for step in steps)
    same(len([r for r in recipes if r.bucket is not None]), of_steps)
    notes = {n.topic: n for n in ran.events("note")}
    counted = notes["bridge_graph_compilation"].values["compiled"]
    same(len(recipes) + len(late), counted)
    assert "bridge_recipe_cache" in notes, "no metric of the recipe cache"
    assert "hook_missing" not in notes, notes["hook_missing"].text
    measured = {e.stage: e for e in ran.events("memory_measured")}
    same(measured["weights"].total_bytes, 96 * 2**30)
    plain = drive([("WARMUP_INSIGHTS_DB", "")])
    same(ran.tokens, plain.tokens)
    return (
        f"{len(steps)} buckets, {len(recipes)} recipes before ready and {len(late)} "
        f"after, {counted} by the bridge's metric; tokens as without the plugin"
    )


@check("lazy")
def metric_file():
    """`PT_HPU_METRICS_FILE`: what the bridge's saver writes is read."""
    from parsers.formats.metric_files import looks_like_metrics, read_metrics

    found = []
    for form in ("json", "text"):
        path = Path(tempfile.mkdtemp()) / f"metrics.{form}"
        drive(
            [("PT_HPU_METRICS_FILE", str(path)), ("PT_HPU_METRICS_FILE_FORMAT", form)]
        )
        (written,) = path.parent.iterdir()
        data = written.read_bytes()
        assert looks_like_metrics(data), data[:200]
        notes = {n.topic: n for n in read_metrics(data.decode(), written.name)}
        found.append(notes["bridge_graph_compilation"].values["compiled"])
    assert found[0] == found[1] > 0, found
    return f"{found[0]} recipes in both formats"


def as_fork():
    """Lazy mode asks for the fork of torch, by its version."""
    if os.environ.get("PT_HPU_LAZY_MODE", "1") != "0":
        torch.__version__ = torch.__version__.partition("+")[0] + "+git0"


def main():
    as_fork()
    results = {}
    for modes, function in CHECKS:
        if sys.argv[1] not in modes:
            continue
        name = function.__name__.replace("_", " ")
        sys.stderr.write(f"{name}\n")
        try:
            results[name] = {"holds": True, "text": function()}
        except Exception as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"[:1500]
            results[name] = {"holds": False, "text": text}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
