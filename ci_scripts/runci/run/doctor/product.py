"""A matrix product with a known answer on one GPU: `python -I product.py UUID SECONDS`.

Through the CUDA driver alone, by ctypes; the driver compiles the PTX below for whatever GPU it is.
A process of its own, since a sick GPU may hang or crash who asks it. It prints one JSON object:
`{"rounds", "wrong"}`, or `{"skipped"}` (why the driver cannot be had) or `{"error"}`.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import sys
import time
from typing import Any

SIZE = 512  # rows and columns of the product
INNER = 509  # columns of A; odd, so that every bit of the answer takes part
_LAUNCHES = 50  # between two waits for the GPU
_MASK = 0xFFFFFFFF
# A[i, k] = P·i + Q·k and B[k, j] = R·k + S·j, modulo 2³²: every bit is used, and what each element
# of A·B must be is a formula.
P, Q, R, S = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F

PTX = """\
.version 6.0
.target sm_50
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c)
{
  .reg .pred more;
  .reg .b32 i, j, k, x, y, sum, place, size;
  .reg .b64 left, right, out, offset;
  ld.param.u64 left, [a];
  ld.param.u64 right, [b];
  ld.param.u64 out, [c];
  mov.u32 x, %ctaid.x;
  mov.u32 y, %tid.x;
  mov.u32 size, %ntid.x;
  mad.lo.u32 j, x, size, y;
  mov.u32 i, %ctaid.y;
  mad.lo.u32 place, i, SIZE, j;
  mul.wide.u32 offset, place, 4;
  add.u64 out, out, offset;
  mul.wide.u32 offset, i, LEFT;
  add.u64 left, left, offset;
  mul.wide.u32 offset, j, 4;
  add.u64 right, right, offset;
  mov.u32 sum, 0;
  mov.u32 k, 0;
next:
  ld.global.u32 x, [left];
  ld.global.u32 y, [right];
  mad.lo.u32 sum, x, y, sum;
  add.u64 left, left, 4;
  add.u64 right, right, RIGHT;
  add.u32 k, k, 1;
  setp.lt.u32 more, k, INNER;
  @more bra next;
  st.global.u32 [out], sum;
  ret;
}
"""
for _name, _value in {"SIZE": SIZE, "INNER": INNER, "LEFT": 4 * INNER, "RIGHT": 4 * SIZE}.items():
    PTX = PTX.replace(_name, str(_value))


def factors() -> tuple[bytes, bytes]:
    """A and B, row by row, 32 bits an element."""
    a = ((P * i + Q * k) & _MASK for i in range(SIZE) for k in range(INNER))
    b = ((R * k + S * j) & _MASK for k in range(INNER) for j in range(SIZE))
    return array.array("I", a).tobytes(), array.array("I", b).tobytes()


def answer() -> bytes:
    """A·B modulo 2³² by the formula; in row i it grows by the same step from column to column."""
    ones, squares = sum(range(INNER)), sum(k * k for k in range(INNER))
    found = array.array("I")
    for i in range(SIZE):
        first = P * R * i * ones + Q * R * squares
        step = P * S * i * INNER + Q * S * ones
        found.extend([(first + step * j) & _MASK for j in range(SIZE)])
    return found.tobytes()


def differing(found: bytes, wanted: bytes) -> int:
    """How many elements are wrong."""
    if found == wanted:
        return 0
    pairs = zip(array.array("I", found), array.array("I", wanted), strict=True)
    return sum(one != other for one, other in pairs)


class CudaError(Exception):
    """What the driver answered, by the name of the call."""


class _Driver:
    """Calls of libcuda; raises CudaError where one fails."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            said = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(said))
            raise CudaError(f"{name}: {(said.value or b'unknown error').decode()} ({code})")


def multiply(library: ctypes.CDLL, seconds: float) -> dict[str, Any]:
    """Multiply again and again for so long on the first GPU that the driver shows."""
    cuda = _Driver(library)
    device, context, module, function = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    cuda("cuModuleLoadData", ctypes.byref(module), PTX.encode())
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"product")
    places = [ctypes.c_uint64() for _ in range(3)]
    for place in places:
        cuda("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(4 * SIZE * SIZE))
    for place, data in zip(places, factors(), strict=False):
        cuda("cuMemcpyHtoD_v2", place, data, ctypes.c_size_t(len(data)))
    given = (ctypes.c_void_p * 3)(*(ctypes.addressof(place) for place in places))
    wanted, found = answer(), ctypes.create_string_buffer(4 * SIZE * SIZE)
    rounds = wrong = 0
    end = time.monotonic() + seconds
    while not rounds or (time.monotonic() < end and not wrong):
        cuda("cuMemsetD32_v2", places[2], 0, ctypes.c_size_t(SIZE * SIZE))
        for _ in range(_LAUNCHES):
            shape = (SIZE // 128, SIZE, 1, 128, 1, 1)
            cuda("cuLaunchKernel", function, *shape, 0, None, given, None)
        cuda("cuCtxSynchronize")
        cuda("cuMemcpyDtoH_v2", found, places[2], ctypes.c_size_t(len(wanted)))
        rounds, wrong = rounds + 1, wrong + differing(found.raw, wanted)
    return {"rounds": rounds, "wrong": wrong}


def main(uuid: str, seconds: str) -> None:
    """Print what came of it."""
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        found: dict[str, Any] = {"skipped": str(error)}
    else:
        try:
            found = multiply(library, float(seconds))
        except CudaError as error:
            found = {"error": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # the process's end frees the GPU; a library's handlers could hang
