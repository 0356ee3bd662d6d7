from __future__ import annotations

import math

import numpy as np

import raygrad as rg
from raygrad.workers.code.importable import import_name, imports_alike, is_well_known


class Point:
    pass


def test_import_names_are_given_only_where_the_name_leads_back():
    assert import_name(np.mean) == ("numpy", "mean")
    assert import_name(Point) is None
    assert import_name(lambda: 0) is None
    assert import_name(3) is None


def test_modules_of_python_and_of_installed_packages_import_alike_those_of_the_user_do_not():
    assert all(map(imports_alike, ("math", "numpy.linalg", "raygrad.nn", "cloudpickle")))
    assert not any(map(imports_alike, ("__main__", "__mp_main__", __name__, "no_such_module")))


def test_what_python_numpy_and_raygrad_do_is_known():
    assert all(map(is_well_known, (math, math.sqrt, np.mean, rg.Tensor, rg.nn)))
    assert not any(map(is_well_known, (Point, Point(), imports_of_the_user, 3)))


def imports_of_the_user() -> None: ...
