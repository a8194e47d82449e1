"""Run a kernel's PTX on the CPU with names in place of numbers: what it multiplies and stores.

Every 16-bit element of memory is a tag that names its tensor, row and column. Addresses are
computed, copies land at their wait, fragments are spread over the lanes as PTX says, and each MMA
is recorded with the tags it got. So the order of the sum is read from the dataflow, without a GPU.
A tag is the element's address; the sums of an MMA get the addresses that they must be stored to.
Source: PTX ISA, `cp.async`, `ldmatrix`, `mma.m16n8k16`. Needs NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sm120_ba.shapes import COLUMNS, TOKENS, Shape

X_BASE, W_BASE, Y_BASE = 1 << 32, 2 << 32, 3 << 32
NOTHING = -1  # the tag of a byte that no finished copy has written

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "min": np.minimum,
    "max": np.maximum,
    "mad": lambda a, b, c: a * b + c,
    "bfe": lambda a, low, size: (a >> low) & ((1 << size) - 1),
}
_COMPARE = {"lt": np.less, "eq": np.equal, "ge": np.greater_equal, "ne": np.not_equal}


def tag(base: int, row: Any, column: Any, width: int) -> Any:
    """The name of element (row, column) of the BF16 tensor at `base`, `width` columns a row."""
    return base + 2 * (row * width + column)


@dataclass(frozen=True)
class Launch:
    """One program of a launch: its block (over columns, over tokens) for `rows` tokens."""

    shape: Shape
    block: tuple[int, int]
    rows: int

    @property
    def first(self) -> tuple[int, int]:
        """The first column and the first token of y that the program computes."""
        return COLUMNS * self.block[0], TOKENS * self.block[1]

    def output_tag(self, token: Any, column: Any) -> Any:
        """The name of y's element for the program's token and column, both counted from 0."""
        first_column, first_token = self.first
        return tag(Y_BASE, first_token + token, first_column + column, self.shape.n)

    def operand_tags(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """What MMA `step` of a chain must multiply: (16 rows of w, 16) and (16, 8 tokens).

        Rows past the last are the last again.
        """
        k, (column, token) = np.arange(16 * step, 16 * step + 16), self.first
        weights = np.minimum(column + np.arange(COLUMNS), self.shape.n - 1)
        tokens = np.minimum(token + np.arange(TOKENS), self.rows - 1)
        width = self.shape.k
        return (
            tag(W_BASE, weights[:, None], k[None, :], width),
            tag(X_BASE, tokens[None, :], k[:, None], width),
        )

    def outputs(self) -> set[int]:
        """The places of y that the program must fill."""
        column, token = self.first
        columns = np.arange(min(COLUMNS, self.shape.n - column))[None, :]
        tokens = np.arange(min(TOKENS, self.rows - token))[:, None]
        return set(self.output_tag(tokens, columns).ravel().tolist())


@dataclass(frozen=True)
class Product:
    """One MMA of one warp: the tags of its 16 x 16 first and 16 x 8 second operand."""

    warp: int
    first: np.ndarray
    second: np.ndarray


@dataclass
class Machine:
    """One program of a kernel with parameters (x, w, y, rows), all of its threads in lockstep."""

    threads: int
    launch: Launch
    shared: np.ndarray
    registers: dict[str, Any] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)
    stores: list[tuple[int, int]] = field(default_factory=list)  # address, stored tag
    open_copies: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    groups: list[list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=list)

    def value(self, text: str) -> Any:
        """An operand: a register, a special register, a literal or the shared memory's address."""
        text = text.strip()
        if text == "%tid.x":
            return np.arange(self.threads)
        if text in ("%ctaid.x", "%ctaid.y"):
            return self.launch.block["xy".index(text[-1])]
        if text.startswith("%"):
            return self.registers[text]
        return 0 if text == "global_smem" else int(text, 0)

    def address(self, text: str) -> np.ndarray:
        """`[%r1]` or `[ %r1 + 8 ]`, one address a thread."""
        register, _, offset = text.strip(" []").partition("+")
        return np.broadcast_to(self.value(register) + int(offset or 0), (self.threads,))

    def step(self, opcode: str, operands: list[str]) -> None:
        """Execute one instruction. Raises NotImplementedError on one this machine does not know."""
        name = opcode.split(".", 1)[0]
        if name in _ARITHMETIC:
            self.registers[operands[0]] = _ARITHMETIC[name](*map(self.value, operands[1:]))
        elif name == "setp":
            compare = _COMPARE[opcode.split(".")[1]]
            self.registers[operands[0]] = compare(*map(self.value, operands[1:3]))
        elif name == "ld" and "param" in opcode:
            number = int(operands[1].strip("[]").rsplit("_", 1)[1])
            self.registers[operands[0]] = (X_BASE, W_BASE, Y_BASE, self.launch.rows)[number]
        elif name == "mov":
            self.move(operands)
        elif opcode.startswith("cp.async"):
            self.copy(opcode, operands)
        elif name == "ldmatrix":
            self.load_matrix(operands)
        elif name == "mma":
            self.multiply(operands)
        elif opcode == "cvt.rn.bf16.f32":
            self.registers[operands[0]] = self.value(operands[1])
        elif name not in ("bar", "ret"):
            raise NotImplementedError(opcode)

    def move(self, operands: list[str]) -> None:
        """Plain moves, and packing or unpacking of two 16-bit registers."""
        target, source = operands
        if target.startswith("{"):
            for half, register in enumerate(names(target)):
                self.registers[register] = self.registers[source][:, half]
        elif source.startswith("{"):
            halves = [self.registers[register] for register in names(source)]
            self.registers[target] = np.stack(halves, axis=1)
        else:
            self.registers[target] = self.value(source)

    def copy(self, opcode: str, operands: list[str]) -> None:
        """`cp.async` of 16 bytes, its groups, and the wait that lets them land."""
        if "commit_group" in opcode:
            self.groups.append(self.open_copies)
            self.open_copies = []
        elif "wait_group" in opcode:
            while len(self.groups) > int(operands[0]):
                for target, source in self.groups.pop(0):
                    for element in range(8):
                        self.shared[target // 2 + element] = source + 2 * element
        else:
            self.open_copies.append((self.address(operands[0]), self.address(operands[1])))

    def load_matrix(self, operands: list[str]) -> None:
        """`ldmatrix.x4`: lanes 8i..8i+7 give the rows of matrix i; lane l gets a pair of each."""
        rows = self.address(operands[1]).reshape(-1, 4, 8) // 2
        lane = np.arange(32)
        for matrix, register in enumerate(names(operands[0])):
            start = rows[:, matrix, lane // 4] + 2 * (lane % 4)
            pair = np.stack([self.shared[start], self.shared[start + 1]], axis=-1)
            self.registers[register] = pair.reshape(self.threads, 2)

    def multiply(self, operands: list[str]) -> None:
        """Gather the fragments of `mma.m16n8k16` and record them, one product a warp."""
        lane = np.arange(32)
        group, pair = lane // 4, 2 * (lane % 4)
        for warp in range(self.threads // 32):
            mine = slice(32 * warp, 32 * warp + 32)
            first, second = np.full((16, 16), NOTHING), np.full((16, 8), NOTHING)
            for i, register in enumerate(names(operands[1])):
                for half in range(2):
                    at = (group + 8 * (i % 2), pair + 8 * (i // 2) + half)
                    first[at] = self.registers[register][mine, half]
            for i, register in enumerate(names(operands[2])):
                for half in range(2):
                    second[pair + 8 * i + half, group] = self.registers[register][mine, half]
            self.products.append(Product(warp, first, second))
        lane = np.arange(self.threads) % 32
        for i, register in enumerate(names(operands[0])):
            row, token = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
            self.registers[register] = self.launch.output_tag(token, row)

    def store(self, predicate: str, opcode: str, operands: list[str]) -> None:
        """`st.global.b16` of one register by the threads whose predicate holds, if any."""
        if opcode != "st.global.b16":
            raise NotImplementedError(opcode)
        holds = self.registers[predicate.lstrip("@!")] if predicate else True
        holds = np.broadcast_to(holds, (self.threads,)) != predicate.startswith("@!")
        (register,) = names(operands[1])
        values = np.broadcast_to(self.registers[register], (self.threads,))
        addresses = self.address(operands[0])
        self.stores += zip(addresses[holds].tolist(), values[holds].tolist(), strict=True)


def out_of_order(products: list[Product], launch: Launch) -> list[str]:
    """Complaints unless each warp's MMA j multiplies K = 16j .. 16j+15 of its rows of w by x.

    Every column of K must come once, at its own place, in ascending order.
    """
    length = launch.shape.k // 16
    complaints = []
    for warp in sorted({p.warp for p in products}):
        mine = [p for p in products if p.warp == warp]
        if len(mine) != length:
            complaints.append(f"warp {warp}: {len(mine)} MMAs, not {length}")
        for j, product in enumerate(mine):
            weights, tokens = launch.operand_tags(j)
            if not (
                np.array_equal(product.first, weights) and np.array_equal(product.second, tokens)
            ):
                complaints.append(
                    f"warp {warp}: MMA {j} does not multiply K = {16 * j}..{16 * j + 15}"
                )
    return complaints


def wrong_stores(stores: list[tuple[int, int]], launch: Launch) -> list[str]:
    """Complaints unless exactly the program's outputs are stored, each in its place."""
    places = launch.outputs()
    written = {address for address, _ in stores}
    complaints = [f"{len(places - written)} outputs are not stored"] if places - written else []
    complaints += [f"{address:#x} is no output here" for address in sorted(written - places)]
    return complaints + [f"{a:#x} gets the sum of {v:#x}" for a, v in stores if a != v]


def names(text: str) -> list[str]:
    """The registers of `{%r1, %r2}`."""
    return [name.strip() for name in text.strip(" {}").split(",")]


def run(ptx: str, threads: int, shared_bytes: int, launch: Launch) -> Machine:
    """Execute one program; its MMAs and its stores are in order.

    Raises NotImplementedError on PTX outside what the project's kernels use.
    """
    code, labels = _parse(ptx)
    machine = Machine(threads, launch, np.full(shared_bytes // 2, NOTHING, dtype=np.int64))
    position = 0
    while position < len(code):
        predicate, opcode, operands = code[position]
        position += 1
        if opcode.startswith("bra"):
            taken = not predicate or bool(np.all(machine.registers[predicate.lstrip("@!")]))
            position = labels[operands[0]] if taken != predicate.startswith("@!") else position
        elif opcode == "ret":
            break
        elif opcode.startswith("st."):
            machine.store(predicate, opcode, operands)
        elif not predicate:
            machine.step(opcode, operands)
    return machine


_INSTRUCTION = re.compile(r"^(?:(@!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*?);")


def _parse(ptx: str) -> tuple[list[tuple[str, str, list[str]]], dict[str, int]]:
    """Instructions as (predicate, opcode, operands), and the position of each label."""
    code: list[tuple[str, str, list[str]]] = []
    labels: dict[str, int] = {}
    for line in ptx.split(".entry", 1)[1].splitlines():
        text = line.strip()
        if label := re.match(r"^(\$\w+):", text):
            labels[label[1]] = len(code)
        elif match := _INSTRUCTION.match(text):
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", match[3])
            code.append((match[1] or "", match[2], operands))
    return code, labels
