"""The manifests fit the schemas of Kubernetes and KubeRay, and each other; clients alone reach the server alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import ValidationError

from .manifests import DEPLOY, OVERLAYS, built, of_kind, pods

CRD = Path(__file__).parents[3] / "shared" / "schemas" / "ray.io_rayclusters.yaml"
VERSION = "1.31"


@pytest.fixture(params=OVERLAYS)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return built(DEPLOY / "kubernetes" / "overlays" / request.param)


def server(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return pods(objects)["raygrad-server"]


def test_each_object_fits_the_schema_of_its_kind(objects: list[dict[str, Any]]):
    checked = 0
    for one in objects:
        if one["kind"] == "RayCluster":
            continue
        kubernetes_validate.validate(one, VERSION, strict=True)
        checked += 1
    assert checked >= 7


def test_a_wrong_field_does_not_fit(objects: list[dict[str, Any]]):
    deployment = of_kind(objects, "Deployment")[0]
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(deployment, VERSION, strict=True)


def test_pods_of_the_ray_cluster_fit_the_schema_of_pods(objects: list[dict[str, Any]]):
    for name, template in pods(objects).items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, VERSION, strict=True)


@pytest.mark.skipif(not CRD.exists(), reason="the schema of KubeRay is not here")
def test_the_ray_cluster_fits_the_schema_of_kuberay(objects: list[dict[str, Any]]):
    definition = yaml.safe_load(CRD.read_text())
    (cluster,) = of_kind(objects, "RayCluster")
    group, version = cluster["apiVersion"].split("/")
    assert group == definition["spec"]["group"]
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == version]
    closed(schema)
    jsonschema.validate(cluster, schema)
    cluster["spec"]["headGroupSpec"]["replicas"] = 1
    with pytest.raises(jsonschema.ValidationError, match="replicas"):
        jsonschema.validate(cluster, schema)


def closed(schema: Any) -> None:
    """Let objects of named fields have no others, as the API server drops them: a typing error is one."""
    if isinstance(schema, dict):
        if schema.get("x-kubernetes-int-or-string"):
            schema.pop("type", None)
            schema.pop("pattern", None)
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault(
                "additionalProperties", schema.get("properties") == {} or "apiVersion" in schema["properties"]
            )
        for one in schema.values():
            closed(one)
    elif isinstance(schema, list):
        for one in schema:
            closed(one)


def test_every_selector_meets_pods_with_its_labels(objects: list[dict[str, Any]]):
    labels = [template["metadata"]["labels"] for template in pods(objects).values()]

    def meets(selector: dict[str, str]) -> bool:
        return any(selector.items() <= one.items() for one in labels)

    for service in of_kind(objects, "Service"):
        assert meets(service["spec"]["selector"])
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        for one in of_kind(objects, kind):
            assert meets(one["spec"].get("podSelector", one["spec"].get("selector"))["matchLabels"])
    for policy in of_kind(objects, "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            for peer in rule.get("from", ()):
                if "namespaceSelector" not in peer:
                    assert meets(peer["podSelector"]["matchLabels"])


def test_strangers_reach_the_port_of_the_server_alone(objects: list[dict[str, Any]]):
    open_to_all = [
        (policy["metadata"]["name"], [port["port"] for port in rule["ports"]])
        for policy in of_kind(objects, "NetworkPolicy")
        for rule in policy["spec"]["ingress"]
        if "from" not in rule
    ]
    assert open_to_all == [("raygrad-server", [8786])]
    for template in pods(objects).values():  # each pod is closed by some policy
        assert any(
            policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
            for policy in of_kind(objects, "NetworkPolicy")
        )


def test_probes_and_service_name_the_port_of_the_server(objects: list[dict[str, Any]]):
    (container,) = server(objects)["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (service,) = of_kind(objects, "Service")
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        get = container[probe]["httpGet"]
        assert (get["path"], get["scheme"], get["port"] in ports) == (path, "HTTPS", True)
    assert f"--port {ports['raygrad']}" in container["args"][0]


def test_no_file_holds_a_secret_and_the_server_takes_its_own_from_some(objects: list[dict[str, Any]]):
    assert not of_kind(objects, "Secret")
    (container,) = server(objects)["spec"]["containers"]
    assert "--token" not in container["args"][0]  # it would stand in the list of processes
    sources = {one["name"]: next(iter(one["valueFrom"].values()), {}) for one in container["env"]}
    assert sources["RAYGRAD_TOKEN"] == {"name": "raygrad-token", "key": "token"}
    (cluster,) = of_kind(objects, "RayCluster")
    assert cluster["spec"]["authOptions"]["mode"] == "token"
    assert sources["RAY_AUTH_TOKEN"] == {"name": cluster["metadata"]["name"], "key": "auth_token"}
    (config,) = of_kind(objects, "ConfigMap")
    for name in ("RAYGRAD_MAX_SESSIONS",):
        assert sources[name]["key"] in config["data"]


def test_pods_run_as_nobody_with_shared_memory(objects: list[dict[str, Any]]):
    for template in pods(objects).values():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] >= 1000
        volumes = {one["name"]: one for one in spec["volumes"]}
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
            assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
            assert container["resources"].keys() == {"requests", "limits"}


def test_images_are_those_of_this_version(objects: list[dict[str, Any]]):
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.*)"', project, re.MULTILINE)
    ray = re.search(r'"ray==([0-9.]+)\.\*"', project)
    assert version is not None
    assert ray is not None
    images = [one["image"] for template in pods(objects).values() for one in template["spec"]["containers"]]
    assert all(re.fullmatch(rf"registry\.example\.com/raygrad:{version[1]}-(cpu|cuda)", image) for image in images)
    (cluster,) = of_kind(objects, "RayCluster")
    assert cluster["spec"]["rayVersion"].startswith(ray[1])


def test_the_gpu_overlay_has_workers_with_gpus_and_the_other_has_none():
    groups = {name: of_kind(built(DEPLOY / "kubernetes" / "overlays" / name), "RayCluster")[0] for name in OVERLAYS}
    (cpu,) = groups["cpu"]["spec"]["workerGroupSpecs"]
    assert cpu["maxReplicas"] > cpu["minReplicas"]
    gpu = groups["gpu"]["spec"]["workerGroupSpecs"][1]
    assert gpu["maxReplicas"] > 0
    (container,) = gpu["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["image"].endswith("-cuda")
