"""Pure: the environment variables that each rank of an attempt gets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jtrain.domain.devices import Device
from jtrain.domain.spec import RunSpec

_SECRET = re.compile(r"token|secret|passw|passphrase|credential|api_?key|access_?key|private", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a variable of that name may hold a secret, so that its value is never written down."""
    return bool(_SECRET.search(name))


def threads_per_rank(environ: Mapping[str, str], usable_cpus: int, world_size: int) -> int:
    """`OMP_NUM_THREADS` when the user set it, else an equal share of the CPUs, at least one."""
    given = environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return max(1, usable_cpus // world_size)


def rank_environments(
    spec: RunSpec, devices: Sequence[Device], *, attempt: int, port: int, threads: int
) -> dict[int, dict[str, str]]:
    """Variables for every local rank: torch's rendezvous, Accelerate's launch, and the devices by UUID.

    One rank per device. `port` is that of the store the supervisor hosts; ranks only connect to it
    (`TORCHELASTIC_USE_AGENT_STORE`, torch.distributed.rendezvous).
    """
    options = spec.options
    world_size = len(devices)
    on_gpu = devices[0].kind != "cpu" and not devices[0].is_simulated
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": spec.id,
        "TORCHELASTIC_RESTART_COUNT": str(attempt - 1),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(world_size),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": str(threads),
        "ACCELERATE_MIXED_PRECISION": options.precision,
        "ACCELERATE_USE_CPU": str(not on_gpu).lower(),
        "JTRAIN_RUN_ID": spec.id,
        "JTRAIN_ATTEMPT": str(attempt),
    }
    shared["CUDA_VISIBLE_DEVICES"] = ",".join(device.uuid for device in devices) if on_gpu else ""
    if options.accumulate != 1:  # Accelerate prefers it even to what a script's own Accelerator(…) is given
        shared["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = str(options.accumulate)
    shared |= options.env
    return {rank: {**shared, **_own(rank, devices[rank])} for rank in range(world_size)}


def _own(rank: int, device: Device) -> dict[str, str]:
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank)}
    if device.kind == "mig":
        # CUDA shows a process one slice at most, so each rank sees its own as device 0 (CUDA's MIG user guide).
        own |= {"CUDA_VISIBLE_DEVICES": device.uuid, "LOCAL_RANK": "0"}
    return own
