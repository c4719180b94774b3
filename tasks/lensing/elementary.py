r"""Powers and logarithms that the compiler can turn into SIMD: polynomials in single precision."""

__all__ = ["FASTMATH", "exp2", "log2"]

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

# No reassociation: freshly compiled and cached code give the same bits. NaN does not occur, the model has checked.
FASTMATH = {"contract", "nnan", "nsz"}


def _exp2_single(x: Any) -> Any:
    # Below 2^-60 nothing is seen in an image; above it, squares are still normal numbers.
    x = max(x, np.float32(-60))
    shifted = x + np.float32(12582912)  # 1.5 * 2^23: the integer part moves to the last bits
    u = x - (shifted - np.float32(12582912))
    p = np.float32(0.0013276467199751577)
    p = p * u + np.float32(0.009675541682125935)
    p = p * u + np.float32(0.055507132916746076)
    p = p * u + np.float32(0.24022119717700208)
    p = p * u + np.float32(0.6931469670515352)
    p = p * u + np.float32(1.0000000716558093)  # relative error 7e-8
    exponent = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)


def _log2_single(x: Any) -> Any:
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))  # the mantissa starts at sqrt(1/2)
    u = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32) - np.float32(1)
    p = np.float32(-0.1457431052945775)
    p = p * u + np.float32(0.23689001055890568)
    p = p * u + np.float32(-0.25006934795576324)
    p = p * u + np.float32(0.286707518624275)
    p = p * u + np.float32(-0.3600871941413394)
    p = p * u + np.float32(0.4809394421182471)
    p = p * u + np.float32(-0.7213571493986941)
    p = p * u + np.float32(1.442694772444638)  # absolute error 5e-8
    return np.float32(exponent) + u * p


def exp2(x: Any) -> Any:
    r"""$2^x$: a polynomial in single precision, the library's function in double precision."""
    return np.exp2(x)


def log2(x: Any) -> Any:
    r"""$\log_2 x$, likewise."""
    return np.log2(x)


@overload(exp2, jit_options={"fastmath": FASTMATH})
def _choose_exp2(x: Any) -> Any:
    return _exp2_single if x == types.float32 else exp2


@overload(log2, jit_options={"fastmath": FASTMATH})
def _choose_log2(x: Any) -> Any:
    return _log2_single if x == types.float32 else log2
