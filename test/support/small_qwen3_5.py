"""A tiny Qwen3.5 whose two BA projections, `in_proj_b` and `in_proj_a`, have their real size."""

from __future__ import annotations

import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from sm120_ba.gemm import K, N


def small_model(device: str = "cpu") -> Qwen3_5ForCausalLM:
    """The model in BF16 on `device`, always with the same weights: one such layer, one other.

    The layer of full attention is what generation with a cache needs.
    """
    torch.manual_seed(0)
    configuration = Qwen3_5TextConfig(
        vocab_size=64,
        hidden_size=K,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        linear_num_value_heads=N,
        linear_num_key_heads=16,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        intermediate_size=16,
        tie_word_embeddings=True,
    )
    model = Qwen3_5ForCausalLM(configuration).to(device, torch.bfloat16)
    return model.eval().requires_grad_(False)
