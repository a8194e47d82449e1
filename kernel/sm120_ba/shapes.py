"""The shapes of y[M,N] = x[M,K] · w[N,K]ᵀ that the kernel is made for, as one table of data.

Importing this module needs neither torch nor Triton.
"""

from __future__ import annotations

from dataclasses import dataclass

M_MIN = 2  # one token is a matrix-vector product, which cuBLAS does well
TOKENS = 8  # of a program: the N side of one m16n8k16
COLUMNS = 16  # of a program: its M side
ALIGNMENT = 16  # bytes: where x, w and y must start, for 128-bit copies


@dataclass(frozen=True)
class Shape:
    """One weight of N x K, and how the kernel goes through K for it.

    A tile of K is two parts of `part` elements, a ring in shared memory holds `stages` tiles, and
    K is a whole number of rings. `m_max` is the largest M that the kernel is for.
    """

    n: int
    k: int
    whose: str
    part: int
    stages: int
    m_max: int

    def __post_init__(self) -> None:
        """Refuse a loop over K that would leave a rest. Raises ValueError."""
        if self.k % (2 * self.part * self.stages):
            raise ValueError(
                f"{self}: K = {self.k} is no multiple of 2 x {self.part} x {self.stages}; "
                "choose another part or number of stages"
            )

    def __str__(self) -> str:
        return f"{self.n} x {self.k}"

    @property
    def rows(self) -> range:
        """Every M that the kernel is for."""
        return range(M_MIN, self.m_max + 1)

    def grid(self, m: int) -> tuple[int, int]:
        """Programs over the columns and over the rows of y[M,N]."""
        return -(-self.n // COLUMNS), -(-m // TOKENS)


# m_max is the largest M with M·N·K < 2²¹: up to there cuBLAS on SM120 does not split K and is slow.
TABLE = (
    Shape(48, 5120, "27B at TP2; twice a layer at TP1 where a and b are apart", 64, 8, 8),
    Shape(96, 5120, "27B at TP1", 64, 8, 4),
    Shape(24, 5120, "27B at TP4", 64, 8, 17),
    Shape(64, 2048, "35B-A3B, Next-80B", 64, 4, 15),
    Shape(32, 2048, "35B-A3B, Next-80B", 64, 4, 31),
    Shape(16, 2048, "35B-A3B, Next-80B", 64, 4, 63),
    Shape(128, 3072, "122B", 64, 4, 5),
    Shape(64, 3072, "122B", 64, 4, 10),
    Shape(128, 4096, "larger ones", 64, 8, 3),
    Shape(64, 4096, "larger ones", 64, 8, 7),
    Shape(32, 4096, "larger ones", 64, 8, 15),
    Shape(96, 2560, "4B", 64, 4, 8),
    Shape(64, 2560, "4B", 64, 4, 12),
    Shape(48, 2560, "4B", 64, 4, 17),
)

BY_SIZE = {(shape.n, shape.k): shape for shape in TABLE}
SM120_SHAPE = BY_SIZE[48, 5120]  # the proposal's one shape


def covers(n: int, k: int, m: int) -> bool:
    """Whether the table has a kernel for y[m,n] = x[m,k] · w[n,k]ᵀ."""
    shape = BY_SIZE.get((n, k))
    return shape is not None and m in shape.rows


class Coverage:
    """Some of the table's shapes, arranged for the questions that every call asks."""

    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self.by_size: dict[tuple[int, ...], Shape] = {(s.n, s.k): s for s in shapes}
        self.widths = frozenset(shape.k for shape in shapes)
        self.m_max = max(shape.m_max for shape in shapes)


ALLOWLIST = Coverage((SM120_SHAPE,))
WHOLE = Coverage(TABLE)
