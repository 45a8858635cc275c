"""Faults on a real federation under load, and a checker that looks for what must never come of them.

`make faults` (docs/faults.md). Three parts that know little of each other: the load (`load`), the faults (`faults`,
on a `ground`), and the checker (`charge`, `history`, `checker`), which judges from what etcd stored and what clients
were told. The checker uses nothing of the product's: what a binding costs is worked out here a second time.
"""
