"""Which kernels a captured CUDA graph launches, read from its nodes through the CUDA driver.

Source: CUDA Driver API reference, "Graph Management" (cuGraphGetNodes, cuGraphKernelNodeGetParams).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from sm120_ba.cuda_driver import check, driver

if TYPE_CHECKING:
    import torch

BA_KERNEL = "ba_gemm_kernel"  # what the kernel of every shape is called
_KERNEL_NODE, _CHILD_GRAPH_NODE = 0, 4  # of CUgraphNodeType


class _KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("dimensions", ctypes.c_uint * 7),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def kernel_names(graph: torch.cuda.CUDAGraph) -> list[str]:
    """The (mangled) name of the kernel of every kernel node, in the driver's order of nodes.

    `graph` was made with `torch.cuda.CUDAGraph(keep_graph=True)` and captured. Raises DriverError.
    """
    return names_in(driver(), graph.raw_cuda_graph())


def names_in(cuda: ctypes.CDLL, graph: int) -> list[str]:
    """The same of a CUgraph handle. The names of a child graph stand in its node's place.

    Bodies of conditional nodes, which are there or not as a replay decides, are not looked into.
    """
    handle, count = ctypes.c_void_p(graph), ctypes.c_size_t()
    check(cuda, "cuGraphGetNodes", cuda.cuGraphGetNodes(handle, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    check(cuda, "cuGraphGetNodes", cuda.cuGraphGetNodes(handle, nodes, ctypes.byref(count)))
    names = []
    for node in map(ctypes.c_void_p, nodes):
        kind = ctypes.c_int()
        check(cuda, "cuGraphNodeGetType", cuda.cuGraphNodeGetType(node, ctypes.byref(kind)))
        if kind.value == _KERNEL_NODE:
            names.append(_kernel_name(cuda, node))
        elif kind.value == _CHILD_GRAPH_NODE:
            names += names_in(cuda, _child(cuda, node))
    return names


def _child(cuda: ctypes.CDLL, node: ctypes.c_void_p) -> int:
    child = ctypes.c_void_p()
    code = cuda.cuGraphChildGraphNodeGetGraph(node, ctypes.byref(child))
    check(cuda, "cuGraphChildGraphNodeGetGraph", code)
    return child.value or 0


def _kernel_name(cuda: ctypes.CDLL, node: ctypes.c_void_p) -> str:
    parameters, name = _KernelNodeParams(), ctypes.c_char_p()
    code = cuda.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(parameters))
    check(cuda, "cuGraphKernelNodeGetParams", code)
    # A node holds a function of a module or, from a library, a kernel without a context.
    if parameters.function:
        function = ctypes.c_void_p(parameters.function)
        check(cuda, "cuFuncGetName", cuda.cuFuncGetName(ctypes.byref(name), function))
    else:
        kernel = ctypes.c_void_p(parameters.kernel)
        check(cuda, "cuKernelGetName", cuda.cuKernelGetName(ctypes.byref(name), kernel))
    return (name.value or b"").decode()
