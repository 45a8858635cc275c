"""All simulations: what `make test` runs some seeds of, and `make soak` thousands."""

import logging

import structlog

from tests.pki import simulation as rotation
from tests.simulation import audit, deliberation_mutations, grove, mutations, scenario, tenant_mutations, tenants
from tests.simulation.simulation import Outcome, Simulation, violation_in


def _run_protocol(seed: int) -> Outcome:
    world = scenario.Scenario(seed)
    return Outcome(violation_in(world.run()), world.world.counts)


def _run_audit(seed: int) -> Outcome:
    world = scenario.Scenario(seed)
    violation = violation_in(audit.run(world, seed))
    return Outcome(violation, {**world.world.counts, "binding event": len(world.world.binding_events)})


def _run_tenants(seed: int) -> Outcome:
    # Much goes wrong there, and is logged each time.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    world = tenants.Scenario(seed)
    try:
        violation = violation_in(world.run())
    finally:
        structlog.reset_defaults()
    return Outcome(violation or world.world.violation, world.world.counts)


def _run_deliberation(seed: int) -> Outcome:
    world = grove.World(seed)
    return Outcome(violation_in(world.run()), world.counts)


PROTOCOL = Simulation(
    "protocol",
    _run_protocol,
    (
        "Allowed",
        "Denied",
        "Later",
        "Exists",
        "conflict",
        "lost answer",
        "relist",
        "legacy",
        "unbound",
        "advance",
        "advance of an owner",
        "two domains",
        "another leaf",
        "owner",
        "limits",
        "as before",
        "opened",
        "removed",
    ),
    mutations.ALL,
)
"""Nothing is ever over-admitted or leaked."""

AUDIT = Simulation("audit", _run_audit, ("binding event", "smuggled"), reaches=("federation_quota/ledger/audit.py",))
"""The audit reports what nobody reserved for, and nothing else."""

TENANTS = Simulation(
    "tenants",
    _run_tenants,
    ("Allowed", "Objection", "Denied", "Later", "conflict", "lost answer", "late write", "crash", "leave"),
    tenant_mutations.ALL,
)
"""A validator sees one request of a tenant at a time, and is told all that the tenant uses."""

DELIBERATION = Simulation(
    "deliberation", _run_deliberation, ("200", "422", "429", "lost", "again"), deliberation_mutations.ALL
)
"""Of changes to a tree that fit only one by one, never two are stored."""

ROTATION = Simulation("rotation", rotation.run, ("promotion", "leaf"), rotation.MUTATIONS)
"""At every instant every leaf that is served verifies with every bundle that an API server uses."""

SIMULATIONS = {one.name: one for one in (PROTOCOL, AUDIT, TENANTS, DELIBERATION, ROTATION)}
