"""Which devices the environment leaves of each backend, and what a job of some of them gets."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.core.devices import EVERY, VARIABLES, Devices, devices
from runci.core.registration import Backend

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

AMD, ROCR, HIP = Backend.AMD, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
CUDA, XPU = "CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"


@pytest.mark.parametrize(
    ("backend", "environment", "expected"),
    [
        (AMD, {}, (HIP, "0 1", "0 1", False)),
        (AMD, {HIP: "1"}, (HIP, "1", "1", True)),
        (AMD, {CUDA: "1, 0"}, (CUDA, "1 0", "1 0", True)),
        (AMD, {HIP: "1", CUDA: "0"}, (HIP, "1", "1", True)),
        (AMD, {ROCR: "3,2"}, (ROCR, "3 2", "3 2", True)),
        (AMD, {ROCR: "3,2", HIP: "1"}, (HIP, "1", "2", True)),
        (AMD, {ROCR: "3,2", HIP: "0,2,1"}, (HIP, "0", "3", True)),  # there is no third
        (AMD, {ROCR: "GPU-AB,2", CUDA: "0"}, (CUDA, "0", "GPU-AB", True)),
        (AMD, {ROCR: "", HIP: "0"}, (HIP, "", "", True)),
        (AMD, {HIP: "0,0,1"}, (HIP, "0", "0", True)),
        (AMD, {HIP: "0,,1"}, (HIP, "0", "0", True)),
        (AMD, {HIP: ""}, (HIP, "", "", True)),
        # What hides them all, or all after it.
        (AMD, {HIP: "-1"}, (HIP, "", "", True)),
        (AMD, {HIP: "0,-1,1"}, (HIP, "0", "0", True)),
        (AMD, {ROCR: "-1"}, (ROCR, "", "", True)),
        (AMD, {ROCR: "3,2", HIP: "-1"}, (HIP, "", "", True)),
        (Backend.PPU, {CUDA: "-1"}, (CUDA, "", "", True)),
        # One device by another spelling is not another one.
        (AMD, {HIP: "02,3"}, (HIP, "02 3", "2 3", True)),
        (AMD, {HIP: "2,02,3"}, (HIP, "2", "2", True)),
        (AMD, {XPU: "5"}, (HIP, "0 1", "0 1", False)),
        (Backend.XPU, {XPU: "0.1,1"}, (XPU, "0.1 1", "0.1 1", True)),
        (Backend.PPU, {CUDA: "7"}, (CUDA, "7", "7", True)),
        (Backend.MPS, {CUDA: "7"}, ("", "0 1", "0 1", False)),
    ],
)
def test_devices(
    backend: Backend, environment: dict[str, str], expected: tuple[str, str, str, bool]
) -> None:
    variable, entries, places, given = expected
    wanted = Devices(variable, tuple(entries.split()), tuple(places.split()), given)
    assert devices(backend, environment, 2) == wanted


def test_every_backend_with_devices_has_a_variable_or_is_known_to_have_none() -> None:
    without = {Backend.CPU, Backend.MPS, Backend.MLX}
    assert set(VARIABLES) == set(Backend) - without
    assert {HIP, ROCR, CUDA, XPU} < EVERY


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
