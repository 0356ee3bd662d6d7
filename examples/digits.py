"""Train a network of user-written Functions on handwritten digits, in this process or on a Ray cluster.

    make demo                                   in this process
    make demo ON=ray                            on a local Ray, in two worker processes: the same losses to the last bit
    python examples/digits.py --on ray --epochs 3
    python examples/digits.py --address ray:HOST:PORT

The program is ordinary autograd code; what makes it distributed is one line, `with rg.Session(...)`. Inside it nothing
is computed here: each training step is recorded, planned once, and sent to the workers, which keep the parameters, the
gradients and the optimiser's state. This process reads one number per epoch.
"""

# ruff: noqa: E402 - BLAS reads the number of its threads when NumPy is imported

from __future__ import annotations

import os

# One BLAS thread here and on every worker: results are then equal to the last bit, whatever the machine. This has to be
# said before NumPy is imported.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import hashlib
import time
from collections import Counter

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits

import raygrad as rg

HIDDEN = 96
BATCH, BRANCHES = 128, 4  # a batch is divided into branches, which workers run at the same time
LEARNING_RATE, DECAY, MOMENTUM = 0.1, 0.9, 0.9
CLIP = 0.05  # the largest gradient that one branch's logits may send back

# ---- layers: plain NumPy, forward and backward ---------------------------------------------------------------------


class Linear(rg.autograd.Function):
    """`x @ weight + bias`."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return rg.from_numpy(x.numpy() @ weight.numpy() + bias.numpy())

    @staticmethod
    def backward(ctx, grad):
        x, weight = (tensor.numpy() for tensor in ctx.saved_tensors)
        g = grad.numpy()
        return rg.from_numpy(g @ weight.T), rg.from_numpy(x.T @ g), rg.from_numpy(g.sum(axis=0))


class Tanh(rg.autograd.Function):
    """`tanh(x)`; what is saved is the output, which stays on the worker that made it."""

    @staticmethod
    def forward(ctx, x):
        y = rg.from_numpy(np.tanh(x.numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return rg.from_numpy(grad.numpy() * (1.0 - y.numpy() ** 2))


def initial_parameters() -> list[rg.Tensor]:
    """Two layers; their numbers come from a fixed seed."""
    random = np.random.default_rng(0)
    sizes = [(64, HIDDEN), (HIDDEN, 10)]
    arrays = [array for n, m in sizes for array in (random.standard_normal((n, m)) / np.sqrt(n), np.zeros(m))]
    return [rg.tensor(array, requires_grad=True) for array in arrays]


# ---- hooks: registered here, fired by the worker that owns the gradient --------------------------------------------


def clip(grad):
    """Tensor hook: a gradient that is too large is scaled down."""
    norm = float(np.linalg.norm(grad.numpy()))
    return grad * (CLIP / norm) if norm > CLIP else None


def report(grad_inputs, grad_outputs):
    """Node hook: what a worker emits reaches `session.on` in this process."""
    rg.emit("gradient norm", float(np.linalg.norm(grad_outputs[0].numpy())))


# ---- one step ------------------------------------------------------------------------------------------------------


def logits_of(parameters, x):
    """The network. Functions and built-in operations mix as they like."""
    w1, b1, w2, b2 = parameters
    hidden = Tanh.apply(Linear.apply(x, w1, b1))
    logits = Linear.apply(hidden, w2, b2)
    if hidden.grad_fn is not None:  # not under no_grad
        logits.register_hook(clip)
        hidden.grad_fn.register_hook(report)
    return logits


def branches_of(x, target):
    """A batch as pairs of tensors, one for each branch."""
    parts = np.array_split(np.arange(len(x)), BRANCHES)
    return [(rg.tensor(x[rows]), rg.tensor(target[rows])) for rows in parts]


def loss_of(parameters, branches):
    """The mean over the branches of their cross-entropy."""
    losses = []
    for x, target in branches:
        log_likelihood = rg.log_softmax(logits_of(parameters, x), dim=1) * target
        losses.append(-log_likelihood.sum() / len(x))
    return rg.stack(losses).mean()


# ---- data ----------------------------------------------------------------------------------------------------------


def digits():
    """The 1,797 images of scikit-learn, standardised; the same four fifths to train on each time."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(images))
    train, test = np.split(order, [len(images) * 4 // 5])
    images = (images - images[train].mean(axis=0)) / (images[train].std(axis=0) + 1e-6)
    one_hot = np.eye(10)[labels]
    return images[train], one_hot[train], images[test], labels[test]


def batches(count: int, epoch: int):
    """Full batches only: equal shapes make equal graphs, and those are planned once."""
    order = np.random.default_rng(100 + epoch).permutation(count)
    return [order[start : start + BATCH] for start in range(0, count - BATCH + 1, BATCH)]


# ---- training ------------------------------------------------------------------------------------------------------


def train(session: rg.Session, epochs: int, console: Console):
    """Train; return the parameters, the test accuracy, and the runs that the session made."""
    x, target, x_test, labels = digits()
    parameters = initial_parameters()
    optimizer = rg.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM)
    steps, runs = batches(len(x), 0), []
    columns = (TextColumn("training"), BarColumn(40), MofNCompleteColumn(), TextColumn("steps"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=epochs * len(steps))
        for epoch in range(epochs):
            total = rg.zeros((), dtype=rg.float64)
            for rows in batches(len(x), epoch):
                optimizer.zero_grad()
                loss = loss_of(parameters, branches_of(x[rows], target[rows]))
                loss.backward()  # sends forward and backward off together; does not wait
                runs.append(session.last_run)
                optimizer.step()  # likewise
                runs.append(session.last_run)
                total = total + loss.detach()
                progress.advance(bar)
            mean = (total / len(steps)).item()  # waits: the only number that comes back
            console.print(f"epoch {epoch + 1:2}   loss {mean:.6f}   {mean.hex()}")
            for group in optimizer.param_groups:
                group["lr"] *= DECAY  # a number, not a part of the graph: the plan stays
    with rg.no_grad():
        predicted = logits_of(parameters, rg.tensor(x_test)).numpy().argmax(axis=1)
    return parameters, float((predicted == labels).mean()), runs


# ---- what is shown -------------------------------------------------------------------------------------------------


def plan_table(what: str, run) -> Table:
    """The plan of one run: which worker does what, and what crosses between them."""
    table = Table(title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    table.title = f"\nPlan of {what}: {run.nodes} nodes, {run.plan.crossing_bytes:,} bytes cross"
    table.add_column("#", justify="right")
    table.add_column("worker", no_wrap=True)
    for heading in ("forward", "backward", "hooks", "bytes in", "bytes out", "predicted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in run.plan.rows():
        counts = (row.forward_nodes, row.vjp_nodes, row.hook_nodes, row.bytes_in, row.bytes_out)
        shown = [f"{count:,}" if count else "·" for count in counts]
        table.add_row(str(row.segment), row.worker, *shown, f"{row.predicted_ms:.2f} ms")
    return table


def summary(session: rg.Session, parameters, accuracy: float, runs, norms: list[float], seconds: float) -> Table:
    """What came of it, and where it happened."""
    fired: Counter[int] = Counter()
    for run in runs:
        fired.update(run.hooks)
    here = {os.getpid(): " (this one)"}
    arrays = [parameter.detach().numpy() for parameter in parameters]
    digest = hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16)
    size = sum(array.nbytes for array in arrays)
    table = Table.grid(padding=(0, 3))
    table.add_row("hooks fired", "\n".join(f"{n:,} in process {pid}{here.get(pid, '')}" for pid, n in fired.items()))
    table.add_row("gradient norms", f"{len(norms):,} emitted, between {min(norms):.4f} and {max(norms):.4f}")
    table.add_row(
        "saved tensors", f"{session.peak_saved_bytes:,} bytes at the peak, {session.saved_bytes:,} at the end"
    )
    table.add_row("the store holds", f"{session.stored_bytes():,} bytes at the end, by its own statistics")
    table.add_row("on the workers", f"{size:,} bytes of parameters, {size:,} of momentum")
    table.add_row("time", f"{seconds:.1f} s, {seconds / len(runs) * 2e3:.1f} ms a step")
    table.add_row("test accuracy", f"[bold]{accuracy:.4f}")
    table.add_row("parameters", digest.hexdigest())
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on handwritten digits, in this process or on Ray.")
    parser.add_argument("--on", choices=["local", "ray"], default="local", help="where to run")
    parser.add_argument("--address", help="an address instead, such as ray:HOST:PORT")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    console = Console(highlight=False)
    norms: list[float] = []
    with rg.Session(options.address or options.on, workers=2) as session:
        session.on("gradient norm", norms.append)
        start = time.perf_counter()
        parameters, accuracy, runs = train(session, options.epochs, console)
        seconds = time.perf_counter() - start
        console.print(plan_table("forward and backward", runs[-2]))
        console.print(plan_table("the optimiser's step", runs[-1]))
        console.print()
        console.print(summary(session, parameters, accuracy, runs, norms, seconds))


if __name__ == "__main__":
    main()
