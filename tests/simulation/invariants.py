"""What must be true of a simulated world, whatever happens in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from federation_quota.accounting.answer import Denied
from federation_quota.binding import Binding, ObjectKey
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask, Books
from federation_quota.limits import usage
from federation_quota.limits.scheme import NO_LIMITS
from federation_quota.resource_name import canonical
from federation_quota.resources import Resources
from tests.simulation.violation import Violation
from tests.simulation.world import Decision, World, claims_in


@dataclass(frozen=True)
class Moment:
    """What was stored when somebody asked, and how much had happened."""

    bindings: dict[ObjectKey, Binding]
    binding_events: int
    accounts: dict[str, Account]
    account_events: int
    schemes: int

    @classmethod
    def of(cls, world: World) -> "Moment":
        """This one."""
        return cls(
            dict(world.bindings),
            len(world.binding_events),
            dict(world.accounts),
            len(world.account_events),
            len(world.schemes),
        )


def asked_in(place: str, asks: Mapping[str, Ask]) -> Iterator[tuple[str, Ask]]:
    """What was asked for in a domain, and of which binding by the name that it has there."""
    for where, ask in asks.items():
        if where == place:
            yield ask.binding, ask
        elif domain.is_usage(place) and domain.is_namespace(where):
            yield f"{where}/{ask.binding}", ask


class Invariants:
    """What is held against one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def check(self, decision: Decision) -> None:
        """With all that was stored, all that was admitted and did arrive later, and what is unbound, it fitted."""
        account, ours = decision.account, decision.reservation
        arrived = [one for one in decision.flights if one.stored_at is not None]
        if not any(flight.id == ours.id for flight in arrived):
            return  # what was admitted never came to be
        claims = {name: [claim] for name, claim in decision.stored.items()}
        for flight in arrived:
            for name, ask in asked_in(account.namespace, flight.asks):
                claims.setdefault(name, []).append(ask.new)
        total = account.unbound
        for several in claims.values():
            accounted = Resources()
            for claim in several:
                accounted = accounted.maximum(account.lens.cost(claim))
            total = total + accounted
        before = decision.stored.get(ours.binding, NO_CLAIM)
        for name, limit in account.limits.items():
            resource = canonical(name)
            is_increase = account.lens.cost(ours.claim)[resource] > account.lens.cost(before)[resource]
            if is_increase and total[resource] > limit:
                raise Violation(f"{account.name}: {name} reaches {total[resource]} of {limit} at {decision.at:.2f}")

    def check_denial(self, answer: Denied, called: tuple[str, Ask], asked_at: Moment) -> None:
        """A refusal stands on what was stored at some time since it was asked for, whatever the view has missed.

        And names a limit that is really exceeded by what it says is used and asked.
        """
        quota, place, world = answer.denial.quota, answer.denial.namespace, self.world
        ask = replace(called[1], binding=called[0])
        found = [asked_at.accounts.get(quota)]
        found += [one for _, name, one in world.account_events[asked_at.account_events :] if name == quota]
        schemes = world.schemes[asked_at.schemes - 1 :] if domain.is_usage(place) else [NO_LIMITS]
        accounts = [one and usage.fitted(one, each) for one in found for each in schemes]
        stored = dict(asked_at.bindings)
        explained = self.explains(accounts, claims_in(place, stored.values()), ask)
        for binding, is_gone in world.binding_events[asked_at.binding_events :]:
            stored.pop(binding.key, None)
            if not is_gone:
                stored[binding.key] = binding
            explained = explained or self.explains(accounts, claims_in(place, stored.values()), ask)
        if not explained:
            raise Violation(f"{quota}: {ask} was refused at {world.now:.2f}, and would have fitted all the time")
        for one in answer.denial.exceeded:
            if one.used + one.requested <= one.limit:
                self.world.note("denial after a stale review")

    @staticmethod
    def explains(accounts: list[Account | None], stored: dict[str, Claim], ask: Ask) -> bool:
        """Whether the ask is too much for one of the accounts beside these bindings."""
        for account in accounts:
            if account is None:
                continue
            total = (
                account.lens.cost(ask.new).maximum(account.lens.cost(stored.get(ask.binding, NO_CLAIM)))
                + account.unbound
            )
            for name, claim in stored.items():
                if name != ask.binding:
                    total = total + account.lens.cost(claim)
            if any(total[canonical(name)] > limit for name, limit in account.limits.items()):
                return True
        return False

    def check_nothing_leaked(self) -> None:
        for replica in self.world.replicas.values():
            for account in map(self.world.fitted, self.world.accounts.values()):
                if account.reservations or account.advances:
                    raise Violation(f"{account.name} still holds {account.reservations} and {account.advances}")
                books = Books(account, replica.observation.view)
                expected = self.world.spent(account) + account.unbound
                if books.used != expected:
                    raise Violation(f"{account.name}: used {books.used}, stored and unbound {expected}")
