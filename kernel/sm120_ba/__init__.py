"""Opt-in BF16 projection y[M,48] = x[M,5120] · w[48,5120]ᵀ for NVIDIA SM120."""
