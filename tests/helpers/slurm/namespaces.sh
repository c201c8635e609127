#!/bin/bash
# Runs a job script on two nodes of this machine: each is a network, process and mount namespace of its own, with its own
# address, host name and /tmp; files elsewhere are shared. Needs root.
#     namespaces.sh JOB_SCRIPT [ARGUMENTS ...]
# With it `ray symmetric-run`, which ends all Ray processes that it sees and takes a node for what has its own address,
# can be tried without a cluster.
set -euo pipefail
folder=$(mktemp -d)
clean_up() {
  set +e
  # The first process of each namespace, and with it all in there, before the network goes.
  for pid in "$folder"/*.pid; do [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null; done
  for node in 1 2; do
    ip link del "node$node" 2>/dev/null
    ip netns del "node$node" 2>/dev/null
  done
  ip link del nodes0 2>/dev/null
  rm -rf "$folder"
}
trap clean_up EXIT

ip link add nodes0 type bridge
ip link set nodes0 up
for node in 1 2; do
  ip netns add "node$node"
  ip link add "node$node" type veth peer name eth0 netns "node$node"
  ip link set "node$node" master nodes0 up
  ip -n "node$node" address add "10.98.0.$node/24" dev eth0
  ip -n "node$node" link set eth0 up
  ip -n "node$node" link set lo up
done

cat > "$folder/scontrol" <<'END'
#!/bin/bash
printf '10.98.0.1\n10.98.0.2\n'
END
cat > "$folder/srun" <<END
#!/bin/bash
folder=$folder
END
cat >> "$folder/srun" <<'END'
while [[ $1 == --* ]]; do shift; done
for node in 1 2; do
  SLURM_PROCID=$((node - 1)) ip netns exec "node$node" unshare --uts --pid --mount --fork --mount-proc --kill-child \
    bash -c 'hostname "$0"; mount -t tmpfs tmpfs /tmp; exec "$@"' "node$node" "$@" > >(sed -u "s/^/node$node: /") 2>&1 &
  steps+=($!)
  echo $! > "$folder/$node.pid"
done
for step in "${steps[@]}"; do wait "$step"; done
END
chmod +x "$folder/scontrol" "$folder/srun"
PATH=$folder:$PATH SLURM_JOB_ID=4711 SLURM_JOB_NODELIST='node[1-2]' SLURM_NNODES=2 SLURM_CPUS_PER_TASK=1 bash "$@"
