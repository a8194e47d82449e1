"""y = x · wᵀ through every algorithm that cuBLASLt's heuristic offers, by ctypes on torch's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import torch

WORKSPACE_BYTES = 32 << 20
ALIGNMENT = 16  # bytes, of x, w and y: what the layers' tensors are known to have

# cublasLt.h, library_types.h and cublas_api.h
_COMPUTE_32F, _R_32F, _R_16BF, _OP_T = 68, 0, 14, 1
_TRANSA = 3
_MAX_WORKSPACE, _MIN_ALIGNMENTS = 1, (5, 6, 7, 8)
_CONFIG = {"id": 0, "tile": 1, "split-K": 2, "reduction": 3, "stages": 6}


class _Result(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace_size", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True)
class Algorithm:
    """One offer for a shape and M: what it is, and y = call(x, w)."""

    config: dict[str, int]
    call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.config.items())


class CublasLt:
    """A handle on one device, its workspace, and the offers for a product."""

    def __init__(self, index: int) -> None:
        """Raises OSError where torch's cuBLASLt cannot be found."""
        self._lib = ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.split('.')[0]}")
        self._lib.cublasLtGetVersion.restype = ctypes.c_size_t
        self.version: int = self._lib.cublasLtGetVersion()
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=f"cuda:{index}")
        with torch.cuda.device(index):
            self._handle = self._made("cublasLtCreate")

    def algorithms(self, m: int, n: int, k: int, wanted: int = 100) -> list[Algorithm]:
        """What the heuristic offers for x (m, k), w (n, k), best first by its own judgement.

        cuBLASLt is column-major: it gets yᵀ (n, m) = w (n, k) · xᵀ (k, m).
        """
        product = self._made("cublasLtMatmulDescCreate", _COMPUTE_32F, _R_32F)
        self._set("cublasLtMatmulDescSetAttribute", product, _TRANSA, ctypes.c_int(_OP_T))
        a, b, c = (
            self._made(
                "cublasLtMatrixLayoutCreate", _R_16BF, *map(ctypes.c_uint64, (rows, columns, rows))
            )
            for rows, columns in ((k, n), (k, m), (n, m))
        )
        limits = self._made("cublasLtMatmulPreferenceCreate")
        set_limit = "cublasLtMatmulPreferenceSetAttribute"
        self._set(set_limit, limits, _MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        for attribute in _MIN_ALIGNMENTS:
            self._set(set_limit, limits, attribute, ctypes.c_uint32(ALIGNMENT))
        found, count = (_Result * wanted)(), ctypes.c_int()
        operands = (self._handle, product, a, b, c, c)
        heuristic = (*operands, limits, ctypes.c_int(wanted), found, ctypes.byref(count))
        self._check("cublasLtMatmulAlgoGetHeuristic", *heuristic)
        return [
            Algorithm(self._config(offer), self._call(offer, (product, a, b, c)))
            for offer in found[: count.value]
            if offer.state == 0
        ]

    def _call(self, offer: _Result, descriptions: tuple[ctypes.c_void_p, ...]) -> Callable:
        product, a, b, c = descriptions
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = x.new_empty(len(x), len(w))
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in (w, x, y, self._workspace)]
            out = (pointers[2], c)
            self._check(
                *("cublasLtMatmul", self._handle, product, ctypes.byref(one), pointers[0], a),
                *(pointers[1], b, ctypes.byref(zero), *out, *out, ctypes.byref(offer.algo)),
                *(pointers[3], ctypes.c_size_t(WORKSPACE_BYTES)),
                ctypes.c_void_p(torch.cuda.current_stream(x.device).cuda_stream),
            )
            return y

        return linear

    def _config(self, offer: _Result) -> dict[str, int]:
        config = {}
        for name, attribute in _CONFIG.items():
            value, written = ctypes.c_uint32(), ctypes.c_size_t()
            where = (ctypes.byref(value), ctypes.c_size_t(4), ctypes.byref(written))
            get = "cublasLtMatmulAlgoConfigGetAttribute"
            self._check(get, ctypes.byref(offer.algo), attribute, *where)
            config[name] = value.value
        return config

    def _made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._check(function, ctypes.byref(made), *arguments)
        return made

    def _set(self, function: str, what: ctypes.c_void_p, attribute: int, value) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._check(function, what, attribute, ctypes.byref(value), size)

    def _check(self, function: str, *arguments: object) -> None:
        if status := getattr(self._lib, function)(*arguments):
            raise RuntimeError(f"{function} returned {status}")
