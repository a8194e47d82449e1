"""Load a cubin and launch from it through the CUDA driver; standard library only.

Triton's own launcher differs between releases and needs a C compiler on the machine; the driver's
interface does neither. Source: CUDA Driver API reference, "Module Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
import struct
import threading
from functools import cache

INVALID_CONTEXT = 201
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
_DEFAULT_SHARED_BYTES = 48 * 1024


class DriverError(RuntimeError):
    """A call of the CUDA driver failed; the message names the call and the driver's reason."""


@cache
def driver() -> ctypes.CDLL:
    """The CUDA driver library, initialized; raises OSError or DriverError without one."""
    cuda = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p
    cuda.cuLaunchKernelEx.argtypes = [handle] * 4
    check(cuda, "cuInit", cuda.cuInit(0))
    return cuda


def check(cuda: ctypes.CDLL, call: str, code: int) -> None:
    """Raise DriverError unless `code` is success."""
    if code:
        reason = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(reason))
        text = (reason.value or b"unknown error").decode()
        raise DriverError(f"{call}: {text} (CUDA error {code})")


class _Launch(threading.local):
    """One thread's CUlaunchConfig and kernel parameters, prepared so that a launch only fills them.

    Writing five words and passing two addresses costs a third of converting eleven arguments.
    """

    GRID, STREAM, X, W, Y, ROWS, SCRATCH = 0, 4, 7, 8, 9, 10, 11  # places in `words`

    def __init__(self, grid: int, threads: int, shared: int) -> None:
        self._memory = (ctypes.c_uint64 * 18)()
        self.words = memoryview(self._memory).cast("B").cast("Q")
        self.config = ctypes.addressof(self._memory)
        # gridDim, blockDim, sharedMemBytes, hStream, attrs, numAttrs
        config = struct.pack("=7I4xQQI4x", grid, 1, 1, threads, 1, 1, shared, 0, 0, 0)
        ctypes.memmove(self.config, config, len(config))
        self.parameters = self.config + 8 * 12
        # x, w, y, rows, then Triton's global and profile scratch, which this kernel has none of.
        parameters = (self.X, self.W, self.Y, self.ROWS, self.SCRATCH, self.SCRATCH)
        for place, word in enumerate(parameters):
            self.words[12 + place] = self.config + 8 * word


class Function:
    """A kernel loaded in one device's primary context; its module is never unloaded.

    A CUDA graph may outlive every Python object, so nothing here frees the machine code.
    `grid` programs for each eight tokens, `threads` a program, `shared` bytes of dynamic shared
    memory a program.
    """

    def __init__(self, context: int, handle: int, grid: int, threads: int, shared: int) -> None:
        self.context, self.handle = context, handle
        self.grid, self.threads, self.shared = grid, threads, shared
        self._launch = _Launch(grid, threads, shared)
        self._queue = driver().cuLaunchKernelEx

    def launch(self, x: int, w: int, y: int, rows: int, stream: int) -> None:
        """Queue the kernel on `stream` of this device; addresses are device pointers.

        The device's context must be current, or the thread have none yet. Raises DriverError.
        """
        launch = self._launch
        words = launch.words
        words[launch.GRID] = self.grid | (rows + 7 >> 3) << 32  # gridDim.x, gridDim.y
        words[launch.STREAM] = stream
        words[launch.X], words[launch.W], words[launch.Y] = x, w, y
        words[launch.ROWS] = rows
        code = self._queue(launch.config, self.handle, launch.parameters, None)
        if code == INVALID_CONTEXT:
            # A thread that has made no CUDA call yet has no context.
            cuda = driver()
            check(cuda, "cuCtxSetCurrent", cuda.cuCtxSetCurrent(ctypes.c_void_p(self.context)))
            code = self._queue(launch.config, self.handle, launch.parameters, None)
        if code:
            check(driver(), "cuLaunchKernelEx", code)


def load_function(
    cubin: bytes, name: str, device_index: int, grid: int, threads: int, shared: int
) -> Function:
    """Load `cubin` in the primary context of CUDA device `device_index`; launches nothing.

    `grid`, `threads` and `shared` as in Function. The caller's current device stays as it was.
    Raises DriverError.
    """
    cuda = driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda, "cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), device_index))
    code = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    check(cuda, "cuDevicePrimaryCtxRetain", code)
    check(cuda, "cuCtxPushCurrent", cuda.cuCtxPushCurrent_v2(context))
    try:
        code = cuda.cuModuleLoadData(ctypes.byref(module), cubin)
        check(cuda, "cuModuleLoadData", code)
        code = cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        check(cuda, "cuModuleGetFunction", code)
        if shared > _DEFAULT_SHARED_BYTES:
            code = cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            check(cuda, "cuFuncSetAttribute", code)
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    if not (context.value and module.value and function.value):
        raise DriverError("the driver returned an empty handle")
    return Function(context.value, function.value, grid, threads, shared)
