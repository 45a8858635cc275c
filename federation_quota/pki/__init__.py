"""Certificates for the webhook: who signs them, who trusts them, and how they change without a failed call.

Here: an authority of our own and the leaves it signs (`authority`), its rotation as a state machine (`rotation`), how
that state is kept in a Secret (`secret`), whom the API servers are told to trust (`publishing`, and `following` for
certificates that others issue), where a process gets the pair it serves (`source`), and TLS that changes its
certificate while it serves (`serving`).

Never here: HTTP, API clients, leader election. What these modules need to know of a cluster comes to them as values,
and what they want done goes back as values; `controllers` and `webhook` carry both. Private keys exist in the Secret,
in the memory of the processes that sign and serve, and nowhere else: not on disk, not in logs, not in a `repr`.

One rule runs through all of it: an authority is trusted everywhere before anything signed by it is served, and for as
long as anything signed by it may be.
"""
