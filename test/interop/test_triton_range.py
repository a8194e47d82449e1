"""Every shape compiles with the Triton that is installed: same chain, no stack, K in order.

`run_triton_range.sh` runs it with the oldest and the newest release that the package allows.
"""

from __future__ import annotations

import unittest

import triton

from sm120_ba import machine_code, ptx_order
from sm120_ba.compiled import compile_form, kernel_form
from sm120_ba.ptx_order import Launch
from sm120_ba.shapes import TABLE, Shape


def complaints(shape: Shape, capability: int) -> list[str]:
    """What is wrong with the machine code of a shape, and with the sum of its last program."""
    form = kernel_form(shape)
    compiled = compile_form(form, capability)
    code = machine_code.disassemble(compiled.asm["cubin"])
    found = machine_code.other_matrix_instructions(code) + machine_code.broken_chain(code)
    found += machine_code.local_memory(code) + machine_code.narrow_global_loads(code)
    columns, tokens = (count - 1 for count in shape.grid(shape.m_max))
    launch = Launch(shape, (columns, tokens), shape.m_max)
    shared = compiled.metadata.shared
    ran = ptx_order.run(compiled.asm["ptx"], 32 * form.warps, shared, launch)
    found += machine_code.too_much_shared(shared)
    found += ptx_order.out_of_order(ran.products, launch)
    return found + ptx_order.wrong_stores(ran.stores, launch)


class TestRange(unittest.TestCase):
    """Branch: the compiler only."""

    def test_every_shape(self) -> None:
        print(f"Triton {triton.__version__}")
        for capability in (120, 90, 80):
            for shape in TABLE:
                with self.subTest(capability=capability, shape=str(shape)):
                    self.assertEqual(complaints(shape, capability), [])


if __name__ == "__main__":
    unittest.main()
