"""The dotted names by which code reads variables, modules and attributes."""

from __future__ import annotations

from typing import Any

from raygrad.client.compile.named_paths import CALLED, ImportedName, paths_in

settings: Any = None


def reads(self: Any) -> Any:
    x = self.rate + settings.inner.K
    settings.draw()
    other = settings
    return x, other, [y.name for y in x]


def imports() -> Any:
    import a.b  # pyright: ignore[reportMissingImports]
    import a.c.d as q  # pyright: ignore[reportMissingImports]
    import plain  # pyright: ignore[reportMissingImports]

    from ..near import K, L as M  # pyright: ignore[reportMissingImports]

    def inner() -> Any:
        return q.deep, plain.X

    return inner, a.b.Y, K, M.z


def a_class() -> Any:
    class Held:
        rate = settings

    return Held


def test_path_goes_from_a_variable_along_attributes() -> None:
    found = paths_in(reads.__code__)
    assert ("", "rate") in found
    assert ("settings", "inner", "K") in found
    assert ("settings", "draw", CALLED) in found
    assert ("settings",) in found, "which is given to a variable, so that its attributes may be read by another name"
    assert ("", "name") in found


def test_import_statement_is_the_root_of_what_is_read_of_the_module() -> None:
    found = set(paths_in(imports.__code__))
    a = ImportedName(0, "a")
    near = ImportedName(2, "near")
    assert found >= {
        (a, "b", "Y"),
        (a, "c", "d", "deep"),
        (ImportedName(0, "plain"), "X"),
        (near, "K"),
        (near, "L", "z"),
    }
    assert not {(a,), (ImportedName(0, "plain"),), (near,)} & found, "none is handled as an object"


def test_variable_of_an_enclosing_function_is_a_root_and_one_of_its_own_is_not() -> None:
    held: Any = None

    def outer() -> Any:
        own: Any = 1
        return held.rate, lambda: (own.rate, held.name)

    found = paths_in(outer.__code__)
    assert ("held", "rate") in found
    assert ("held", "name") in found
    assert ("", "rate") in found


def test_body_of_a_class_reads_globals() -> None:
    assert ("settings",) in paths_in(a_class.__code__)
