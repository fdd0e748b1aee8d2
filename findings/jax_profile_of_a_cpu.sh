#!/bin/bash
# A profile that jax.profiler.trace records on a CPU names no op in jax 0.4.30. The same program with
# jax 0.10.2 has one event for each op that ran, with the stats `hlo_op` and `hlo_module`.
#
# Expected before the first run: both versions record the ops, as both do on GPUs and TPUs.
#
# Seen on Linux x86-64, Python 3.11 (events with `hlo_op`, of 5 calls; whether the plane
# /host:metadata has the stat `jax_version`):
#
#     0.4.30: 0 events, no jax_version
#     0.10.2: 20 events, jax_version
#
# Usage: bash findings/jax_profile_of_a_cpu.sh   (needs python3 and PyPI; exit code 0 if as above)
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'PROGRAM'
import sys

import jax
import jax.numpy as jnp


@jax.jit
def total(x):
    return jnp.sort(jnp.sin(x) @ x).sum()


x = jnp.ones((64, 64))
total(x).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for _ in range(5):
        total(x).block_until_ready()
PROGRAM
cat >"$folder/read.py" <<'PROGRAM'
import pathlib
import sys

from jax.profiler import ProfileData

(file,) = pathlib.Path(sys.argv[1]).rglob("*.xplane.pb")
profile = ProfileData.from_file(str(file))
ops, has_version = 0, False
for plane in profile.planes:
    has_version |= "jax_version" in dict(plane.stats)
    for line in plane.lines:
        ops += sum("hlo_op" in dict(event.stats) for event in line.events)
print(f"{sys.argv[2]}: {ops} events, {'jax_version' if has_version else 'no jax_version'}")
PROGRAM
declare -A numpy=([0.4.30]=1.26.4 [0.10.2]=2.3.5)
for version in 0.4.30 0.10.2; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check \
        "jax==$version" "jaxlib==$version" "numpy==${numpy[$version]}"
    JAX_PLATFORMS=cpu "$folder/$version/bin/python" "$folder/program.py" "$folder/profile-$version"
done
for version in 0.4.30 0.10.2; do
    "$folder/0.10.2/bin/python" "$folder/read.py" "$folder/profile-$version" "$version"
done | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
0.4.30: 0 events, no jax_version
0.10.2: 20 events, jax_version
SEEN
