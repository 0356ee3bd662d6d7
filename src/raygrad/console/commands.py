"""The commands of `raygrad`: typer's, each a few lines over the modules beside it.

An error is one line on standard error and exit code 1; a wrong command line has exit code 2. A script is noted by
its command, and run after typer has done its part.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from raygrad import __version__
from raygrad.client.options import is_service
from raygrad.errors import RaygradError
from raygrad.report.figures import number
from raygrad.report.saved_plan import load_explanation
from raygrad.report.shown import as_plain_data
from raygrad.report.table_rendering import Table
from raygrad.report.terminal import print_report, print_tables
from raygrad.service import ServerOptions, admin, serve as run_service
from raygrad.workers.process.default_session import ADDRESS_VARIABLE

from . import demo as demo_script, ray_nodes
from .doctor import examine
from .doctor_checks import Finding, Status
from .ray_nodes import ClusterOptions
from .script import Script, arguments_of, run_script

app: Final = typer.Typer(
    name="raygrad",
    help="Autograd graphs of your own Functions over NumPy arrays, in this process or on a Ray cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cluster_app: Final = typer.Typer(
    help="A Ray cluster of several nodes on this machine, for trying things out.", no_args_is_help=True
)
app.add_typer(cluster_app, name="cluster")

PASSED_ON: Final = {"allow_interspersed_args": False, "ignore_unknown_options": False}
"""What follows the script's name is the script's."""

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ADDRESS",
        help="Where sessions run that name no address: local, ray, ray:HOST:PORT, ws://HOST:PORT or wss://HOST:PORT.",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Workers of sessions that name none.")
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca", exists=True, dir_okay=False, resolve_path=True, help="The authority of a service's certificate (PEM)."
    ),
]
Pickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Let a service run your code, and its code run here: it has to be trusted."),
]
Rest = Annotated[list[str] | None, typer.Argument(metavar="[--] [ARGUMENTS]...", help="Arguments of the script.")]
ScriptPath = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python file.", exists=True, dir_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Autograd graphs of your own Functions over NumPy arrays, in this process or on a Ray cluster."""
    if show:
        typer.echo(f"raygrad {__version__}")
        raise typer.Exit


@app.command(context_settings=PASSED_ON)
def run(
    context: typer.Context,
    path: ScriptPath,
    arguments: Rest = None,
    on: On = None,
    workers: Workers = None,
    ca: Ca = None,
    allow_pickle: Pickle = False,
) -> None:
    """Run a script, unchanged, on any backend.

    Its sessions that name no address run there, and so does what it records outside of a session, as long as it opens
    none of its own. All else is as with `python SCRIPT ARGUMENTS`.
    """
    words = arguments_of(arguments or ())
    run_later(
        context, Script(path=path, arguments=words, address=on, workers=workers, ca=ca, allow_pickle=allow_pickle)
    )


@app.command(context_settings=PASSED_ON)
def explain(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A script, or a plan saved as .json.", exists=True, dir_okay=False)
    ],
    arguments: Rest = None,
    on: On = None,
    workers: Workers = None,
    ca: Ca = None,
    allow_pickle: Pickle = False,
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Run the first N submissions, and show the next.")] = 0,
    save: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Also write the plan to a .svg, .html or .json file.")
    ] = None,
) -> None:
    """Show the plan of what a script would submit, or a plan that was saved.

    The script runs up to its first submission (a backward pass, an optimiser's step, or reading a value), and ends
    there. What teaches the session the outputs of a Function is run before.
    """
    if path.suffix == ".json":
        explanation = load_explanation(path)
        print_report(explanation)
        if save is not None:
            explanation.save(save)
        return
    if save is not None and save.suffix not in (".svg", ".html", ".json"):
        raise typer.BadParameter("a plan is saved as .svg, .html or .json", param_hint="--save")
    seen = 0

    def show(plan: Any) -> bool:
        nonlocal seen
        seen += 1
        if seen <= skip:
            return False
        print_report(plan)
        if save is not None:
            plan.save(save)
        return True

    words = arguments_of(arguments or ())
    run_later(
        context,
        Script(path=path, arguments=words, address=on, workers=workers, ca=ca, allow_pickle=allow_pickle, show=show),
    )


@app.command()
def demo(
    context: typer.Context, on: On = None, workers: Workers = None, ca: Ca = None, allow_pickle: Pickle = False
) -> None:
    """Train a small network, to see that everything works."""
    path = Path(demo_script.__file__)
    run_later(context, Script(path=path, address=on, workers=workers, ca=ca, allow_pickle=allow_pickle))


def run_later(context: typer.Context, script: Script) -> None:
    """Note the script that is to run once typer has done its part.

    Raises:
        typer.BadParameter: an option is given that means nothing where its sessions run.
    """
    address = script.address or os.environ.get(ADDRESS_VARIABLE) or "local"
    _check_ca(script.ca, address)
    if script.allow_pickle and not is_service(address):
        raise _out_of_place("--allow-pickle", "wss://HOST:PORT or ws://HOST:PORT", address)
    context.obj.append(script)


def _check_ca(ca: Path | None, address: str) -> None:
    if ca is not None and not address.startswith("wss://"):
        raise _out_of_place("--ca", "wss://HOST:PORT", address)


def _out_of_place(option: str, where: str, address: str) -> typer.BadParameter:
    return typer.BadParameter(f"it is for sessions at {where}, and these run at {address}", param_hint=option)


@app.command()
def doctor(
    address: Annotated[str | None, typer.Option("--on", metavar="ADDRESS", help="Also check this address.")] = None,
    ca: Ca = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The server's port to look at.")] = 8786,
    as_json: Json = False,
) -> None:
    """Check this machine, and say how to mend what is wrong.

    Checked are Python, packages, Ray, GPUs, memory, limits, ports and tokens; and with --on whether a session can open
    at an address, with the token of RAYGRAD_TOKEN.

    The exit code is 1 if something does not work.
    """
    _check_ca(ca, address or "local")
    found = examine(port=port, address=address, ca=None if ca is None else str(ca))
    broken = [one for one in found if one.status is Status.ERROR]
    if as_json:
        typer.echo(json.dumps({"ok": not broken, "findings": as_plain_data(found)}, indent=2))
    else:
        warned = sum(one.status is Status.WARNING for one in found)
        said = f"{number(len(broken), 'error')}, {number(warned, 'warning')}" if broken or warned else "All is well"
        print_tables([f"{said}."], _tables_of(found))
    if broken:
        raise typer.Exit(1)


def _tables_of(found: list[Finding]) -> list[Table]:
    mending = [one for one in found if one.remedy and one.status in (Status.ERROR, Status.WARNING)]
    tables = [
        Table.of(
            "Checks",
            found,
            ("check", lambda one: one.check),
            ("status", lambda one: one.status),
            ("found", lambda one: one.found),
        )
    ]
    if mending:
        rows = tuple([(one.check, one.remedy) for one in mending])
        tables.append(Table("How to mend it", ("check", "what to do"), rows))
    return tables


# ---- a service -------------------------------------------------------------------------------------------------------

Url = Annotated[str, typer.Argument(metavar="URL", help="The service: ws://HOST:PORT or wss://HOST:PORT.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="The file with the token; else RAYGRAD_TOKEN has it.", exists=True, dir_okay=False
    ),
]
Authority = Annotated[
    str | None,
    typer.Option("--ca", metavar="PATH", help="The authority of a certificate that the system does not trust."),
]


@app.command()
def serve(
    on: Annotated[
        str, typer.Option("--on", metavar="ADDRESS", help="Where workers run: local, ray, ray:HOST:PORT.")
    ] = "ray",
    host: Annotated[
        str, typer.Option(help="The address to listen at; others than the loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 8786,
    token_file: TokenFile = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="PATH", help="The certificate and its chain (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="PATH", help="Its key, if it is not in the same file.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="The most workers of a session.")] = None,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 16,
    max_sessions_per_token: Annotated[
        int | None, typer.Option(min=1, help="Sessions at a time of those who show one token.")
    ] = None,
    max_nodes: Annotated[int | None, typer.Option(min=1, help="Nodes of one submission.")] = None,
    max_rate: Annotated[float | None, typer.Option(help="Messages per second of one session.")] = None,
    max_held: Annotated[int | None, typer.Option(min=0, help="Bytes that are held for one session.")] = None,
    max_run_seconds: Annotated[float | None, typer.Option(help="Seconds of one run.")] = None,
    max_message: Annotated[int, typer.Option(help="Bytes of one message, so of one array.")] = 1 << 30,
    drain_seconds: Annotated[float, typer.Option(help="Seconds for which runs may go on when it is stopped.")] = 30.0,
    idle_timeout: Annotated[float, typer.Option(help="Seconds of silence after which a client counts as gone.")] = 60.0,
    grace: Annotated[float, typer.Option(help="Seconds for which a session outlives a broken connection.")] = 30.0,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Take user code: whoever has the token can run any code here.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="MODULE", help="Run code that this module defines, by name; repeatable."),
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write the log as JSON.")] = False,
) -> None:
    """Run the sessions of clients elsewhere, until SIGTERM or Ctrl-C.

    The token is that of --token-file, or RAYGRAD_TOKEN.
    """
    options = ServerOptions(
        host=host,
        port=port,
        token=tokens_of(token_file),
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_pickle=allow_pickle,
        allow=tuple(allow or ()),
        address=on,
        workers=workers,
        max_sessions=max_sessions,
        max_sessions_per_token=max_sessions_per_token,
        max_nodes=max_nodes,
        max_rate=max_rate,
        max_held=max_held,
        max_run_seconds=max_run_seconds,
        max_message=max_message,
        drain_seconds=drain_seconds,
        idle_timeout=idle_timeout,
        grace=grace,
        log_json=log_json,
    )
    run_service(options)


@app.command()
def status(url: Url, token_file: TokenFile = None, ca: Authority = None, as_json: Json = False) -> None:
    """Show what a service does: versions, sessions, runs, refusals."""
    found = admin.status(url, token_of(token_file), ca=ca)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        print_tables([], [Table(f"The service at {url}", ("", ""), tuple([(k, str(v)) for k, v in found.items()]))])


@app.command()
def sessions(url: Url, token_file: TokenFile = None, ca: Authority = None, as_json: Json = False) -> None:
    """List the sessions of a service."""
    found = admin.sessions(url, token_of(token_file), ca=ca)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    columns = ("session", "began", "runs", "active", "failed")
    rows = tuple([tuple([str(one[column]) for column in columns]) for one in found])
    print_tables([f"{number(len(found), 'session')}."], [Table("Sessions", columns, rows)] if rows else [])


@app.command()
def cancel(
    url: Url,
    session: Annotated[str, typer.Argument(help="The session's name, as `raygrad sessions` shows it.")],
    token_file: TokenFile = None,
    ca: Authority = None,
) -> None:
    """Cancel what a session of a service runs."""
    cancelled = admin.cancel(url, token_of(token_file), session, ca=ca)
    typer.echo("cancelled" if cancelled else "nothing was running")


def tokens_of(file: Path | None) -> str | None:
    """Return the tokens in a file, one a line, or that of the environment; None if there is none."""
    return os.environ.get("RAYGRAD_TOKEN") if file is None else file.read_text(encoding="utf-8").strip()


def token_of(file: Path | None) -> str | None:
    """Return the first token in a file, or that of the environment; None if there is none."""
    found = tokens_of(file)
    return None if found is None else found.partition("\n")[0].strip()


# ---- a cluster on this machine ---------------------------------------------------------------------------------------

Port = Annotated[int, typer.Option(min=1, max=65535, help="The port of the head; one cluster for each.")]


@cluster_app.command()
def start(
    workers: Annotated[int, typer.Option(min=0, help="Worker nodes.")] = 2,
    port: Port = 6399,
    cpus: Annotated[int, typer.Option(min=1, help="CPUs of each worker node.")] = 1,
    object_store_mb: Annotated[int, typer.Option(min=1, help="MiB of each node's object store.")] = 128,
) -> None:
    """Start a head and worker nodes as processes of their own, and print the address for sessions."""
    options = ClusterOptions(workers=workers, port=port, cpus=cpus, object_store_mb=object_store_mb)
    typer.echo(ray_nodes.start(options))
    if ray_nodes.asks_for_token():
        typer.echo(
            "sessions of this user on this machine find its token; others need it, and RAY_AUTH_MODE=token", err=True
        )


@cluster_app.command()
def stop(port: Port = 6399) -> None:
    """Stop the cluster of a port, and nothing else."""
    typer.echo(f"stopped {number(ray_nodes.stop(ClusterOptions(port=port)), 'node')}")


@cluster_app.command("status")
def cluster_status(port: Port = 6399) -> None:
    """Say how many nodes of a port's cluster live. The exit code is 1 if not all that were started do."""
    options = ClusterOptions(port=port)
    started, living = ray_nodes.running(options)
    if not started:
        typer.echo(f"no cluster was started at port {port}")
        raise typer.Exit(1)
    typer.echo(
        f"{living} of {number(started, 'node')} running, ray:{ray_nodes.HOST}:{port}, logs in {options.directory}"
    )
    if living < started:
        raise typer.Exit(1)


# ---- entry -----------------------------------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> None:
    """Run the command line `words`, by default that of this process, and end the process with its exit code."""
    scripts: list[Script] = []
    try:
        typer.main.get_command(app).main(args=words, prog_name="raygrad", obj=scripts)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    except (RaygradError, OSError, ValueError) as error:
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(1)
    for script in scripts:
        run_script(script)
