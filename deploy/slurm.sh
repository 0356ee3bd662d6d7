#!/bin/bash
# A program on several nodes of a Slurm cluster, unchanged:  sbatch deploy/slurm.sh train.py --epochs 3
#
# The first node runs Ray's head, the program and some workers; the others run workers. Ray ends with the job.
#SBATCH --job-name=raygrad
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --exclusive
set -euo pipefail

if (($# == 0)); then
    echo "usage: sbatch $0 SCRIPT [ARGUMENTS]..." >&2
    exit 2
fi
if [[ -z ${SLURM_JOB_ID:-} ]]; then
    echo "$0 runs as a job of Slurm: sbatch $0 $*" >&2
    exit 2
fi

# An environment with raygrad[ray] that all nodes see
source "${RAYGRAD_ENV:-$HOME/raygrad-env}/bin/activate"

# A Ray of this job's own: a port and a token that other jobs on the same nodes do not have
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p) # not `head`, which ends before what feeds it
port=$((20000 + SLURM_JOB_ID % 20000))
umask 077
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
folder=/tmp/ray-$SLURM_JOB_ID # not $TMPDIR: Ray's sockets need a short path

pids=()
finish() {
    if ((${#pids[@]})); then
        kill "${pids[@]}" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
}
trap finish EXIT

cpus=${SLURM_CPUS_PER_TASK:-1}
gpus=${SLURM_GPUS_ON_NODE:-0}
srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    ray start --head --block --node-ip-address="$head" --port="$port" --temp-dir="$folder" \
    --num-cpus="$cpus" --num-gpus="$gpus" --include-dashboard=false &
pids+=("$!")

# The head answers before the others join
for ((second = 0; ; second++)); do
    if (exec 3<>"/dev/tcp/$head/$port") 2>/dev/null; then
        break
    fi
    if ((second == 120)) || ! kill -0 "${pids[0]}" 2>/dev/null; then
        echo "Ray's head did not start on $head: see $folder/session_latest/logs there" >&2
        exit 1
    fi
    sleep 1
done

if ((SLURM_JOB_NUM_NODES > 1)); then
    others=$((SLURM_JOB_NUM_NODES - 1))
    srun --nodes="$others" --ntasks="$others" --ntasks-per-node=1 --exclude="$head" --overlap \
        ray start --block --address="$head:$port" --num-cpus="$cpus" --num-gpus="$gpus" &
    pids+=("$!")
fi

# Sessions that name no number of workers get one for each CPU: wait until all nodes have joined
python - "$head:$port" "$SLURM_JOB_NUM_NODES" <<'END'
import sys, time
import ray

ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
deadline = time.monotonic() + 180
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    if time.monotonic() > deadline:
        sys.exit("not all nodes have joined Ray within 180 s")
    time.sleep(0.5)
END

raygrad run --on "ray:$head:$port" "$@"
