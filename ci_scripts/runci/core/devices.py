"""Which devices a process sees, by the variables of each backend's stack; pure."""

from __future__ import annotations

from collections.abc import Mapping

from runci.core.registration import Backend

# Of several each picks from what the one before it leaves. MPS and MLX have none: a machine has one
# GPU. AMD: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html; Intel: Level Zero's
# programming guide; Ascend: CANN's list of variables; Moore Threads: MUSA's; a PPU takes CUDA's.
VARIABLES: Mapping[Backend, tuple[str, ...]] = {
    Backend.CUDA: ("CUDA_VISIBLE_DEVICES",),
    Backend.AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    Backend.XPU: ("ZE_AFFINITY_MASK",),
    Backend.NPU: ("ASCEND_RT_VISIBLE_DEVICES",),
    Backend.MUSA: ("MUSA_VISIBLE_DEVICES",),
    Backend.PPU: ("CUDA_VISIBLE_DEVICES",),
}
