"""Why a call did not take the kernel: one name and one sentence for each guard."""

from __future__ import annotations

from enum import Enum, unique


@unique
class Reason(Enum):
    """The guard that failed, in the order in which guards are checked; the value is a sentence."""

    COMPILING = "torch.compile, torch.export or torch.jit is tracing the call."
    SUBCLASS = (
        "x is not exactly a torch.Tensor, or weight neither that nor a Parameter: FakeTensor, "
        "DTensor and other subclasses, or no tensor at all."
    )
    BIAS = "A bias was passed; the kernel adds none."
    FUNCTION_MODE = "A __torch_function__ mode is active; torch.set_default_device installs one."
    NOT_CUDA = "x is not on an NVIDIA CUDA device."
    NOT_SM120 = "The device does not have compute capability 12.0 exactly; 12.1 is another chip."
    DTYPE = "x and weight are not both bfloat16."
    NOT_2D = "x does not have exactly two dimensions."
    ROWS = "The number of rows of x is outside 2..8."
    COLUMNS = "x does not have 5120 columns."
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
    WEIGHT_SHAPE = "weight is not 48 x 5120."
    NO_DATA = "The storage of x or weight was freed."
    COLD_CAPTURE = (
        "A CUDA graph is being captured and the kernel has not run on this device yet; call it "
        "once or use warmup(device) before the capture."
    )
    UNAVAILABLE = "The kernel could not be compiled or loaded here; the log's warning says why."
    OUTPUT_ALIGNMENT = "The allocator's output does not start on a multiple of 16 bytes."

    # Members are singletons: hashing the identity keeps counting calls cheap.
    __hash__ = object.__hash__

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return self.value
