"""Seeded operands for the BA projection, ordinary and adversarial: x (rows, K), w (N, K).

All are contiguous BF16. Those of the tests are 48 x 5120 unless told, and made on the CPU so that
every machine sees the same bits; those of a proof are made on the device, in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from sm120_ba.gemm import K, N
from sm120_ba.shapes import ALIGNMENT, SM120_SHAPE, Shape

Operands = tuple[torch.Tensor, torch.Tensor]


def random_operands(
    rows: int, seed: int, device: torch.device | str, shape: Shape = SM120_SHAPE
) -> Operands:
    """Standard normal values."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, shape.k, generator=generator)
    w = torch.randn(shape.n, shape.k, generator=generator)
    return x.bfloat16().to(device), w.bfloat16().to(device)


@dataclass(frozen=True)
class ProofCase:
    """Operands of one kind; x has the most rows that are proved, fewer are its first ones."""

    kind: str
    x: torch.Tensor
    w: torch.Tensor


CANCELLING = "cancelling"
_KINDS = (
    *[CANCELLING] * 8,
    "random",
    "random",
    "activation-like",
    "mixed magnitudes",
    "signed zeros",
    "denormal",
    "infinities",
    "NaN",
)


def proof_cases(shape: Shape, rows: int, seed: int, device: torch.device) -> list[ProofCase]:
    """Half of the cases are cancelling ones, in which the order of the sum decides every bit.

    In those the second half of K repeats the products of the first with the other sign, permuted.
    Each case starts at another multiple of 16 bytes, as slices of a larger tensor do.
    """
    generator = torch.Generator(device).manual_seed(seed)
    count, (n, k) = len(_KINDS), (shape.n, shape.k)
    # Servers load weights with another default type.
    normal = partial(torch.randn, generator=generator, device=device, dtype=torch.float32)
    x, w = normal(count, rows, k), normal(count, n, k)
    half = torch.randperm(k // 2, generator=generator, device=device)
    for number, kind in enumerate(_KINDS):
        _shape_operands(kind, x[number], w[number], half)
    pairs = zip(_at_every_alignment(x), _at_every_alignment(w), strict=True)
    return [ProofCase(kind, *pair) for kind, pair in zip(_KINDS, pairs, strict=True)]


def _shape_operands(kind: str, x: torch.Tensor, w: torch.Tensor, half: torch.Tensor) -> None:
    """Turn normal values into operands of `kind`, in place."""
    middle = x.shape[1] // 2
    if kind == CANCELLING:
        x[:, middle:], w[:, middle:] = -x[:, half], w[:, half]
    elif kind == "activation-like":
        x *= (
            torch.exp(1.5 * x.flip(1))
            * 2.0 ** (torch.arange(len(x), device=x.device) % 13 - 6)[:, None]
        )
        w *= 0.02
    elif kind == "mixed magnitudes":
        x *= 2.0 ** (torch.arange(x.shape[1], device=x.device) % 61 - 30)
    elif kind == "signed zeros":
        x *= torch.where(x > 1, 0.0, -0.0)
        w.abs_()
    elif kind == "denormal":
        x *= 2.0**-68
        w *= 2.0**-68
    elif kind == "infinities":
        x[0, 17], x[-1, middle], w[5, 17], w[-1, -1] = torch.inf, -torch.inf, -torch.inf, torch.inf
    elif kind == "NaN":
        x[0, 0] = w[-1, -1] = torch.nan


def _at_every_alignment(values: torch.Tensor) -> list[torch.Tensor]:
    """BF16 copies of values[i], case i starting at 16·i bytes modulo 256."""
    step = ALIGNMENT // 2
    length = values[0].numel() + step
    flat = torch.empty(len(values), length, dtype=torch.bfloat16, device=values.device)
    flat[:, :-step] = values.flatten(1)
    return [row[:-step].view(values.shape[1:]) for row in flat]


def activation_like(rows: int, seed: int, device: torch.device | str) -> Operands:
    """Heavy-tailed rows of very different scale, and small weights, as in a trained layer.

    Every second row repeats the one before it with a perturbation of a few BF16 steps, as the rows
    of a batch of similar prompts do.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(rows, K, generator=generator)
    spread = torch.exp(1.5 * torch.randn(rows, K, generator=generator))
    scale = torch.exp2(torch.randint(-6, 7, (rows, 1), generator=generator).float())
    x = normal * spread * scale
    for row in range(1, rows, 2):
        noise = torch.randint(-2, 3, (K,), generator=generator)
        x[row] = x[row - 1] * (1 + noise * 2.0**-8)
    w = torch.randn(N, K, generator=generator) * 0.02
    return x.bfloat16().to(device), w.bfloat16().to(device)


def _zero(x: torch.Tensor, w: torch.Tensor) -> Operands:
    return torch.zeros_like(x), w


def _negative_zero(x: torch.Tensor, w: torch.Tensor) -> Operands:
    return -torch.zeros_like(x), w.abs()


def _denormal(x: torch.Tensor, w: torch.Tensor) -> Operands:
    return (x * 2.0**-128).bfloat16(), w


def _denormal_products(x: torch.Tensor, w: torch.Tensor) -> Operands:
    return (x * 2.0**-70).bfloat16(), (w * 2.0**-70).bfloat16()


def _huge(x: torch.Tensor, w: torch.Tensor) -> Operands:
    return (x * 2.0**125).bfloat16(), w


def _cancelling(x: torch.Tensor, w: torch.Tensor) -> Operands:
    """Large terms of the first half cancel in the second; small ones, every eighth, are left."""
    big, w = (x * 2.0**12).bfloat16(), w.clone()
    big[:, K // 2 :] = -big[:, : K // 2]
    w[:, K // 2 :] = w[:, : K // 2]
    big[:, ::8] = x[:, ::8]
    return big, w


def _mixed_magnitudes(x: torch.Tensor, w: torch.Tensor) -> Operands:
    exponents = torch.arange(K) % 61 - 30
    return (x * torch.exp2(exponents.float())).bfloat16(), w


def _infinities(x: torch.Tensor, w: torch.Tensor) -> Operands:
    x, w = x.clone(), w.clone()
    x[0, 17], x[-1, 4000], w[5, 17], w[40, 5119] = torch.inf, -torch.inf, -torch.inf, torch.inf
    return x, w


def _nans(x: torch.Tensor, w: torch.Tensor) -> Operands:
    x, w = x.clone(), w.clone()
    x[0, 0], w[47, 5119] = torch.nan, torch.nan
    return x, w


def _one_hot_row(x: torch.Tensor, w: torch.Tensor) -> Operands:
    hot = torch.zeros_like(x)
    hot[-1] = x[-1]
    return hot, w


def _one_hot_columns(x: torch.Tensor, w: torch.Tensor) -> Operands:
    """Row m holds a single one, so y shows which column of w the kernel took it for."""
    hot = torch.zeros_like(x)
    for row in range(len(x)):
        hot[row, (row * 731 + 5) % K] = 1
    return hot, w


ADVERSARIAL: dict[str, Callable[[torch.Tensor, torch.Tensor], Operands]] = {
    "zero": _zero,
    "negative zero": _negative_zero,
    "denormal": _denormal,
    "denormal products": _denormal_products,
    "huge": _huge,
    "cancelling": _cancelling,
    "mixed magnitudes": _mixed_magnitudes,
    "infinities": _infinities,
    "NaN": _nans,
    "one hot row": _one_hot_row,
    "one hot columns": _one_hot_columns,
}


def adversarial_operands(
    rows: int, seed: int, device: torch.device | str
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Every adversarial case by name, made from the random operands of `seed`."""
    for name, change in ADVERSARIAL.items():
        x, w = change(*random_operands(rows, seed, "cpu"))
        yield name, x.to(device), w.to(device)
