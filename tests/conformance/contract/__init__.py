"""The contract, id by id: one module for each section of the behaviours of autograd Functions."""

from . import ac, bw, cx, dr, dr_outputs, dr_runs, en, fn, ft, fw, gc, gr, hk, lg, md, nd, ou, vm

SECTIONS = (fn, cx, ou, bw, nd, lg, en, hk, gr, md, fw, vm, ft, gc, ac, dr, dr_outputs, dr_runs)
