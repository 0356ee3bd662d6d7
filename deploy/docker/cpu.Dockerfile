# syntax=docker/dockerfile:1
# raygrad with Ray on CPUs: for the head, the workers and the server alike. Built from the repository's root:
#
#   docker build -f deploy/docker/cpu.Dockerfile -t raygrad:0.1.0-cpu .

ARG PYTHON=3.12.11

# ---- build: wheels of raygrad and of what it needs, in exact versions ------------------------------------------------
FROM python:${PYTHON}-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/raygrad
COPY deploy/docker/constraints.txt /build/constraints.txt
# ray[default]: the dashboard's agent, which KubeRay's probes and Ray's autoscaler ask
RUN /opt/raygrad/bin/pip install --constraint /build/constraints.txt "setuptools>=77" "ray[default]" grpcio
COPY pyproject.toml README.md LICENSE /build/raygrad/
COPY src /build/raygrad/src
COPY autograd /build/raygrad/autograd
COPY proto /build/raygrad/proto
COPY scheduler /build/raygrad/scheduler
COPY workers /build/raygrad/workers
RUN /opt/raygrad/bin/pip install --constraint /build/constraints.txt "/build/raygrad[ray]"

# ---- run -------------------------------------------------------------------------------------------------------------
FROM python:${PYTHON}-slim-bookworm
# wget: KubeRay's probes of a node; tini: ends what a node has started when the container is stopped
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin raygrad
COPY --from=build /opt/raygrad /opt/raygrad
ENV PATH=/opt/raygrad/bin:$PATH PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
USER 10001:10001
WORKDIR /home/raygrad
EXPOSE 8786
HEALTHCHECK --interval=15s --timeout=3s --start-period=60s \
    CMD wget -qO /dev/null http://127.0.0.1:8786/healthz \
    || wget -qO /dev/null --no-check-certificate https://127.0.0.1:8786/healthz
ENTRYPOINT ["tini", "--"]
# Ray keeps objects in /dev/shm: docker run --shm-size=4g. A token is required: docker run --env RAYGRAD_TOKEN ...
CMD ["raygrad", "serve", "--host", "0.0.0.0", "--on", "ray"]
