from typing import Any

from triton import jit as jit

def __getattr__(name: str) -> Any: ...
