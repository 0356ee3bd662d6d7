"""Images, the cluster file, the Slurm job and the systemd unit: what can be told of them without their machines."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement

from .manifests import DEPLOY

ROOT = DEPLOY.parent
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with its arguments."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_is_pinned_built_in_stages_and_runs_as_nobody(dockerfile: Path):
    found = instructions(dockerfile)
    given = {key: value for word, rest in found if word == "ARG" for key, _, value in [rest.partition("=")]}
    stages = [re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], rest) for word, rest in found if word == "FROM"]
    assert len(stages) == 2
    assert all(re.match(r"\S+:[\w.-]*\d+\.\d+\.\d+", stage) for stage in stages), (
        stages
    )  # an exact version, not "latest"
    last = max(index for index, (word, _) in enumerate(found) if word == "FROM")
    users = [rest for word, rest in found[last:] if word == "USER"]
    assert users == ["10001:10001"]
    installs = [rest for word, rest in found if word == "RUN" and "pip install" in rest]
    assert installs
    assert all("--constraint" in rest for rest in installs)
    assert not any("pip install" in rest for word, rest in found[last:] if word == "RUN")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_an_image_copies_is_there_and_not_ignored(dockerfile: Path):
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    for word, rest in instructions(dockerfile):
        if word == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert any(source == one or source.startswith(one + "/") for one in allowed), source


def test_the_images_hold_what_the_project_requires_in_exact_versions():
    lines = (DEPLOY / "docker" / "constraints.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.+!]+", str(one.specifier)) for one in pinned)
    versions = {one.name: str(one.specifier).removeprefix("==") for one in pinned}
    project = (ROOT / "pyproject.toml").read_text()
    needed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    extras = re.search(r"^ray = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert needed is not None
    assert extras is not None
    wanted = [Requirement(text) for text in re.findall(r'^\s*"([^"]+)"', needed[1] + extras[1], re.MULTILINE)]
    assert len(wanted) >= 10
    for one in wanted:
        assert one.specifier.contains(versions[one.name]), one


def test_the_cluster_file_fits_the_schema_of_ray_and_opens_no_port_of_ray():
    ray = pytest.importorskip("ray")
    config = yaml.safe_load((DEPLOY / "ray-up.yaml").read_text())
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(config, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config | {"max_worker": 3}, schema)
    opened = config["provider"]["security_group"]["IpPermissions"]
    assert [(one["FromPort"], one["ToPort"]) for one in opened] == [(8786, 8786)]
    assert config["head_node_type"] in config["available_node_types"]
    mounted = {Path(target).name for target in config["file_mounts"]}
    started = " ".join(config["head_start_ray_commands"])
    assert set(re.findall(r"~/secrets/(\S+)", started)) <= mounted


SLURM = DEPLOY / "slurm.sh"


def test_the_slurm_job_is_a_script_of_bash():
    assert os.access(SLURM, os.X_OK)
    assert subprocess.run(["bash", "-n", str(SLURM)], check=False, capture_output=True).returncode == 0
    for words, said in (([], "usage: sbatch"), (["train.py"], "runs as a job of Slurm")):
        done = subprocess.run([str(SLURM), *words], check=False, capture_output=True, text=True, timeout=30, env={})
        assert done.returncode == 2
        assert said in done.stderr


FAKES = {
    "scontrol": "echo localhost; echo node-2; echo node-3",
    "srun": 'echo "srun $*" >> "$LOG"; exec sleep 60',
    "python": 'case "$1" in -c) echo a-token;; *) cat > /dev/null; until [[ $(grep -c srun "$LOG") == 2 ]]; do '
    'sleep 0.1; done; echo "wait $2 $3" >> "$LOG";; esac',  # as the real one waits until all nodes are there
    "raygrad": 'echo "raygrad $* $RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> "$LOG"; exit 7',
}
"""What the job calls on a cluster: each writes down how."""


def test_the_slurm_job_starts_a_head_and_workers_runs_the_program_and_ends_with_it(tmp_path: Path):
    bin_folder = tmp_path / "env" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "activate").write_text(f'export PATH="{bin_folder}:$PATH"\n')
    for name, body in FAKES.items():
        (bin_folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (bin_folder / name).chmod(0o755)
    job = 17_000 + os.getpid() % 1000
    log = tmp_path / "log"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LOG": str(log),
        "RAYGRAD_ENV": str(tmp_path / "env"),
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_NODELIST": "any",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_GPUS_ON_NODE": "2",
    }
    with socket.create_server(("127.0.0.1", 20_000 + job)):
        done = subprocess.run(
            [str(SLURM), "train.py", "--epochs", "3"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
    assert done.returncode == 7, done.stderr  # the program's own
    called = log.read_text().splitlines()
    head, workers = (next(line for line in called if word in line) for word in ("--head", "--exclude"))
    address = f"localhost:{20_000 + job}"
    assert "--nodelist=localhost" in head
    assert f"--port={20_000 + job}" in head
    assert "--num-cpus=16 --num-gpus=2" in head
    assert "--nodes=2" in workers
    assert f"--address={address}" in workers
    assert f"wait {address} 3" in called
    assert f"raygrad run --on ray:{address} train.py --epochs 3 token a-token" in called
    assert "a-token" not in head + workers  # where others see it in the list of processes


def test_the_systemd_unit_runs_as_nobody_and_takes_its_secrets_as_credentials():
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(re.sub(r"\\\n\s*", " ", (DEPLOY / "raygrad.service").read_text()))
    service = dict(parser["Service"])
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    words = service["ExecStart"].split()
    assert words[:2] == ["/opt/raygrad/bin/raygrad", "serve"]
    loaded = set(re.findall(r"^LoadCredential=([^:]+):", (DEPLOY / "raygrad.service").read_text(), re.MULTILINE))
    assert {word.removeprefix("%d/") for word in words if word.startswith("%d/")} == loaded
    assert int(service["LimitNOFILE"]) >= 8192


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_knows_all_settings_of_the_unit():
    done = subprocess.run(
        ["systemd-analyze", "verify", str(DEPLOY / "raygrad.service")], check=False, capture_output=True, text=True
    )
    assert "Unknown" not in done.stderr
