"""Test registration for GPU kernel repositories.

A test file says where it runs with one call a backend, at top level::

    from runci import register_cuda_ci

    register_cuda_ci(est_time=20, stage="base-b-kernel-unit", runner_config="1-gpu-small")

The calls do nothing when the file runs: `runci` reads them from the syntax tree. Importing this
package imports the standard library only.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = [
    "register_amd_ci",
    "register_cpu_ci",
    "register_cuda_ci",
    "register_mlx_ci",
    "register_mps_ci",
    "register_musa_ci",
    "register_npu_ci",
    "register_ppu_ci",
    "register_xpu_ci",
]


def register_cpu_ci(
    est_time: float,
    suite: str | None = None,
    nightly: bool = False,
    disabled: str | None = None,
    *,
    stage: str | None = None,
    runner_config: str | None = None,
    in_process_group: str | None = None,
) -> None:
    """Register this file in one CI suite; a no-op, read from the syntax tree.

    `est_time` is in seconds. Name the suite either as `stage` and `runner_config` or, for suites
    outside that scheme, as `suite`. `disabled` takes the reason and an issue. Files that share an
    `in_process_group` run in one process.
    """


# One signature for all: the name alone says the backend.
register_cuda_ci = register_cpu_ci
register_amd_ci = register_cpu_ci
register_npu_ci = register_cpu_ci
register_xpu_ci = register_cpu_ci
register_musa_ci = register_cpu_ci
register_mlx_ci = register_cpu_ci
register_mps_ci = register_cpu_ci
register_ppu_ci = register_cpu_ci
