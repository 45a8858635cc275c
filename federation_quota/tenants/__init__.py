"""Tenants: whose a namespace is, which replica of the webhook judges a tenant's requests, and what it has let through.

A validator sees one request of a tenant at a time. Among the replicas that is decided by a *title*, a Lease for each
tenant that says who holds it (`title`); within a replica, by who is next in line, which is the webhook's business.
What was allowed and has not been seen in the store is kept by the holder, and goes along with the title (`grants`).

Pure. Called by the webhook, and by a simulation.
"""
