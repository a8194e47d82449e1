"""Conditions that skip tests, evaluated on each runner that the file is registered for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runci.checks.rule import FileRule, Tree
from runci.config.taxonomy import Runner
from runci.core.finding import Finding
from runci.core.registration import Backend
from runci.read.condition import UNKNOWN, evaluate
from runci.read.testfile import Gate, TestFile

# Backends whose PyTorch has no CUDA device; of those that are in neither, nothing is known.
_NO_CUDA = frozenset((Backend.NPU, Backend.XPU, Backend.MPS, Backend.MLX))
_TORCH_CUDA = frozenset((Backend.CUDA, Backend.AMD))
_MODEL = re.compile(r"[A-Z]{1,3}\d{2,4}[A-Z]?|\d{4}")
# Functions that take the name of a package, and say whether it is installed.
_PACKAGES = frozenset(("find_spec", "is_package_available", "package_available"))
_VERSION = "a version"  # some text
_LONGEST = 100  # of a condition in a message


@dataclass(frozen=True, slots=True, eq=False)
class DeviceName:
    """What `torch.cuda.get_device_name()` says: more than suites.yml, but not another model."""

    gpu: str

    def __contains__(self, part: str) -> bool:
        """Raises LookupError where the declared name does not decide."""
        if part.lower() in self.gpu.lower():
            return True
        if not (_MODEL.fullmatch(part.upper()) and _MODEL.search(self.gpu.upper())):
            raise LookupError(part)
        return False

    def __eq__(self, other: object) -> bool:
        """Raises LookupError for a name that says more than the declared one."""
        if not isinstance(other, str) or self.gpu.lower() not in other.lower():
            return False
        if self.gpu.lower() == other.lower():
            return True
        raise LookupError(other)

    def __hash__(self) -> int:
        return hash(self.gpu.lower())

    def lower(self) -> DeviceName:
        """In either case the same: parts are compared without it."""
        return self

    upper = lower


@dataclass(frozen=True, slots=True)
class Machine:
    """A runner of one backend, as far as suites.yml says; `conditions` are the tree's own."""

    backend: Backend
    runner: Runner | None
    conditions: Mapping[str, str]

    def skips(self, condition: ast.expr) -> bool:
        """Whether it is known that a condition holds here."""
        value = evaluate(condition, self._lookup)
        return value is not UNKNOWN and bool(value)

    def __str__(self) -> str:
        name = self.runner.name if self.runner else self.backend.value
        known = self.runner.compute_capability if self.runner else None
        return f"{name} ({known})" if known else name

    @property
    def facts(self) -> dict[str, Any]:
        """What conditions in suites.yml may ask, by name."""
        runner, gpu_backend = self.runner, self.backend is not Backend.CPU
        gpus = runner.gpus if runner and (runner.gpus or not gpu_backend) else UNKNOWN
        capability: Any = None if self.backend in _NO_CUDA or gpus == 0 else UNKNOWN
        if runner and runner.compute_capability and self.backend is Backend.CUDA:
            major, _, minor = runner.compute_capability.partition(".")
            capability = (int(major), int(minor))
        name = DeviceName(runner.gpu) if runner and runner.gpu else UNKNOWN
        return {
            "backend": self.backend.value,
            "gpus": gpus,
            "gpu": name,
            "compute_capability": capability,
            "memory_gb": UNKNOWN if runner is None else runner.memory_gb or UNKNOWN,
        }

    def _lookup(self, name: str, arguments: list[Any] | None) -> Any:
        torch, last = _TORCH.get(name), name.rpartition(".")[2]
        if torch is not None:
            called, ask = torch
            return ask(self.backend, self.facts) if called is (arguments is not None) else UNKNOWN
        if last.lstrip("_") in _PACKAGES and arguments and isinstance(arguments[0], str):
            there = self._declared(arguments[0].partition(".")[0])
            return there if there is UNKNOWN else bool(there) or None
        return self._declared(last)

    def _declared(self, name: str) -> Any:
        """What `conditions` says of a function or a package of this name."""
        if name not in self.conditions:
            return UNKNOWN
        return evaluate(ast.parse(self.conditions[name], mode="eval").body, self._fact)

    def _fact(self, name: str, _arguments: list[Any] | None) -> Any:
        return self.facts.get(name, UNKNOWN)


def _available(backend: Backend, facts: dict[str, Any]) -> Any:
    if backend in _TORCH_CUDA:
        return True
    return False if backend in _NO_CUDA or facts["gpus"] == 0 else UNKNOWN


def _count(backend: Backend, facts: dict[str, Any]) -> Any:
    return 0 if backend in _NO_CUDA else facts["gpus"]


def _capability(_backend: Backend, facts: dict[str, Any]) -> Any:
    return facts["compute_capability"] or UNKNOWN  # without a device, asking raises


def _major(backend: Backend, facts: dict[str, Any]) -> Any:
    known = _capability(backend, facts)
    return known if known is UNKNOWN else known[0]


def _minor(backend: Backend, facts: dict[str, Any]) -> Any:
    known = _capability(backend, facts)
    return known if known is UNKNOWN else known[1]


def _name(_backend: Backend, facts: dict[str, Any]) -> Any:
    return facts["gpu"]


def _hip(backend: Backend, _facts: dict[str, Any]) -> Any:
    return {Backend.AMD: _VERSION, Backend.CPU: UNKNOWN}.get(backend)


def _cuda(backend: Backend, _facts: dict[str, Any]) -> Any:
    return {Backend.AMD: None}.get(backend, UNKNOWN)


def _xpu(backend: Backend, _facts: dict[str, Any]) -> Any:
    return backend is Backend.XPU


def _npu(backend: Backend, _facts: dict[str, Any]) -> Any:
    return backend is Backend.NPU


# What PyTorch says: whether it is called, and the answer.
_TORCH: Mapping[str, tuple[bool, Any]] = {
    "torch.cuda.is_available": (True, _available),
    "torch.cuda.device_count": (True, _count),
    "torch.cuda.get_device_capability": (True, _capability),
    "torch.cuda.get_device_properties().major": (False, _major),
    "torch.cuda.get_device_properties().minor": (False, _minor),
    "torch.cuda.get_device_properties().name": (False, _name),
    "torch.cuda.get_device_name": (True, _name),
    "torch.version.hip": (False, _hip),
    "torch.version.cuda": (False, _cuda),
    "torch.xpu.is_available": (True, _xpu),
    "torch.npu.is_available": (True, _npu),
}


def no_runner_meets(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each file, class or test that is skipped on every runner of the file."""
    gates = [gate for gate in file.gates if gate.condition != "True"]
    machines = _machines(file, tree) if gates else []
    if not machines or len(gates) < len(file.gates):
        return  # without a runner, or skipped on all machines: RT312
    blocked: set[str] = set()
    parsed = [ast.parse(gate.condition, mode="eval").body for gate in gates]
    for test in sorted({gate.test: gate for gate in gates}.values(), key=_depth):
        if "" in blocked or blocked & {test.within, test.test}:
            continue
        around = {"", test.within, test.test}
        asked = [(g, c) for g, c in zip(gates, parsed, strict=True) if g.test in around]
        why = [next((g for g, c in asked if m.skips(c)), None) for m in machines]
        if all(why):
            blocked.add(test.test)
            yield _finding(file, test, [g for g in why if g], machines, tree.taxonomy.path)


def _depth(gate: Gate) -> tuple[int, Gate]:
    return (bool(gate.test) + bool(gate.within), gate)


def _finding(
    file: TestFile, test: Gate, why: Sequence[Gate], machines: Sequence[Machine], path: str
) -> Finding:
    what = test.test or "the whole file"
    gate = why[-1]
    # Names written out, where that is no longer; the line itself is shown, too.
    known = gate.condition if len(gate.condition) <= _LONGEST else gate.written
    written = known if len(known) <= _LONGEST else known[: _LONGEST - 3] + "..."
    where = ", ".join(dict.fromkeys(map(str, machines)))
    return Finding(
        file.path,
        gate.span,
        "RT313",
        f"{what} is skipped on every runner of the file's suites ({where}): `{written}`",
        f"{'Register the file for' if file.calls else 'Give the file to a suite of'} a runner that "
        f"does not skip it, correct the condition, or say in {path} what the runner has.",
        key=test.test,
    )


def _machines(file: TestFile, tree: Tree) -> list[Machine]:
    """What the enabled registrations of a file run on; each once."""
    taxonomy = tree.taxonomy
    found: list[Machine] = []
    for registration in tree.of(file):
        suite = taxonomy.suite(registration.backend, registration.effective_suite)
        runner = taxonomy.runners.get(suite.runner) if suite and suite.runner else None
        machine = Machine(registration.backend, runner, taxonomy.conditions)
        if registration.enabled and machine not in found:
            found.append(machine)
    return found


_REGISTERED = (
    "import unittest\n\nimport torch\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=60, stage="base-b", runner_config="{}")\n\n\n'
    '@unittest.skipUnless(torch.cuda.device_count() >= 2, "needs two GPUs")\n'
    "class TestSplit(unittest.TestCase):\n"
    "    def test_it(self):\n        self.assertGreater(torch.cuda.device_count(), 1)\n\n\n"
    'if __name__ == "__main__":\n    unittest.main()\n'
)

NO_RUNNER_MEETS = FileRule(
    id="RT313",
    name="no-runner-meets",
    summary="A test, class or file is skipped on every runner that it is registered for.",
    reason="It runs nowhere, and every run is green. (Conditions are evaluated with what "
    "suites.yml says of each runner: `gpus`, `gpu`, `compute_capability`, the backend; functions "
    "of the repository, and packages that may be missing, by their names in `conditions` there. "
    "Where what decides is unknown, nothing is said.)",
    bad=_REGISTERED.format("1-gpu-large"),
    good=_REGISTERED.format("2-gpu-large"),
    check=no_runner_meets,
)

RULES = (NO_RUNNER_MEETS,)
