"""A module in the place of NVML's for `runci run` as a process: GPUs as rows, faults as files.

Files below `played/` in the folder of the run say what became of a GPU, so that a test can plant
it: `lost-N` of GPU N, `xid` with lines «GPU NUMBER», `memory-N` with lines «PID MIB».
"""

from __future__ import annotations

# A row a GPU: its name, compute capability and MiB; None is what the driver does not say.
CARD = ("NVIDIA H100 80GB HBM3", (9, 0), 81559)
OTHER = ("NVIDIA GeForce RTX 3060", (8, 6), 12288)
_MODULE = """
import pathlib
PLAYED = pathlib.Path("played")
nvmlEventTypeXidCriticalError = 8
class NVMLError(Exception): pass
class Said:
    def __init__(self, **said): vars(self).update(said)
def nvmlInit(): pass
def nvmlSystemGetDriverVersion(): return b"580.159.04"
def nvmlDeviceGetCount(): return len(ROWS)
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetHandleByUUID(uuid):
    if (PLAYED / f"lost-{uuid[-1]}").exists(): raise NVMLError("GPU is lost")
    return int(uuid[-1])
def nvmlDeviceGetComputeRunningProcesses(handle):
    file = PLAYED / f"memory-{handle}"
    lines = file.read_text().splitlines() if file.exists() else []
    return [Said(pid=int(p), usedGpuMemory=int(m) << 20) for p, m in map(str.split, lines)]
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetPciInfo(handle): return Said(busId=f"00000000:{handle:02x}:00.0".encode())
def said(value):
    if value is None: raise NVMLError("Not Supported")
    return value
def nvmlDeviceGetName(handle): return said(ROWS[handle][0])
def nvmlDeviceGetCudaComputeCapability(handle): return said(ROWS[handle][1])
def nvmlDeviceGetMemoryInfo(handle):
    used = sum(p.usedGpuMemory for p in nvmlDeviceGetComputeRunningProcesses(handle))
    return Said(used=(100 << 20) + used, total=said(ROWS[handle][2]) << 20)
def nvmlEventSetCreate(): return object()
def nvmlDeviceRegisterEvents(handle, kind, events): pass
def nvmlEventSetWait_v2(events, milliseconds):
    file = PLAYED / "xid"
    lines = file.read_text().splitlines() if file.exists() else []
    if not lines: raise NVMLError("Timeout")
    file.write_text("".join(f"{line}\\n" for line in lines[1:]))
    handle, number = map(int, lines[0].split())
    return Said(device=handle, eventData=number)
"""


def nvml(*rows: object) -> str:
    """The module's text for these GPUs."""
    return f"ROWS = {rows!r}{_MODULE}"
