"""Read what the compiler made: the rules that the BA kernel's machine code must keep.

Every rule is a function that returns complaints, none when the code keeps it. The disassembler is
the one in Triton's wheel, so no CUDA toolkit and no GPU are needed.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

MMA = "HMMA.16816.F32.BF16"
SHARED_LIMIT_SM120 = 101_376  # bytes a block, CUDA C++ programming guide, compute capability 12.0

# Some disassemblers add scheduling notes after two or more spaces; they are no operands.
_LINE = re.compile(
    r"/\*([0-9a-f]{4,5})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)(?:\s{2,}.*?)?\s*;"
)


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address in bytes, opcode with modifiers, and operands as printed."""

    address: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str = ""


@dataclass(frozen=True)
class Resources:
    """What a thread of a kernel takes: registers, and bytes of stack."""

    registers: int
    stack: int


def disassemble(cubin: bytes) -> tuple[Instruction, ...]:
    """The instructions of a cubin with one kernel. Raises CalledProcessError, OSError."""
    return parse_sass(_cuobjdump(cubin, "-sass"))


def resources(cubin: bytes) -> Resources:
    """What a cubin of one kernel takes. Raises CalledProcessError, OSError or ValueError."""
    text = _cuobjdump(cubin, "-res-usage")
    found = re.search(r"\bREG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise ValueError(f"cuobjdump -res-usage named no registers: {text!r}")
    return Resources(int(found[1]), int(found[2]))


def _cuobjdump(cubin: bytes, option: str) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(tool), option, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """The instructions in `cuobjdump -sass` output, in order of address."""
    return tuple(
        Instruction(int(match[1], 16), match[3], tuple(re.split(r",\s*", match[4])), match[2] or "")
        for match in map(_LINE.search, text.splitlines())
        if match
    )


def other_matrix_instructions(code: tuple[Instruction, ...]) -> list[str]:
    """The tensor cores are used, and only through BF16 m16n8k16 with FP32 accumulation."""
    used = {i.opcode for i in code if "MMA" in i.opcode}
    complaints = [f"{opcode} is not {MMA}" for opcode in sorted(used - {MMA})]
    return complaints if MMA in used else [*complaints, f"no {MMA}"]


def broken_chain(code: tuple[Instruction, ...]) -> list[str]:
    """Each MMA adds to the result of the one before it, also round a loop; nothing else does."""
    mmas = [i for i in code if "MMA" in i.opcode]
    if not mmas:
        return ["no matrix instruction"]
    start = mmas[0].operands[3]
    complaints = [] if start == "RZ" else [f"the chain starts from {start}, not from zero"]
    following = list(pairwise(mmas))
    for begin, end in _loops(code):
        inside = [i for i in mmas if begin <= i.address <= end]
        following += [(inside[-1], inside[0])] if inside else []
    for before, after in following:
        total = before.operands[0]
        if after.operands[3].split(".")[0] != total:
            complaints.append(f"{after.address:#x} does not add to {total} of {before.address:#x}")
        registers = {f"R{int(total[1:]) + i}" for i in range(4)}
        complaints += [
            f"{i.address:#x}: {i.opcode} writes {total} within the chain"
            for i in code
            if before.address < i.address < after.address and _writes(i) & registers
        ]
    return complaints


def _loops(code: tuple[Instruction, ...]) -> list[tuple[int, int]]:
    """First and last address of every loop: the branches backwards."""
    jumps = [
        (int(target[0], 16), i.address)
        for i in code
        if i.opcode.startswith("BRA") and (target := re.search(r"0x[0-9a-f]+", i.operands[-1]))
    ]
    return [(target, address) for target, address in jumps if target < address]


def _writes(instruction: Instruction) -> set[str]:
    """The general registers that an instruction writes: one, or as many as its width says."""
    if not re.fullmatch(r"R\d+", instruction.operands[0]):
        return set()
    width = re.search(r"\.(?:M88\.(4)|(64|WIDE)|(128))", instruction.opcode)
    count = 1 if width is None else 2 if width[2] else 4
    base = int(instruction.operands[0][1:])
    return {f"R{base + i}" for i in range(count)}


def local_memory(code: tuple[Instruction, ...]) -> list[str]:
    """Nothing is spilled to, or indexed in, local memory."""
    return [f"{i.address:#x}: {i.opcode}" for i in code if re.match(r"(LDL|STL)\b", i.opcode)]


def too_much_shared(shared: int) -> list[str]:
    """A block's shared memory (bytes) fits an SM120 block."""
    if shared <= SHARED_LIMIT_SM120:
        return []
    return [f"{shared} bytes of shared memory are more than {SHARED_LIMIT_SM120}"]


def narrow_global_loads(code: tuple[Instruction, ...]) -> list[str]:
    """Every load from global memory moves 128 bits a thread, and there is one."""
    loads = [i for i in code if re.match(r"(LDG|LDGSTS)\.", i.opcode)]
    if not loads:
        return ["no global load"]
    return [f"{i.address:#x}: {i.opcode}" for i in loads if not i.opcode.endswith(".128")]
