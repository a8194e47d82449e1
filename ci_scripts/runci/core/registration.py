"""What a registration is: backends, the marker signature, the value that later stages read."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from runci.core.source import Span


class Backend(str, enum.Enum):
    """Hardware that a marker registers for; the value stands in `register_<value>_ci`."""

    CPU = "cpu"
    CUDA = "cuda"
    AMD = "amd"
    NPU = "npu"
    XPU = "xpu"
    MUSA = "musa"
    MLX = "mlx"
    MPS = "mps"
    PPU = "ppu"

    @property
    def marker(self) -> str:
        """The function that registers for this backend."""
        return f"register_{self.value}_ci"


MARKERS: dict[str, Backend] = {backend.marker: backend for backend in Backend}

POSITIONAL = ("est_time", "suite", "nightly", "disabled")
KEYWORD_ONLY = ("stage", "runner_config", "in_process_group")
PARAMETERS = POSITIONAL + KEYWORD_ONLY


@dataclass(frozen=True, slots=True)
class Registration:
    """One valid `register_<backend>_ci(...)` call, or what `tests` of suites.yml says of a file.

    `est_time` is in seconds, or None where none is stated that can be used. `span` covers the
    call. `declared` is the line of suites.yml in place of a call, else 0; `only` is then what the
    suite takes of the file, as `Class::test` or `@MARKS`, empty for all of it.
    """

    backend: Backend
    est_time: float | None
    suite: str | None
    stage: str | None
    runner_config: str | None
    nightly: bool
    disabled: str | None
    in_process_group: str | None
    span: Span
    declared: int = 0
    only: tuple[str, ...] = ()

    @property
    def effective_suite(self) -> str:
        """`{stage}-test-{runner_config}`, or the legacy single name."""
        if self.stage is not None and self.runner_config is not None:
            return pair_suite(self.stage, self.runner_config)
        return self.suite or ""

    @property
    def enabled(self) -> bool:
        """Whether the runner may start it."""
        return self.disabled is None


def output_name(backend: Backend | str, suite: str) -> str:
    """What an output of GitHub is called that says something of a suite."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"{Backend(backend).value}_{suite}")


def pair_suite(stage: str, runner_config: str) -> str:
    """The suite that a stage and a runner configuration name together."""
    return f"{stage}-test-{runner_config}"
