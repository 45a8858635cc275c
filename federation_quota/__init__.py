"""Quota for whole Kubernetes federations: the library that both deployables stand on.

Three rings, checked by import-linter (`pyproject.toml`):

1. the pure domain (`quantity` and what follows it): values and decisions, with no I/O, no clock and no event loop;
2. Kubernetes plumbing, which moves those values between the domain and API servers;
3. `controllers` and `webhook`, two top-level packages that wire the first two together and know nothing of each other.
"""
