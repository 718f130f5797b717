"""llama.cpp's own --fit: what it would settle on for given free memory, step by step.

`question` says what is asked and how one set of parameters is measured, `context` reduces the context, `filling` puts
layers and experts on devices by trials, `layers` says what a layout of layers means as settings, `outcome` puts the
steps together, `arguments` prints the result and `choice` places it.

Source: common_fit_params, common/fit.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.fit.choice import fitted_choice
from service.core.engines.llamacpp.fit.outcome import Fit, fit

__all__ = ["Fit", "fit", "fitted_choice"]
