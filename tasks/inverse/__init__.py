r"""Inverse problems of imaging, as in InverseBench: what instruments see, and samplers against the posterior itself."""

__all__ = [
    "ClosureOperator",
    "Closures",
    "CodeReference",
    "ImagePrior",
    "Images",
    "Inverse",
    "InverseBenchPrior",
    "Mri",
    "MriOperator",
    "Reshaped",
    "Scattering",
    "Solver",
    "TelescopeArray",
    "Visibilities",
    "black_holes",
    "brains",
    "cells",
    "load_images",
]

from .black_hole import Closures, Visibilities
from .candidates import Reshaped, Solver
from .closures import ClosureOperator
from .images import Images, load_images
from .inversebench import InverseBenchPrior
from .mri import Mri, MriOperator
from .phantoms import black_holes, brains, cells
from .priors import ImagePrior
from .reference import CodeReference
from .scattering import Scattering
from .task import Inverse
from .telescopes import TelescopeArray
