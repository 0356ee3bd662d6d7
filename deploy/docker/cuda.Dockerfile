# syntax=docker/dockerfile:1
# raygrad with Ray and CuPy, for nodes with NVIDIA GPUs. Built from the repository's root:
#
#   docker build -f deploy/docker/cuda.Dockerfile -t raygrad:0.1.0-cuda .
#
# Python's minor version is that of cpu.Dockerfile: all nodes of a Ray, and its clients, need the same.

ARG CUDA=12.6.3

# ---- build: wheels of raygrad and of what it needs, in exact versions ------------------------------------------------
FROM nvidia/cuda:${CUDA}-runtime-ubuntu24.04 AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.12 python3.12-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3.12 -m venv /opt/raygrad
COPY deploy/docker/constraints.txt /build/constraints.txt
# ray[default]: the dashboard's agent, which KubeRay's probes and Ray's autoscaler ask
RUN /opt/raygrad/bin/pip install --constraint /build/constraints.txt "setuptools>=77" "ray[default]" grpcio
COPY pyproject.toml README.md LICENSE /build/raygrad/
COPY src /build/raygrad/src
COPY autograd /build/raygrad/autograd
COPY proto /build/raygrad/proto
COPY scheduler /build/raygrad/scheduler
COPY workers /build/raygrad/workers
RUN /opt/raygrad/bin/pip install --constraint /build/constraints.txt "/build/raygrad[ray,cuda12]"

# ---- run -------------------------------------------------------------------------------------------------------------
FROM nvidia/cuda:${CUDA}-runtime-ubuntu24.04
ENV DEBIAN_FRONTEND=noninteractive
# wget: KubeRay's probes of a node; tini: ends what a node has started when the container is stopped
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.12 tini wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin raygrad
COPY --from=build /opt/raygrad /opt/raygrad
ENV PATH=/opt/raygrad/bin:$PATH PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /home/raygrad
EXPOSE 8786
HEALTHCHECK --interval=15s --timeout=3s --start-period=60s \
    CMD wget -qO /dev/null http://127.0.0.1:8786/healthz \
    || wget -qO /dev/null --no-check-certificate https://127.0.0.1:8786/healthz
ENTRYPOINT ["tini", "--"]
# docker run --gpus all --shm-size=4g --env RAYGRAD_TOKEN ...
CMD ["raygrad", "serve", "--host", "0.0.0.0", "--on", "ray"]
