"""Spec table: the specs of a session's values, interned, so that equal specs are one `SpecEntry`.

Everything that records looks specs up here; graphs number them when they are built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.proto.ir.array_layout import layout_of
from raygrad.proto.ir.specs import Spec

from .records import SpecEntry, spec_of_array


class SpecTable:
    """The interned specs of one session."""

    def __init__(self) -> None:
        self._by_spec: dict[Spec, SpecEntry] = {}
        self._by_meta: dict[Meta, SpecEntry] = {}
        self._by_strides: dict[Any, SpecEntry] = {}
        """By shape, dtype and strides of arrays."""

    def entry(self, spec: Spec) -> SpecEntry:
        """Return the entry of a spec."""
        found = self._by_spec.get(spec)
        if found is None:
            found = self._by_spec[spec] = SpecEntry(spec)
        return found

    def of_meta(self, meta: Meta, device: Device = CPU) -> SpecEntry:
        """Return the entry of an array of a shape and dtype on a device, whose layout only the kernel knows."""
        if device is not CPU:
            return self.entry(spec_of_array(tuple(meta[0]), np.dtype(meta[1]).name, None, str(device)))
        found = self._by_meta.get(meta)
        if found is None:
            found = self._by_meta[meta] = self.entry(spec_of_array(tuple(meta[0]), np.dtype(meta[1]).name))
        return found

    def of_array(self, array: np.ndarray[Any, Any]) -> SpecEntry:
        """Return the entry of an array at the client, layout included."""
        key = (array.shape, array.dtype, array.strides)
        found = self._by_strides.get(key)
        if found is None:
            spec = spec_of_array(array.shape, array.dtype.name, layout_of(array))
            found = self._by_strides[key] = self.entry(spec)
        return found

    def forget_templates(self) -> None:
        """Drop the templates of operators that entries carry."""
        for entry in self._by_spec.values():
            entry.unary.clear()
