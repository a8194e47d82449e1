"""Load a cubin and launch from it through the CUDA driver; standard library only.

Triton's own launcher differs between releases and needs a C compiler on the machine; the driver's
interface does neither. Source: CUDA Driver API reference, "Module Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field
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
    cuda.cuLaunchKernel.argtypes = [handle, *[ctypes.c_uint] * 7, handle, handle, handle]
    check(cuda, "cuInit", cuda.cuInit(0))
    return cuda


def check(cuda: ctypes.CDLL, call: str, code: int) -> None:
    """Raise DriverError unless `code` is success."""
    if code:
        reason = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(reason))
        text = (reason.value or b"unknown error").decode()
        raise DriverError(f"{call}: {text} (CUDA error {code})")


class _Arguments(threading.local):
    """One launch's parameters (x, w, y, rows, two unused scratch pointers), one set a thread."""

    def __init__(self) -> None:
        self.x = ctypes.c_uint64()
        self.w = ctypes.c_uint64()
        self.y = ctypes.c_uint64()
        self.rows = ctypes.c_int32()
        self.scratch = ctypes.c_uint64(0)
        values = (self.x, self.w, self.y, self.rows, self.scratch, self.scratch)
        self.array = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self.address = ctypes.addressof(self.array)


@dataclass(frozen=True)
class Function:
    """A kernel loaded in one device's primary context; its module is never unloaded.

    A CUDA graph may outlive every Python object, so nothing here frees the machine code.
    """

    context: int
    module: int
    handle: int
    grid: int
    threads: int
    shared: int
    _arguments: _Arguments = field(default_factory=_Arguments, repr=False, compare=False)

    def launch(self, x: int, w: int, y: int, rows: int, stream: int) -> None:
        """Queue the kernel on `stream` of this device; addresses are device pointers."""
        args = self._arguments
        args.x.value, args.w.value, args.y.value, args.rows.value = x, w, y, rows
        code = self._queue(args, stream)
        if code == INVALID_CONTEXT:
            # A thread that has made no CUDA call yet has no context.
            cuda = driver()
            check(cuda, "cuCtxSetCurrent", cuda.cuCtxSetCurrent(ctypes.c_void_p(self.context)))
            code = self._queue(args, stream)
        if code:
            check(driver(), "cuLaunchKernel", code)

    def _queue(self, args: _Arguments, stream: int) -> int:
        return driver().cuLaunchKernel(  # type: ignore[no-any-return]
            self.handle,
            self.grid,
            1,
            1,
            self.threads,
            1,
            1,
            self.shared,
            stream,
            args.address,
            None,
        )


def load_function(
    cubin: bytes, name: str, device_index: int, grid: int, threads: int, shared: int
) -> Function:
    """Load `cubin` in the primary context of CUDA device `device_index`; launches nothing.

    `threads` a block; `shared` bytes of dynamic shared memory a block. The caller's current device
    stays as it was. Raises DriverError.
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
    return Function(context.value, module.value, function.value, grid, threads, shared)
