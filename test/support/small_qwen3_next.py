"""A tiny Qwen3-Next whose three BA projections have their real size."""

from __future__ import annotations

import torch
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

from sm120_ba.gemm import K


def small_model(device: str = "cpu", hidden: int = K, heads: int = 24) -> Qwen3NextForCausalLM:
    """The model in BF16 on `device`, always with the same weights.

    Its BA layers have 2 · `heads` x `hidden` weights.
    One layer of full attention follows the three: generation with a cache needs it.
    """
    torch.manual_seed(0)
    configuration = Qwen3NextConfig(
        vocab_size=64,
        hidden_size=hidden,
        num_hidden_layers=4,
        linear_num_value_heads=heads,
        linear_num_key_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=16,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=8,
        num_experts=2,
        num_experts_per_tok=1,
        tie_word_embeddings=True,
    )
    model = Qwen3NextForCausalLM(configuration).to(device, torch.bfloat16)
    return model.eval().requires_grad_(False)
