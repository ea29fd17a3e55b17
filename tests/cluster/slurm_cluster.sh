#!/usr/bin/env bash
# A real Slurm cluster of two nodes on this machine, for tests. Each node is a network namespace
# with a host name and a slurmd of its own; a bridge joins them, with slurmctld on its side. File
# system and CPUs are this machine's.
#
#   slurm_cluster.sh check         says what is missing and exits 77, or exits 0
#   slurm_cluster.sh up            starts munged, slurmctld and both slurmd, and waits for the nodes
#   slurm_cluster.sh run CMD ...   runs a command with this cluster's settings (sbatch, squeue, ...)
#   slurm_cluster.sh down          cancels the jobs and removes everything again
#
# LONGSHIP_CLUSTER   the folder for configuration, sockets, logs (default: /tmp/longship-cluster)
set -euo pipefail

folder=${LONGSHIP_CLUSTER:-/tmp/longship-cluster}
nodes=(node1 node2)
bridge=lsbridge
network=10.213.7
cpus_per_node=4

say() { printf 'slurm_cluster: %s\n' "$*" >&2; }
namespace() { echo "ls-$1"; }

check() {
  local program missing=()
  if [ "$(id -u)" -ne 0 ]; then
    say "network namespaces need root"
    exit 77
  fi
  for program in slurmctld slurmd sbatch srun munged ip nsenter unshare mpirun; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    say "not installed: ${missing[*]} (Debian: apt-get install slurmctld slurmd slurm-client munge" \
      "iproute2 openmpi-bin)"
    exit 77
  fi
  if ! ip netns add ls-check 2>/dev/null; then
    say "this machine does not allow network namespaces"
    exit 77
  fi
  ip netns delete ls-check
  if ip link show "$bridge" >/dev/null 2>&1; then
    say "a cluster is up already: $0 down"
    exit 77
  fi
}

# start NAME COMMAND ...: in the background, with a log and a pid file; the pid is the command's own.
start() {
  local name=$1
  shift
  setsid "$@" >"$folder/$name.out" 2>&1 </dev/null &
  echo $! >"$folder/$name.pid"
}

write_configuration() {
  local node index
  dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
  chmod 400 "$folder/munge.key"
  # cred_expire is also how long a requeued job waits before it may start again.
  cat >"$folder/slurm.conf" <<EOF
ClusterName=longship
SlurmctldHost=control($network.254)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=15
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.own-pid
SlurmdPidFile=$folder/slurmd-%n.own-pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=10
MailProg=/bin/true
EOF
  index=0
  for node in "${nodes[@]}"; do
    index=$((index + 1))
    echo "NodeName=$node NodeAddr=$network.$index CPUs=$cpus_per_node RealMemory=1000 State=UNKNOWN"
  done >>"$folder/slurm.conf"
  echo "PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP" >>"$folder/slurm.conf"
  # The nodes share one file system, so each needs a folder of its own for PMIx.
  for node in "${nodes[@]}"; do
    mkdir -p "$folder/$node" "$folder/$node/pmix"
    cp "$folder/slurm.conf" "$folder/$node/slurm.conf"
    echo "PMIxCliTmpDirBase=$folder/$node/pmix" >"$folder/$node/mpi.conf"
  done
}

make_network() {
  local node index=0
  ip link add "$bridge" type bridge
  ip address add "$network.254/24" dev "$bridge"
  ip link set "$bridge" up
  for node in "${nodes[@]}"; do
    index=$((index + 1))
    ip netns add "$(namespace "$node")"
    ip link add "ls-v$index" type veth peer name eth0 netns "$(namespace "$node")"
    ip link set "ls-v$index" master "$bridge" up
    ip -n "$(namespace "$node")" address add "$network.$index/24" dev eth0
    ip -n "$(namespace "$node")" link set eth0 up
    ip -n "$(namespace "$node")" link set lo up
  done
}

wait_for_nodes() {
  local tries
  for tries in $(seq 120); do
    if [ "$(run sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -eq ${#nodes[@]} ]; then
      return 0
    fi
    sleep 0.5
  done
  say "the nodes did not come up within a minute; logs are in $folder"
  run sinfo -N -l >&2 || true
  return 1
}

up() {
  check
  mkdir -p "$folder/state"
  chmod 755 "$folder"
  write_configuration
  make_network
  start munged munged --foreground --force --key-file="$folder/munge.key" \
    --socket="$folder/munge.socket" --pid-file="$folder/munged.own-pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" --num-threads=2
  local tries
  for tries in $(seq 100); do
    [ -S "$folder/munge.socket" ] && break
    sleep 0.1
  done
  start slurmctld unshare --uts sh -c \
    'hostname control && exec slurmctld -D -c -f "$1"' sh "$folder/slurm.conf"
  # `ip netns exec` would hide the cgroup file systems, so the namespace is entered with nsenter.
  local node
  for node in "${nodes[@]}"; do
    start "slurmd-$node" nsenter --net="/run/netns/$(namespace "$node")" unshare --uts sh -c \
      'hostname "$1" && exec slurmd -D -N "$1" -f "$2"' sh "$node" "$folder/$node/slurm.conf"
  done
  wait_for_nodes
}

run() { SLURM_CONF="$folder/slurm.conf" "$@"; }

stop() {
  local file=$1 pid tries
  [ -s "$file" ] || return 0
  pid=$(<"$file")
  kill "$pid" 2>/dev/null || return 0
  for tries in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
}

down() {
  local file node index=0
  if [ -f "$folder/slurmctld.pid" ]; then
    run timeout 10 scancel --full -u root 2>/dev/null || true
    for _ in $(seq 40); do
      [ -z "$(run timeout 10 squeue -h 2>/dev/null)" ] && break
      sleep 0.5
    done
  fi
  for file in "$folder"/slurmd-*.pid "$folder"/slurmctld.pid "$folder"/munged.pid; do
    [ -e "$file" ] && stop "$file"
  done
  for node in "${nodes[@]}"; do
    index=$((index + 1))
    ip link delete "ls-v$index" 2>/dev/null || true
    ip netns delete "$(namespace "$node")" 2>/dev/null || true
  done
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "${folder:?}"
}

case ${1:-} in
  check) check ;;
  up) up ;;
  run) shift && run "$@" ;;
  down) down ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
