"""One replica's accountant: every ask, through every account that it falls under, all or nothing.

A binding is charged in several domains at once (`ledger.domain`), with an ask for each. The accounts that they fall
under may change while it waits for some of them. It is answered only at a moment when it has been through every account
known then, and is noted in the journal at that same moment: whichever account turns up later is brought the note.

Whose accounts it falls under besides, its user's and its group's, follows from the limits as this replica knows them at
that moment. An account of theirs that is not there yet is opened, and asked like any other: nobody is let past a limit
because nobody had come before. One that stands by earlier limits is asked, too, even where it has no say any more: the
earlier ones may come back, or be all that another replica knows of, and must not count without what was let through
meanwhile. What is under a leaf of which this replica does not know where in a tree it stands is asked for again, and
never let through.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, cast

from federation_quota.accounting.answer import Allowed, Answer, Denied, Exists, Later
from federation_quota.accounting.committer import Committer
from federation_quota.accounting.meter import Meter, NoMeter
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.outcome import Judgement, Overdrawn, Undecided
from federation_quota.accounting.roll import Roll
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.ledger import advance, domain, joining, settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Admitted, Ask, Books, Proof, Refused
from federation_quota.ledger.legacy import Legacy
from federation_quota.limits import usage
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.limits.subject import Subject, counting_for

# There may be thousands: all at once they would wait for each other until each has waited too long.
_GIVE_BACK_AT_ONCE: Final = 32
# For how long somebody who has gone may still be given of what was taken: it is ended like all that was theirs.
_ROLL_SECONDS: Final = 30.0


class _Place(NamedTuple):
    """One domain in which something is asked for."""

    domain: str
    ask: Ask
    subject: Subject | None = None  # whose account there has to be


class Accountant:
    """The accounts of the federation, as one replica deals with them."""

    def __init__(
        self,
        *,
        replica: Callable[[], str],  # its name now: one that was lost sight of comes back under another
        observation: Observation,
        store: Store,
        tasks: asyncio.TaskGroup,
        is_present: Callable[[], bool],
        expiry_seconds: float = settling.EXPIRY_SECONDS,
        meter: Meter = NoMeter(),  # noqa: B008 - it keeps nothing
        terms: advance.Terms = advance.Terms(),  # noqa: B008 - frozen
        lasting: advance.Terms = advance.LASTING,
    ) -> None:
        self._replica = replica
        self._observation = observation
        self._store = store
        self._roll = Roll(store, _ROLL_SECONDS)
        self._tasks = tasks
        # Whether the others still count this replica as alive: if they may not, a new account may be active without it.
        self._is_present = is_present
        self._meter = meter
        self._terms = terms
        self._lasting = lasting  # of users and groups
        self._recent: deque[float] = deque(maxlen=terms.busy_admissions)
        # Longer than a write can take: a watch may stall unnoticed for more than a minute, and an account that is new
        # then has neither the reservation nor, in any view, the binding.
        self._journal = joining.Journal(3 * expiry_seconds)
        self._expiry = settling.Expiry(expiry_seconds)
        self._committers: dict[str, dict[str, Committer]] = {}
        self._schemes = NO_LIMITS
        self._trees: set[str] = set()  # of which there ever was an account of anybody's

    def limit(self, schemes: Schemes) -> None:
        """The limits of users and groups are these from now on; what is stored is charged to them anew."""
        is_same = schemes.by_tree == self._schemes.by_tree
        self._schemes = schemes
        if is_same:
            return
        self._observation.charge_to(schemes.domains if schemes.by_tree else None)
        for place, here in self._committers.items():
            if domain.is_usage(place):
                for committer in here.values():
                    committer.fit()

    def learn(self, account: Account) -> None:
        """An account as the watch saw it."""
        here = self._committers.setdefault(account.namespace, {})
        if usage.is_usage(account):
            self._trees.add(usage.kept(account).subject.tree)
        known = here.get(account.name)
        if known is not None and known.account is not None:
            known.learn(account)
            return
        committer = Committer(
            account,
            replica=self._replica,
            observation=self._observation,
            store=self._store,
            roll=self._roll,
            journal=self._journal,
            expiry=self._expiry,
            meter=self._meter,
            terms=self._lasting if domain.is_usage(account.namespace) else self._terms,
            recent=self._recent,
            fitted=lambda account: usage.fitted(account, self._schemes),
        )
        here[account.name] = committer
        self._tasks.create_task(committer.run(), name=f"account {account.namespace}/{account.name}")

    def forget(self, namespace: str, name: str, version: int) -> None:
        """The watch saw that account deleted, at that version.

        An account that was recreated since, and that this replica knows and may have joined already, stays.
        """
        here = self._committers.get(namespace, {})
        committer = here.get(name)
        if committer is None or (committer.account is not None and int(committer.account.version) > version):
            return
        del here[name]
        committer.learn(None)
        self._expiry.forget(namespace, name)
        if not here:
            del self._committers[namespace]

    def rewind(self, concerns: Callable[[str], bool] = lambda _domain: True) -> None:
        """The store was restored from the past: what is known of accounts may never have been. A list follows.

        Where there are several lists, each is of the domains that it `concerns`.
        """
        for place in [one for one in self._committers if concerns(one)]:
            for committer in self._committers.pop(place).values():
                committer.learn(None)

    def accounts(self, namespace: str) -> list[Account]:
        """The accounts of a namespace, as this replica knows them."""
        known = (committer.account for committer in self._committers.get(namespace, {}).values())
        return sorted((account for account in known if account is not None), key=lambda account: account.name)

    def committers(self) -> list[Committer]:
        """One for every account that is known, in order."""
        return [here[name] for _, here in sorted(self._committers.items()) for name in sorted(here)]

    def overdue_seconds(self) -> float:
        """For how long somebody has waited beyond their deadline."""
        return max((one.overdue_seconds() for one in self.committers()), default=0.0)

    def reservation_age_seconds(self, account: Account, identifier: str) -> float | None:
        """How long this replica has seen that reservation."""
        return self._expiry.age_seconds(account, identifier, asyncio.get_running_loop().time())

    async def give_back(self, timeout_seconds: float) -> None:
        """Before this replica goes, and after its last answer: what it was advanced is for others."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                # Of users and groups, who hold on to theirs for long anyhow, as far as there is time.
                remaining = sorted(self.committers(), key=lambda one: domain.is_usage(one.domain))
                while remaining:
                    some, remaining = remaining[:_GIVE_BACK_AT_ONCE], remaining[_GIVE_BACK_AT_ONCE:]
                    await asyncio.gather(*(one.give_back() for one in some))
                # What this view has yet to see stored would have to be left to others, one by one.
                while places := list(self.legacy().admissions):
                    await self._observation.changed(places[0], self._observation.changes)

    def legacy(self) -> Legacy:
        """What this replica would still bring to new accounts, for when it leaves; nothing may be admitted after it."""
        view = self._observation.view
        admissions = self._journal.all_recent(view, asyncio.get_running_loop().time())
        return Legacy(view.newest(*view.namespaces()), admissions)

    async def answer(
        self,
        asks: Mapping[str, Ask],
        *,
        deadline: float,
        dry_run: bool = False,
        may_exceed: Callable[[str, str], bool] = lambda _domain, _name: False,
    ) -> Answer:
        """Whether one binding gets what it asks for in every domain; if so, everything that this takes was written.

        The asks are of one call, and have one id. `may_exceed` tells by domain and name whether an account only warns.
        """
        if (repeated := await self._repeated(asks)) is not None:
            return repeated
        passage = _Passage(self._unplaced(asks))
        while passage.answer is None and (step := self._next(asks, passage)) is not None:
            place, committer = step
            if committer is None and dry_run:
                passage.foreseen.add(place.domain)
                passage.answer = await self._foresee(place, may_exceed)
            elif committer is None:
                passage.answer = await self._open(place, deadline)
            else:
                may = may_exceed(committer.domain, committer.name)
                judgement = await committer.submit(place.ask, deadline, dry_run=dry_run, may_exceed=may)
                passage.take(committer, judgement)
            passage.answer = passage.answer or self._unplaced(asks)
        if passage.answer is None and not self._is_present():
            passage.answer = Later("this replica has lost touch with the API server")
        if passage.answer is None:
            # The same moment as the last look at the accounts: nothing is awaited in between.
            if not dry_run:
                for where, ask in asks.items():
                    if ask.increases:
                        self._journal.note(where, ask.reservation, asyncio.get_running_loop().time())
            return Allowed(tuple(passage.warnings))
        if not dry_run:
            identifier = next(iter(asks.values())).id
            for committer in passage.reserved:
                committer.take_back(identifier)
        return passage.answer

    async def _repeated(self, asks: Mapping[str, Ask]) -> Answer | None:
        """The answer to a CREATE of what is stored: Karmada sends it twice in normal work, and it must cost nothing."""
        for place, ask in asks.items():
            if ask.uid is not None and self._is_known(place, ask.binding):
                try:
                    look = await self._store.look(place, ask.binding)
                except UnreachableError as problem:
                    return Later(f"whether it exists already could not be told: {problem}")
                if look.version is not None:
                    return Exists()
        return None

    def _outdated(self, ask: Ask) -> Iterable[Subject]:
        """Whose accounts it may have fallen under before, where these may still stand by what was so then."""
        if ask.new.owner is not None:
            for tree in self._trees:
                for subject in counting_for(tree, ask.new.owner):
                    if any(one.is_outdated for one in self._committers.get(subject.domain, {}).values()):
                        yield subject

    def charged(self, claim: Claim) -> list[Account]:
        """The accounts of the user and the group that a claim is charged to; as new where nobody has needed one yet."""
        found = []
        for one in self._schemes.subjects(claim):
            accounts = self.accounts(one.domain)
            found.append(accounts[0] if accounts else usage.fitted(usage.unopened(one), self._schemes))
        return found

    def _unplaced(self, asks: Mapping[str, Ask]) -> Answer | None:
        """Why it cannot be told whose accounts these fall under, if so."""
        for place, ask in asks.items():
            if domain.is_namespace(place) and ask.new.leaf and not self._schemes.knows(ask.new.leaf):
                return Later(f"where in its tree quota {ask.new.leaf} stands is not known here yet")
        return None

    def _is_known(self, place: str, binding: str) -> bool:
        """Whether a binding of that name may be stored, as far as this replica knows."""
        return self._observation.view.get(place, binding) is not None or any(
            committer.expects(binding) for committer in self._committers.get(place, {}).values()
        )

    def _places(self, asks: Mapping[str, Ask]) -> Iterable[_Place]:
        """All domains in which something is asked for, in the one order that all replicas keep."""
        if len(asks) == 1 and not self._trees and not self._schemes.by_tree:
            return [_Place(place, ask) for place, ask in asks.items()]
        found = [_Place(place, ask) for place, ask in asks.items()]
        for place, ask in asks.items():
            if domain.is_namespace(place):
                owned = replace(ask, binding=f"{place}/{ask.binding}")
                subjects = {*self._schemes.subjects(ask.new), *self._outdated(ask)}
                found += (_Place(one.domain, owned, one) for one in subjects)
        return sorted(found, key=lambda one: one.domain)

    def _next(self, asks: Mapping[str, Ask], passage: "_Passage") -> tuple[_Place, Committer | None] | None:
        """The first account that has yet to be passed; no committer where it has yet to be opened."""
        for place in self._places(asks):
            accounts = self.accounts(place.domain)
            if not accounts and place.subject is not None and place.domain not in passage.foreseen:
                return place, None
            for account in accounts:
                if (place.domain, account.name, account.uid, account.shape) not in passage.passed:
                    return place, self._committers[place.domain][account.name]
        return None

    async def _foresee(self, place: _Place, may_exceed: Callable[[str, str], bool]) -> Answer | None:
        """What an account that is missing there would say to a dry run, which opens none; None where it has room."""
        account = usage.fitted(usage.unopened(cast(Subject, place.subject)), self._schemes)
        view = self._observation.view
        verdict = Books(account, view).judge(place.ask)
        if not isinstance(verdict, Refused) or may_exceed(place.domain, account.name):
            return None
        names = [one.name for one in verdict.exceeded]
        is_certain = Proof(account, view, {}).stands(place.ask, verdict)
        try:
            if is_certain and await self._store.limits_stand(account, names):
                return Denied(Denial(account.name, verdict.exceeded, account.namespace, account.title))
        except (ConflictError, UnreachableError) as problem:
            return Later(f"the {account.title} could not be read: {problem}")
        return Later(f"the account of {place.subject} is made when it is first needed")

    async def _open(self, place: _Place, deadline: float) -> Answer | None:
        """Have the account that is missing there; why there is no going on, if so."""
        if place.subject is None or asyncio.get_running_loop().time() >= deadline:
            return Later("who else it is charged to is not known yet")
        try:
            self.learn(await self._store.open(place.subject))
        except (ConflictError, UnreachableError) as problem:
            return Later(f"the account of {place.subject} could not be opened: {problem}")
        return None


class _Passage:
    """One call's way through the accounts."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        # Domain, name, uid and shape: an account that changed is asked again.
        self.passed: set[tuple[str, str, str, str]] = set()
        self.foreseen: set[str] = set()  # of a dry run: the domains whose account is missing
        self.reserved: list[Committer] = []
        self.warnings: list[Denial] = []

    def take(self, committer: Committer, judgement: Judgement) -> None:
        outcome, account = judgement.outcome, judgement.account
        if isinstance(outcome, Admitted | Overdrawn):
            self.reserved.append(committer)
        if isinstance(outcome, Overdrawn):
            self.warnings.append(committer.denial(outcome.exceeded))
        if isinstance(outcome, Refused):
            self.answer = Denied(committer.denial(outcome.exceeded))
        elif isinstance(outcome, Undecided):
            self.answer = Later(f"{committer.title}: {outcome.reason}")
        elif account is not None:
            self.passed.add((committer.domain, committer.name, account.uid, account.shape))
