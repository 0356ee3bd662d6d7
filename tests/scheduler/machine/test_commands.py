import dataclasses
from typing import get_args

import pytest

from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.machine.commands import Command, FailReason, FailRun, Unpin


@pytest.mark.parametrize("command", get_args(Command))
def test_every_command_is_frozen_and_says_what_it_is_about(command):
    fields = dataclasses.fields(command)
    assert command.__dataclass_params__.frozen
    assert all(field.kw_only for field in fields)
    assert {"run", "runs", "worker", "segments"} & {field.name for field in fields}


def test_commands_are_equal_by_value():
    assert Unpin(worker=0, values=(Pinned(0, 1),)) == Unpin(worker=0, values=(Pinned(0, 1),))
    assert FailRun(run=1, reason=FailReason.RAISED) != FailRun(run=1, reason=FailReason.ABANDONED)
