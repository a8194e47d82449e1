"""The matrix product with a known answer, with the driver's calls played by this process."""

from __future__ import annotations

import array
import ctypes
import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.run.doctor import product
from runci.run.doctor.product import INNER, SIZE, CudaError, answer, differing, factors, multiply

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

ANSWER = answer()


def elements(data: bytes) -> array.array[int]:
    return array.array("I", data)


def test_the_answer_is_the_product() -> None:
    a, b = map(elements, factors())
    found = elements(ANSWER)
    seeded = random.Random(3)
    corners = [(0, 0), (0, SIZE - 1), (SIZE - 1, 0), (SIZE - 1, SIZE - 1)]
    inner = [(seeded.randrange(SIZE), seeded.randrange(SIZE)) for _ in range(200)]
    for i, j in corners + inner:
        whole = sum(a[i * INNER + k] * b[k * SIZE + j] for k in range(INNER))
        assert found[i * SIZE + j] == whole % 2**32
    assert len(set(found)) > 0.9 * SIZE * SIZE  # a place that was not written is not right
    for bit in range(32):
        assert {value >> bit & 1 for value in found[SIZE : 2 * SIZE]} == {0, 1}


class Played:
    """libcuda for one GPU that multiplies as `compute` says (None: it writes nothing).

    A call named `fails` answers 700.
    """

    def __init__(self, compute: Callable[[int], bytes | None], fails: str = "") -> None:
        self._compute, self._fails = compute, fails
        self._memory: dict[int, bytes] = {}
        self.launches = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *arguments: 700 if name == self._fails else self._call(name, arguments)

    def _call(self, name: str, given: tuple[Any, ...]) -> int:
        if name == "cuGetErrorString":
            given[1]._obj.value = b"an illegal memory access was encountered"
        elif name == "cuMemAlloc_v2":
            given[0]._obj.value = 4096 * (len(self._memory) + 1)
            self._memory[given[0]._obj.value] = b""
        elif name == "cuMemcpyHtoD_v2":
            self._memory[given[0].value] = given[1]
        elif name == "cuMemsetD32_v2":
            self._memory[given[0].value] = bytes(4 * given[2].value)
        elif name == "cuMemcpyDtoH_v2":
            ctypes.memmove(given[0], self._memory[given[1].value], given[2].value)
        elif name == "cuLaunchKernel":
            self._launch(given[1:7], given[9])
        return 0

    def _launch(self, shape: tuple[int, ...], pointers: Any) -> None:
        places = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        assert [self._memory[place] for place in places[:2]] == list(factors_once())
        assert (shape[0] * shape[3], shape[1] * shape[4], shape[2], shape[5]) == (SIZE, SIZE, 1, 1)
        computed = self._compute(self.launches)
        if computed is not None:
            self._memory[places[2]] = computed
        self.launches += 1


FACTORS: list[tuple[bytes, bytes]] = []


def factors_once() -> tuple[bytes, bytes]:
    if not FACTORS:
        FACTORS.append(factors())
    return FACTORS[0]


def flipped(place: int) -> bytes:
    found = bytearray(ANSWER)
    found[place] ^= 0x40
    return bytes(found)


def test_a_sound_gpu_computes_until_the_time_is_over() -> None:
    library = Played(lambda _: ANSWER)
    found = multiply(library, 0.2)  # type: ignore[arg-type]
    assert found["wrong"] == 0 < found["rounds"]
    assert library.launches > found["rounds"]
    assert multiply(Played(lambda _: ANSWER), 0) == {"rounds": 1, "wrong": 0}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compute", "wrong"),
    [
        (lambda _: flipped(0), 1),
        (lambda _: flipped(4 * SIZE * SIZE - 1), 1),
        (lambda _: bytes(4 * SIZE * SIZE), differing(bytes(4 * SIZE * SIZE), ANSWER)),
        (lambda launch: flipped(99) if launch > 120 else ANSWER, 1),  # only once it is warm
        (
            lambda launch: None if launch >= 50 else ANSWER,
            differing(bytes(4 * SIZE * SIZE), ANSWER),
        ),
    ],
)
def test_one_wrong_bit_is_seen_and_ends_it(
    compute: Callable[[int], bytes | None], wrong: int
) -> None:
    found = multiply(Played(compute), 30)  # type: ignore[arg-type]
    assert found["wrong"] == wrong > 0


@pytest.mark.parametrize(
    "call", ["cuInit", "cuModuleLoadData", "cuMemAlloc_v2", "cuLaunchKernel", "cuCtxSynchronize"]
)
def test_a_call_that_fails_is_named(call: str) -> None:
    with pytest.raises(CudaError, match=rf"^{call}: an illegal memory access .*\(700\)$"):
        multiply(Played(lambda _: ANSWER, call), 0)  # type: ignore[arg-type]


def test_without_a_driver_it_is_skipped() -> None:
    """As a process, as the doctor starts it; with a driver it must be right."""
    command = [sys.executable, "-I", product.__file__, "GPU-none", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said.keys() in ({"skipped"}, {"error"})
    if "skipped" in said:
        assert "libcuda.so.1" in said["skipped"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
