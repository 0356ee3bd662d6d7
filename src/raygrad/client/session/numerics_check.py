"""Numerics check: whether all workers of a session give the same bits (H12), as an error or a warning.

`Session` calls it when its workers are there; `workers.process.numerics_class` defines the classes.
"""

from __future__ import annotations

import warnings

from raygrad.errors import NumericsError, NumericsWarning
from raygrad.scheduler.model.numerics_class import describe_differences
from raygrad.scheduler.model.plan import Cluster


def check_numerics(cluster: Cluster, deterministic: bool) -> None:
    """Check that workers are of one numerics class per kind of device.

    Raises:
        NumericsError: they are not, and bits are to be the same wherever a node runs. If they need not be, it is a
            `NumericsWarning`.
    """
    difference = describe_differences([(worker.name, worker.numerics) for worker in cluster.workers])
    if not difference:
        return
    what = f"workers may give different bits for the same node ({difference})"
    if deterministic:
        raise NumericsError(
            f"{what}, so that results would depend on where a plan runs what: choose machines of one kind (a "
            "label_selector or resources in worker_options), or take it with Session(deterministic=False)"
        )
    warnings.warn(f"{what}; results may depend on where a plan runs what", NumericsWarning, stacklevel=4)
