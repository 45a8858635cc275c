"""The names of what is limited, and which of them mean the same.

Users write limits as Kubernetes' ResourceQuota lets them; usage is counted under one canonical name each. Whether a
name may stand in a quota at all is a matter of validation, not of this module.
"""

from typing import Final

REQUESTS: Final = "requests."
COUNT: Final = "count/"
PODS: Final = "pods"
ADMISSION: Final = "admission."
"""Before the name of a resource: what is asked for of it, waiting workloads included, where a quota limits that too."""
GPU_MEMORY: Final = "quota.karmada.io/gpu-memory"

# Kubernetes' older names for what is counted per object: `services` is `count/services`.
OBJECT_COUNTS: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
_GPU_MEMORY_ALIASES: Final = frozenset({"nos.nebuly.com/gpu-memory", "n8s.nebuly.ai/gpu-memory"})


def canonical(name: str) -> str:
    """The one name that usage is counted under: `requests.cpu` is `cpu`, `services` is `count/services`."""
    bare = name.removeprefix(REQUESTS)
    if bare in OBJECT_COUNTS:
        return COUNT + bare
    return GPU_MEMORY if bare in _GPU_MEMORY_ALIASES else bare


def object_count(resource: str, group: str) -> str:
    """The name under which objects of a resource are counted: `count/deployments.apps`, `count/services`."""
    return f"{COUNT}{resource}.{group}" if group else f"{COUNT}{resource}"
