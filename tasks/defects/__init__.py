r"""Known posteriors, and candidates that are wrong in one way each: which of them does a test see?"""

__all__ = ["Defect", "Modes", "ModesDefect", "Sound"]

from .gaussian import Defect, Sound
from .modes import Modes, ModesDefect
