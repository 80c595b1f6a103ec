"""By hand: the `hpu` device and the plugin on the real Python of the Gaudi bridge.

    python -m tests.devices.bridge_lab --bridge CHECKOUT --python ENV/bin/python

`CHECKOUT` is https://github.com/HabanaAI/gaudi-pytorch-bridge; `ENV` has the torch that it
asks for (2.5 for 1.19) and the dependencies of this project. Its Python files are
copied into a folder for temporary files; what is compiled in the bridge is taken from
`tests/devices/compiled`, and functions of which nothing is used do nothing. The checks of
`bridge_checks.py` run in lazy and in eager mode, each in a process of its own. The exit
status is 1 when one did not hold. `--result docs/bridge.json` stores what was found, from
which `docs/make_lab.py` writes a table; with `--mode` the other mode is kept there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STANDIN = ROOT / "tests/vllm_plugin/standin"
MODES = {"lazy": "1", "eager": "0"}
_FUNCTION = re.compile(r'm\.def\(\s*"(\w+)"')
_CLASS = re.compile(r'class_<[^"]{1,200}\(\s*m,\s*"(\w+)"')
_ENUM = re.compile(r'enum_<[^>]{1,200}>\(m, "(\w+)"\)([^;]{1,2000});')
_VALUE = re.compile(r'\.value\(\s*"(\w+)"')
_SCHEMA = re.compile(r'm\.def\(\s*((?:"[^"]{0,4000}"\s*){1,40})')
_TEXT = re.compile(r'"([^"]{0,4000})"')
_OPERATOR = re.compile(r"\bhpu\.(\w+)(?:\.(\w+))?")
_RANDOM = re.compile(r'"aten\.(\w+)\.\w+"')
_VARIABLE = re.compile(r"^([A-Z]\w+):$", re.MULTILINE)
_UNUSED = {
    "_debug_C": "utils/debug/csrc/bindings.cpp",
    "_debug_lazy_C": "utils/debug/csrc/bindings_lazy.cpp",
    "_debug_eager_C": "utils/debug/csrc/bindings_eager.cpp",
    "_activity_profiler_C": "activity_profiler/csrc/bindings.cpp",
    "_profiler_C": "utils/profiler/csrc/bindings.cpp",
    "_hccl_C": "",
    "_hccl_eager_C": "",
    "_partition_bind_C": "dynamo/compile_backend/partitioner_bind.cpp",
    "_recipe_compiler_C": "dynamo/compile_backend/recipe_compiler.cpp",
    "_shared_layer_C": "dynamo/compile_backend/shared_layer_bindings.cpp",
}
"""Compiled modules of which nothing is used here, and where their names stand."""


def build(lab: Path, checkout: Path, torch_version: str) -> None:
    """The package of the bridge with stand-ins for what is compiled."""
    packages = checkout / "python_packages"
    shutil.copytree(packages / "habana_frameworks", lab / "habana_frameworks")
    package = lab / "habana_frameworks/torch"
    (package / "required_version.txt").write_text(torch_version)
    _generate_settings(checkout, package / "internal")
    libraries = package / "lib"
    for kind in ("fork_pybind", "upstream_pybind"):
        modules = libraries / kind
        shutil.copytree(HERE / "compiled", modules)
        for name, source in _UNUSED.items():
            text = (package / source).read_text() if source else ""
            (modules / f"{name}.py").write_text(_without_effect(text))
        (modules / "_bridge_config_C.py").write_text(_settings(checkout))
        (modules / "operators.json").write_text(json.dumps(_operators(checkout)))
    # Loaded for its effects alone: any library of the machine has none.
    nothing = subprocess.run(
        ["gcc", "-shared", "-x", "c", "-", "-o", str(libraries / "nothing.so")],
        input=b"", check=True,
    )  # fmt: skip
    assert nothing.returncode == 0
    for number in ("", "2"):
        for kind in ("", ".upstream"):
            name = f"libhabana_pytorch{number}_plugin{kind}.so"
            shutil.copy(libraries / "nothing.so", libraries / name)


def _without_effect(bindings: str) -> str:
    """A module with the names of the compiled one; its functions do nothing."""
    functions = sorted({*_FUNCTION.findall(bindings), *_CLASS.findall(bindings)})
    lines = [f"def {name}(*args, **kwargs):\n    return None\n" for name in functions]
    enums = {name: _VALUE.findall(values) for name, values in _ENUM.findall(bindings)}
    for name, values in enums.items():
        lines.append(f"{name} = enum.Enum({name!r}, {values!r})")
    return "\n".join(["import enum", *lines, f"__all__ = {[*functions, *enums]!r}", ""])


def _operators(checkout: Path) -> dict[str, list[str]]:
    """The schemas of the operators that the libraries of each mode define.

    Those that a generator writes at build time have no schema in the sources: of them
    only the name is right.
    """
    package = checkout / "python_packages/habana_frameworks"
    texts = [path.read_text() for path in package.rglob("*.py")]
    used = {
        name if overload in ("", "default", "overloads") else f"{name}.{overload}"
        for text in texts
        for name, overload in _OPERATOR.findall(text)
        if text.count("torch.ops.hpu")
    }
    random = {name for text in texts for name in _RANDOM.findall(text)}
    used |= {f"habana_{name}{end}" for name in random for end in ("", "_checkpoint")}
    found = {}
    for mode, folder in {"lazy": "habana_kernels", "eager": "habana_eager"}.items():
        text = "\n".join(p.read_text() for p in (checkout / folder).rglob("*.cpp"))
        schemas = ["".join(_TEXT.findall(parts)) for parts in _SCHEMA.findall(text)]
        known = [s.partition("::")[2] for s in schemas if s.startswith("hpu::")]
        by_name = {schema.partition("(")[0]: schema for schema in known}
        missing = used - set(by_name)
        generic = [f"{name}(Tensor self) -> Tensor" for name in sorted(missing)]
        found[mode] = [*by_name.values(), *generic]
    return found


def _generate_settings(checkout: Path, folder: Path) -> None:
    """The module that the bridge's own build writes."""
    scripts = checkout / "scripts"
    with tempfile.TemporaryDirectory() as unused:
        subprocess.run(
            [sys.executable, str(scripts / "generate_env.py"),
             f"--yaml={scripts / 'env_flags.yaml'}", f"--output_dir={unused}",
             f"--python_output_dir={folder}"],
            check=True,
        )  # fmt: skip


def _settings(checkout: Path) -> str:
    """Each setting of the bridge as off."""
    text = (checkout / "scripts/env_flags.yaml").read_text()
    names = []
    lines = []
    for variable in _VARIABLE.findall(text):
        for verb in ("get", "set", "is_set", "unset"):
            name = f"{verb}_{variable.lower()}"
            names.append(name)
            lines.append(f"def {name}(*args):\n    return False\n")
    return "\n".join([*lines, f"__all__ = {names!r}", ""])


def run_checks(python: str, lab: Path, mode: str) -> dict[str, dict[str, object]]:
    """The checks in a process of their own; one that ends is a check that failed."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("VLLM_", "PT_"))},
        "PYTHONPATH": os.pathsep.join(map(str, (lab, ROOT))),
        "PT_HPU_LAZY_MODE": MODES[mode],
        "PYTHONWARNINGS": "ignore",
        "PT_HPU_USE_CPP_PARTITIONER": "0",  # the one in Python
        "OMP_NUM_THREADS": "1",
        "BRIDGE_LAB": str(lab),
    }
    done = subprocess.run(
        [python, "-m", "tests.devices.bridge_checks", mode],
        env=environment, capture_output=True, text=True, timeout=1200, check=False,
        cwd=lab,
    )  # fmt: skip
    try:
        found: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        text = f"ended with {done.returncode}: {done.stderr[-2000:]}"
        found = {"import": {"holds": False, "text": text}}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bridge", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--keep", type=Path, help="build here instead, and keep it")
    parser.add_argument("--mode", choices=MODES, help="this one alone")
    parser.add_argument("--result", type=Path)
    arguments = parser.parse_args()
    version = subprocess.run(
        [arguments.python, "-c", "import torch; print(torch.__version__)"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        lab = arguments.keep or Path(folder) / "lab"
        if lab.exists():
            shutil.rmtree(lab)
        build(lab, arguments.bridge, version)
        modes = [arguments.mode] if arguments.mode else list(MODES)
        results = {mode: run_checks(arguments.python, lab, mode) for mode in modes}
    for mode, checks in results.items():
        for name, check in checks.items():
            verdict = "ok" if check["holds"] else "NOT"
            print(f"{mode:6}{verdict:4}{name}: {check['text']}")
    if arguments.result is not None:
        known = {}
        if arguments.mode and arguments.result.exists():
            known = json.loads(arguments.result.read_text())["modes"]
        stored = {
            "bridge": "1.19.0", "torch": version,
            "date": datetime.now(timezone.utc).date().isoformat(),
            "modes": {**known, **results},
        }  # fmt: skip
        arguments.result.write_text(json.dumps(stored, indent=1) + "\n")
    return int(not all(c["holds"] for m in results.values() for c in m.values()))


if __name__ == "__main__":
    raise SystemExit(main())
