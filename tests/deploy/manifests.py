"""The Kubernetes manifests of deploy/, as `kubectl apply -k` would send them: overlays, their resources and patches."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = sorted(path.name for path in (DEPLOY / "kubernetes" / "overlays").iterdir())
KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches"}
"""What `built` applies of a kustomization; it refuses any other."""


def built(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization: JSON patches alone, each of which has to hit one object."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization.keys() <= KNOWN, kustomization.keys() - KNOWN
    assert (kustomization["apiVersion"], kustomization["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    objects: list[dict[str, Any]] = []
    for resource in kustomization["resources"]:
        path = (folder / resource).resolve()
        assert path.exists(), path
        objects += built(path) if path.is_dir() else copy.deepcopy(list(yaml.safe_load_all(path.read_text())))
    for patch in kustomization.get("patches", ()):
        target = patch["target"]
        hit = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])]
        assert len(hit) == 1, target
        for operation in yaml.safe_load(patch["patch"]):
            change(hit[0], **operation)
    for one in objects:
        if "namespace" in kustomization and one["kind"] != "Namespace":
            one["metadata"]["namespace"] = kustomization["namespace"]
    return objects


def change(document: Any, *, op: str, path: str, value: Any = None) -> None:
    """Apply one operation of a JSON patch; what it replaces or removes has to be there."""
    *way, last = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    for step in way:
        document = document[int(step) if isinstance(document, list) else step]
    key: Any = int(last) if isinstance(document, list) and last != "-" else last
    if op == "add" and isinstance(document, list):
        document.insert(len(document) if key == "-" else key, value)
        return
    if op != "add":
        document[key]  # raises where nothing is
    if op == "remove":
        del document[key]
    else:
        document[key] = value


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod specs of all objects, by name."""
    found: dict[str, dict[str, Any]] = {}
    for one in objects:
        if one["kind"] == "Deployment":
            found[one["metadata"]["name"]] = one["spec"]["template"]
        if one["kind"] == "RayCluster":
            found["head"] = one["spec"]["headGroupSpec"]["template"]
            found |= {group["groupName"]: group["template"] for group in one["spec"]["workerGroupSpecs"]}
    return found


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]
