"""Why a call did not take the kernel: one name and one sentence for each guard."""

from __future__ import annotations

from enum import Enum, unique


@unique
class Reason(Enum):
    """The guard that failed, in the order in which guards are checked; the value is a sentence."""

    COMPILING = "torch.compile, torch.export or torch.jit is tracing the call."
    SUBCLASS = (
        "x is not exactly a torch.Tensor, or weight neither that nor a Parameter nor a subclass "
        "of Parameter that only carries attributes: FakeTensor, DTensor and other subclasses, or "
        "no tensor at all."
    )
    BIAS = "A bias was passed; the kernel adds none."
    FUNCTION_MODE = "A __torch_function__ mode is active; torch.set_default_device installs one."
    NOT_CUDA = "x is not on an NVIDIA CUDA device."
    NOT_SM120 = (
        "The device does not have compute capability 12.0 exactly (12.1 is another chip), and "
        "mode=proved was not asked for."
    )
    BEFORE_SM80 = "The device's compute capability is below 8.0: it has no BF16 m16n8k16 MMA."
    DTYPE = "x and weight are not both bfloat16."
    NOT_2D = "x does not have exactly two dimensions."
    ROWS = "The number of rows of x is below 2 or above what the shape is for (48 x 5120: 8)."
    COLUMNS = "The number of columns of x is in no shape that is enabled here (5120 always is)."
    REQUIRES_GRAD = "x or weight requires grad, which counts under no_grad too."
    STRIDES = "x or weight is not row-major without gaps; the stride of a single row counts too."
    ALIGNMENT = "The data of x or weight does not start on a multiple of 16 bytes."
    DETERMINISTIC = "torch.use_deterministic_algorithms is on."
    AUTOCAST = "Autocast is on for some device type."
    TRANSFORM = "A torch.func transform (vmap, grad, functionalize, ...) is active."
    DISPATCH_MODE = "A __torch_dispatch__ mode is active."
    FORWARD_AD = "Forward-mode automatic differentiation is active."
    BATCH_INVARIANT = "Batch-invariant mode is on."
    OTHER_DEVICE = "x and weight are on different devices."
    WRAPPED = (
        "x or weight is not an ordinary dense tensor: vmapped, functional, meta, sparse, nested "
        "or lazily negated."
    )
    NO_DATA = "The storage of x or weight was freed."
    WEIGHT_SHAPE = (
        "weight is of no shape that is enabled here: 48 x 5120; with mode=proved, the table's."
    )
    COLD_CAPTURE = (
        "Warm-up was asked for while a CUDA graph is captured; warm up before the capture."
    )
    NOT_PROVED = (
        "The kernel was not warmed up for this shape and number of rows on this device: call "
        "warmup(device, ...) after the weights are loaded, outside of captures."
    )
    UNAVAILABLE = (
        "The kernel could not be compiled, loaded or proved here; a warning in the log says why."
    )
    BITS_DIFFER = "On this device F.linear gives other bits here; proof() has the figures."
    NO_POWER = (
        "The proof is void: its inputs would not have shown another order of the sum; proof() has "
        "the control's figure."
    )
    NOT_FASTER = (
        "With mode=proved: the kernel was not at least 5 % faster than F.linear when proved."
    )
    STATE_CHANGED = (
        "A setting that may change F.linear's bits is another one than at warm-up (reduced-"
        "precision reductions, preferred BLAS library, TunableOp); set it back or warm up again."
    )
    OUTPUT_ALIGNMENT = "The allocator's output does not start on a multiple of 16 bytes."

    # Members are singletons: hashing the identity keeps counting calls cheap.
    __hash__ = object.__hash__

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return self.value
