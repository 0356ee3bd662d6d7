"""HIPS autograd on the chains of `eager.py`: reads "custom" or "builtin" a line, answers seconds per node.

Started outside the repository and never imported, because `autograd` must mean the other project.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

# pyright: reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import json
import sys
import time

import autograd.numpy as anp
import numpy as np
from autograd import elementwise_grad
from autograd.extend import defvjp, primitive

LENGTH, TIMES = int(sys.argv[1]), int(sys.argv[2])
START = np.linspace(0.1, 0.9, 4)


@primitive
def sin(x):
    """The custom Function of `eager.py`."""
    return np.sin(x)


defvjp(sin, lambda ans, x: lambda grad: grad * anp.cos(x))


def custom_chain(x):
    """LENGTH applications of a primitive of one's own."""
    for _ in range(LENGTH):
        x = sin(x)
    return x


def builtin_chain(x):
    """Two operations a link."""
    for _ in range(LENGTH // 2):
        x = anp.sin(x * 1.01)
    return x


def main() -> None:
    gradients = {"custom": elementwise_grad(custom_chain), "builtin": elementwise_grad(builtin_chain)}
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(TIMES):
            gradients[line.strip()](START)
        sys.stdout.write(json.dumps((time.perf_counter() - start) / (LENGTH * TIMES)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
