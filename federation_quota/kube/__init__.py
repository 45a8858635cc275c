"""The plumbing ring: how the domain meets a Kubernetes API server.

Bytes, connections, watches, leases. What lives here knows the domain's values and hands them over; the domain knows
nothing of it. No rule about quota is decided here.
"""
