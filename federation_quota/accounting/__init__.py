"""The ledger at work: asks answered, accounts written, by one replica among several.

Here lives what takes time: waiting for a view, gathering asks into batches, writing accounts under their version and
trying again on a conflict. What is decided is decided in `federation_quota.ledger`; how accounts and bindings are read
and written is behind the `Store` protocol in `store`, so that the same code runs against an API server and, thousands
of times, against a simulated one. The event loop's clock is the only clock.
"""
