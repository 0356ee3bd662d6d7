"""The compilation of one program: what steps share that differ in their slots alone, which most of a large one do."""

from __future__ import annotations

from raygrad.autograd.devices import Device
from raygrad.proto.ir.nodes import GradSum, OpCall, OpVjp
from raygrad.proto.ir.program import Program
from raygrad.proto.ir.signatures import ObservedSignature

from .device_steps import device_of_node
from .functions import AgreedFacts, Host
from .op_vjp import OpRule


class Compilation:
    """A program that is compiled for a host, and what was found out for steps before."""

    __slots__ = ("_agreed", "_devices", "_rules", "fingerprints", "host", "program")

    def __init__(self, program: Program, host: Host, fingerprints: bool = False) -> None:
        self.program = program
        self.host = host
        self.fingerprints = fingerprints
        """Whether the host's report gets those of what user code returns."""
        self._devices: dict[tuple[tuple[int, ...], ...], Device] = {}
        self._rules: dict[tuple[str, tuple[int, ...], tuple[int, ...], str], OpRule] = {}
        self._agreed: dict[int, AgreedFacts] = {}
        """By the identity of a signature, which the program keeps."""

    def device_of(self, node: OpCall | OpVjp | GradSum) -> Device:
        """See `device_of_node`."""
        key = (node.outputs, node.result_specs) if isinstance(node, OpVjp) else (node.outputs,)
        found = self._devices.get(key)
        if found is None:
            found = self._devices[key] = device_of_node(node, self.program.specs)
        return found

    def rule_of(self, node: OpVjp, device: Device) -> OpRule:
        """See `OpRule.of`."""
        key = node.fn, node.operand_specs, node.result_specs, device.type
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = OpRule.of(node, self.program.specs, device.type)
        return found

    def agreed(self, expected: ObservedSignature | None) -> AgreedFacts:
        """Return the facts for all Functions that are expected to show the same."""
        if expected is None:
            return AgreedFacts()
        return self._agreed.setdefault(id(expected), AgreedFacts())
