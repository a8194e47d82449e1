"""The taxonomy and the workflows of a generated tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

RUN_SUITE = ".github/workflows/_run-suite.yml"
EMPTY_SUITE = "stress-empty"  # declared, and no test registers in it


@dataclass(frozen=True)
class Group:
    """Suites of one backend that registrations name in the same way."""

    backend: str
    stage: str
    configs: tuple[str, ...]
    kind: str = "per-commit"
    timeout: int = 60

    @property
    def legacy(self) -> bool:
        """Whether registrations name the whole suite, by `suite=`."""
        return not self.stage

    def calls(self) -> Iterator[str]:
        """How registrations name each suite."""
        for config in self.configs:
            nightly = ", nightly=True" if self.kind == "nightly" else ""
            pair = f'stage="{self.stage}", runner_config="{config}"'
            yield (f'suite="{config}"' if self.legacy else pair) + nightly

    def suites(self) -> list[str]:
        return [c if self.legacy else f"{self.stage}-test-{c}" for c in self.configs]


UNIT = Group("cpu", "base-a", ("cpu",), timeout=15)
KERNEL = Group("cuda", "base-b-kernel-unit", ("1-gpu-small", "1-gpu-large", "4-gpu"), timeout=30)
BENCH = Group("cuda", "base-b-kernel-benchmark", ("1-gpu-large",), timeout=45)
CUDA = Group("cuda", "base-b", ("1-gpu-small", "1-gpu-large", "2-gpu-large"))
LARGE = Group("cuda", "base-c", ("4-gpu", "8-gpu"))
EXTRA = Group("cuda", "extra-a", ("1-gpu-small", "2-gpu-large"), "extra")
NIGHTLY = Group(
    "cuda", "", ("nightly-1-gpu", "nightly-kernel-1-gpu", "nightly-8-gpu"), "nightly", 200
)
AMD = Group("amd", "", tuple(f"stage-b-test-{n}-gpu-amd" for n in (1, 2, 8)))
AMD_NIGHTLY = Group("amd", "", ("nightly-amd-1-gpu", "nightly-amd-8-gpu"), "nightly", 120)
NPU = Group("npu", "", tuple(f"stage-b-test-{n}-npu" for n in (1, 4, 16)))
NPU_NIGHTLY = Group("npu", "", ("nightly-1-npu", "nightly-16-npu"), "nightly", 240)
XPU = Group("xpu", "", ("stage-b-test-1-gpu-xpu",))
MLX = Group("mlx", "", ("stage-a-unit-test-mlx",))
GROUPS = (
    *(UNIT, KERNEL, BENCH, CUDA, LARGE, EXTRA, NIGHTLY),
    *(AMD, AMD_NIGHTLY, NPU, NPU_NIGHTLY, XPU, MLX),
)

_CONFIGS = ("cpu", "1-gpu-small", "1-gpu-large", "2-gpu-large", "4-gpu", "8-gpu")
_HEAD = """\
version: 1
roots: [test/registered]
marker_modules: [runci]
runners:
"""
_FOLDERS = """\
taxonomy:
  - folder: test/registered/unit/**
    allow: {cpu: ["*"], mlx: ["*"]}
    because: Unit tests need no GPU.
  - folder: test/registered/kernel/**
    allow:
      cpu: ["*"]
      cuda: ["base-b-kernel-*", "nightly-kernel-*"]
      amd: ["*"]
      npu: ["*"]
      xpu: ["*"]
    because: Kernel tests have jobs of their own.
"""


def suites_yml() -> str:
    """The taxonomy; one weekly suite is run by nobody, and one stress suite has no test."""
    lines = [_HEAD]
    for config in _CONFIGS:
        execution = "pytest" if config == "cpu" else "script"
        lines.append(f"  {config}: {{label: {config}, execution: {execution}}}\n")
    lines.append("suites:\n")
    for backend in dict.fromkeys(group.backend for group in GROUPS):
        lines.append(f"  {backend}:\n")
        lines += [_declared(group) for group in GROUPS if group.backend == backend]
        if backend == "cuda":
            lines.append("    - {name: weekly-orphan, kind: weekly}\n")
            lines.append(f"    - {{name: {EMPTY_SUITE}, kind: stress}}\n")
    return "".join([*lines, _FOLDERS])


def _declared(group: Group) -> str:
    names = ", ".join(group.configs)
    what = f"name: [{names}]" if group.legacy else f"stage: {group.stage}"
    pairs = "" if group.legacy else f", runner_configs: [{names}], pair_required: true"
    return f"    - {{{what}, kind: {group.kind}, timeout_minutes: {group.timeout}{pairs}}}\n"


_CALLED = """\
on:
  workflow_call:
    inputs:
      hw: {required: true, type: string}
      suite: {required: true, type: string}
jobs:
  run:
    runs-on: ${{ inputs.hw }}
    steps:
      - uses: actions/checkout@v5
      - run: python -m pip install .
      - run: runci run --hw ${{ inputs.hw }} --suite ${{ inputs.suite }}
"""
_CALLER = """\
on: [{event}]
jobs:
  test:
    strategy:
      fail-fast: false
      matrix:
        suite:
{suites}
    uses: ./{called}
    with:
      hw: {hw}
      suite: ${{{{ matrix.suite }}}}
"""
_UNRELATED = """\
on: [push]
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
"""


def workflows(empty: bool) -> dict[str, str]:
    """Workflow files by path. `empty`: also run the suite that has no test."""
    files = {RUN_SUITE: _CALLED}
    for number, group in enumerate(GROUPS):
        suites = group.suites() + [EMPTY_SUITE] * (empty and group is NIGHTLY)
        listed = "\n".join(f"          - {name}" for name in suites)
        event = "schedule" if group.kind == "nightly" else "pull_request"
        name = f".github/workflows/{event}-{group.backend}-{number}.yml"
        files[name] = _CALLER.format(event=event, suites=listed, called=RUN_SUITE, hw=group.backend)
    for number in range(100 - len(files)):
        steps = "".join(f"      - run: make part-{i} JOBS=2\n" for i in range(80))
        files[f".github/workflows/build-{number:02}.yml"] = _UNRELATED + steps
    return files
