"""The asks of one account: gathered while a write is under way, judged together, committed by one write.

One `Committer` per account and replica. It holds the account as last read or written, which may be behind the store:
that is harmless for what is admitted, because admitting writes under the version that was judged; before a refusal the
account is read again.

In busy times, far from the limits, a write also takes an advance (`ledger.advance`), and what fits that is admitted
without one. It is given back when nobody asks for a while, and when somebody else needs the room.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

import structlog

from federation_quota.accounting.membership import Membership
from federation_quota.accounting.meter import Meter
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.outcome import Gone, Judgement, Outcome, Overdrawn, Undecided
from federation_quota.accounting.roll import Roll
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.accounting.treasurer import Treasurer
from federation_quota.ledger import advance, domain, joining, settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import (
    Admitted,
    Ask,
    Books,
    Exceeded,
    Proof,
    Refused,
    Unaffected,
    Unproven,
)
from federation_quota.resources import NOTHING, Resources

log = structlog.get_logger()

MOST_IN_ONE_WRITE = 256
# How long an ask waits for reservations in its way to be proved, or for a binding that nobody can charge to be mended:
# about as long as views lag, with room to spare.
PATIENCE_SECONDS = 2.0
PAUSE_SECONDS = 0.5
# How long a view may be behind before somebody looks whether the store itself went back in time.
SUSPICION_SECONDS = 5.0
# How often an account that is not active yet is looked at again without news of it: replicas also leave silently.
TAKE_UP_SECONDS = 1.0
# How long to leave a store alone that did not answer, or answered that it could not.
RETRY_SECONDS = 0.05


@dataclass(slots=True)
class _Waiting:
    ask: Ask
    deadline: float
    is_dry_run: bool
    may_exceed: bool
    judgement: asyncio.Future[Judgement] = field(repr=False)
    reason: str = "it was not reached in time"
    is_patient: bool = False  # it has met something in its way that may go by itself, and waits for that

    def wait(self, reason: str) -> None:
        """Something is in its way; it waits, but not for as long as the client would."""
        self.reason = reason
        if not self.is_patient:
            self.is_patient = True
            self.deadline = min(self.deadline, asyncio.get_running_loop().time() + PATIENCE_SECONDS)

    def resolve(self, outcome: Outcome, account: Account | None) -> None:
        if not self.judgement.done():
            self.judgement.set_result(Judgement(outcome, account))


class Committer:
    """One account, as one replica deals with it. `run` serves it for as long as the account exists."""

    def __init__(
        self,
        account: Account,
        *,
        replica: Callable[[], str],
        observation: Observation,
        store: Store,
        roll: Roll,
        journal: joining.Journal,
        expiry: settling.Expiry,
        meter: Meter,
        terms: advance.Terms,
        recent: deque[float],
        fitted: Callable[[Account], Account] = lambda account: account,
    ) -> None:
        self.account: Account | None = account
        self.domain = account.namespace
        self.name = account.name
        self.title = account.title
        self._fitted = fitted  # the account of a user or group with the limits that there are now
        self._replica = replica
        self._observation = observation
        self._store = store
        self._roll = roll
        self._expiry = expiry
        self._meter = meter
        self._treasurer = Treasurer(
            namespace=account.namespace,
            replica=replica,
            observation=observation,
            terms=terms,
            expiry_seconds=expiry.seconds,
            meter=meter,
            recent=recent,
        )
        self._membership = Membership(
            replica=replica, observation=observation, store=store, journal=journal, treasurer=self._treasurer
        )
        self._is_short = False  # somebody does not fit for what others were advanced
        self._queue: list[_Waiting] = []
        self._in_hand: list[_Waiting] = []  # taken from the queue, and being judged
        self._taken_back: set[str] = set()
        self._news = asyncio.Event()
        self._judged_at = 0  # the observation's count of changes when asks were last judged
        self._behind_since: float | None = None  # since when the view has been behind the account
        self._is_closed = False
        self._settled = asyncio.Event()  # nothing of an advance is left
        self._see(account)
        now = asyncio.get_running_loop().time()
        self._treasurer.carry(account, journal.recent(account.namespace, observation.view, now))

    def learn(self, account: Account | None) -> None:
        """The account as a watch saw it; None: it is gone. Older news than what is held changes nothing."""
        known = self.account
        is_old = account is not None and known is not None and int(account.version) <= int(known.version)
        if not is_old:
            self._see(account)
            self._news.set()

    def fit(self) -> None:
        """The limits of users and groups are others than they were."""
        if self.account is not None:
            self._see(self.account)
            self._news.set()

    def denial(self, exceeded: Sequence[Exceeded]) -> Denial:
        """The words for a refusal."""
        return Denial(self.name, exceeded, self.domain, self.title)

    async def submit(self, ask: Ask, deadline: float, *, dry_run: bool = False, may_exceed: bool = False) -> Judgement:
        """The account's verdict on an ask; an `Admitted` has been written. `may_exceed`: it is admitted in any case."""
        waiting = _Waiting(ask, deadline, dry_run, may_exceed, asyncio.get_running_loop().create_future())
        if self._is_closed:
            return Judgement(Undecided(_CLOSED) if self.account else Gone(), self.account)
        if (at_once := self._judge_at_once(ask, dry_run=dry_run)) is not None:
            return at_once
        self._queue.append(waiting)
        self._news.set()
        return await waiting.judgement

    def take_back(self, identifier: str) -> None:
        """An ask that was admitted here is refused elsewhere: its reservation is not needed."""
        if not self._treasurer.take_back(identifier):
            self._taken_back.add(identifier)
            self._news.set()

    def expects(self, binding: str) -> bool:
        """Whether something of that binding was admitted here, and not seen stored."""
        return self._treasurer.expects(binding) or (
            self.account is not None and any(one.binding == binding for one in self.account.reservations)
        )

    async def give_back(self) -> None:
        """This replica goes: others can have what it does not need, and end the rest one by one."""
        self._treasurer.is_leaving = True
        self._news.set()
        await self._settled.wait()

    async def run(self) -> None:
        """Serve asks, take the account up, and end what has ended: until the account is gone and nobody waits."""
        try:
            while self.account is not None or self._queue:
                self._news.clear()
                self._expire_asks()
                try:
                    is_idle = await self._serve()
                except (ConflictError, UnreachableError) as problem:
                    await self._read_again(problem)
                    continue
                except Exception:
                    # A mistake of ours about one account must not end the others' service.
                    log.exception("account.failed", namespace=self.domain, quota=self.name)
                    self._give_up()
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if is_idle:
                    await self._wait()
        finally:
            self._is_closed = True
            self._settled.set()
            for waiting in self._queue:
                waiting.resolve(Undecided(_CLOSED), None)

    async def _serve(self) -> bool:
        """One round; True where nothing more can be done without news."""
        account = self.account
        if account is None:
            for waiting in self._queue:
                waiting.resolve(Gone(), None)
            self._queue.clear()
            self._taken_back.clear()
            return True
        if not self._membership.is_open(account):
            self._tell_all("it is being taken up by all replicas")
            if self._treasurer.is_leaving:
                self._settled.set()  # whoever takes it up has what is under way from the word that is left
            return await self._take_up(account)
        if self._observation.view.version < account.observed:
            self._tell_all("this replica has yet to see what others have seen")
            return await self._catch_up(account)
        self._behind_since = None
        if self._queue or self._taken_back or self._treasurer.is_due(account):
            return await self._commit(account)
        self._judged_at = self._observation.changes
        if self._treasurer.is_empty:
            self._settled.set()
        return True

    def _judge_at_once(self, ask: Ask, *, dry_run: bool) -> Judgement | None:
        """What can be said without a write; None where one is needed. Nothing is awaited, and no view judged by."""
        account = self.account
        if account is None or not self._membership.is_open(account):
            return None
        growth = advance.increase(account, ask)
        if not growth:
            return Judgement(Unaffected(), account)
        reservation = ask.reservation
        if dry_run or not self._treasurer.spend(account, reservation, growth):
            return None
        if self._treasurer.is_low:
            self._news.set()
        return Judgement(Admitted(reservation), account)

    @property
    def is_outdated(self) -> bool:
        """Whether the account may be active by other limits than those that are known here."""
        return self.account is not None and self._membership.is_outdated(self.account)

    def _see(self, account: Account | None) -> None:
        """This is the account now."""
        self.account = account = self._fitted(account) if account is not None else None
        if account is not None:
            # Seeing a reservation is what starts its time.
            self._expiry.expired(account, asyncio.get_running_loop().time())
            self._treasurer.see(account, is_open=self._membership.is_open(account))

    async def _commit(self, account: Account) -> bool:
        """Judge what waits, write what is admitted, answer what is certain."""
        looks = await self._look(account)
        peers = (await self._roll.call() or ()) if self._treasurer.is_generous else ()
        self._treasurer.settle(looks, self._observation.view.version)
        if account is not self.account:
            return False
        # From here to the write nothing is awaited: judged is what is written.
        view = self._observation.view
        self._judged_at = self._observation.changes
        # What was found stored and has yet to reach this view is counted by its reservation until then.
        looks = {identifier: look for identifier, look in looks.items() if (look.version or 0) <= view.version}
        is_due = self._treasurer.is_due(account)
        settled = settling.settle(account, view, looks)
        taken_back = {one.id for one in account.reservations} & self._taken_back
        if taken_back:
            settled = settled.with_reservations(one for one in settled.reservations if one.id not in taken_back)
        books = self._treasurer.open_books(settled)
        is_left = self._treasurer.is_leaving and self._treasurer.note_one_by_one(books)
        self._is_short = False
        queue, self._queue = self._queue, []
        self._in_hand = queue
        decided, undecided = self._judge_all(books, queue)
        is_settled_by_looks = any(one.id in looks for one in account.reservations)  # or they are looked at each time
        admissions = sum(_is_written(waiting, outcome) for waiting, outcome in decided)
        called = advance.recalled(books.account, self._replica()) if self._is_short else books.account
        is_called = called is not books.account
        must_write = bool(taken_back) or is_settled_by_looks or admissions > 0 or is_due or is_called
        try:
            if must_write:
                self._treasurer.note(admissions)
                taken = (NOTHING, []) if is_left else self._treasurer.take(books, _asked(account, decided), peers)
                written = await self._treasurer.write(self._store, called, *taken)
                if is_left:
                    self._treasurer.clear()
                self._keep(written)
                self._taken_back -= taken_back
                self._meter.committed(admissions)
            elif any(isinstance(outcome, Refused) for _, outcome in decided):
                # Nobody is refused on what a cache says of the account.
                if not await self._store.is_stored(account):
                    self._see(await self._store.read(self.domain, self.name))
                    self._queue[:0] = queue
                    return False
            else:
                self._taken_back &= {one.id for one in account.reservations}
        except BaseException:  # and when this task is cancelled: they are answered all the same
            self._queue[:0] = queue
            raise
        for waiting, outcome in decided:
            if not isinstance(outcome, Refused):
                waiting.resolve(outcome, account)
        self._queue[:0] = undecided
        refused = [(waiting, outcome) for waiting, outcome in decided if isinstance(outcome, Refused)]
        waits = len(undecided) + await self._refuse(refused, account)
        return len(self._queue) == waits and len(decided) < MOST_IN_ONE_WRITE

    async def _refuse(self, refused: list[tuple[_Waiting, Refused]], account: Account) -> int:
        """Nobody is refused on a view that is behind. Who may have been waits for it: how many these are."""
        if not refused:
            return 0
        waits = [waiting for waiting, _ in refused]
        try:
            if not await self._limits_stand(refused, account):
                for waiting in waits:
                    waiting.wait("its limits have just been changed")
                return len(waits)
            view = self._observation.view
            proof = Proof(account, view, {})
            if not all(proof.stands(waiting.ask, outcome) for waiting, outcome in refused):
                # Some are not too much by themselves, only beside what is stored.
                proof = Proof(account, view, await self._store.versions(self.domain, view.entries(self.domain)))
            waits = []
            for waiting, outcome in refused:
                if proof.stands(waiting.ask, outcome):
                    waiting.resolve(outcome, account)
                else:
                    waiting.wait("this replica has yet to see what is stored")
                    waits.append(waiting)
        finally:
            self._queue[:0] = waits
        return len(waits)

    async def _limits_stand(self, refused: list[tuple[_Waiting, Refused]], account: Account) -> bool:
        """Nor on limits of a user or group that are others by now."""
        names = {one.name for _, outcome in refused for one in outcome.exceeded}
        return not domain.is_usage(self.domain) or await self._store.limits_stand(account, names)

    def overdue_seconds(self) -> float:
        """For how long somebody has waited beyond their deadline: they are answered before it, unless this is stuck."""
        deadlines = (waiting.deadline for waiting in (*self._in_hand, *self._queue) if not waiting.judgement.done())
        return max(0.0, asyncio.get_running_loop().time() - min(deadlines, default=float("inf")))

    @property
    def asks(self) -> int:
        """How many wait."""
        return sum(not waiting.judgement.done() for waiting in (*self._in_hand, *self._queue))

    def _give_up(self) -> None:
        for waiting in (*self._in_hand, *self._queue):
            waiting.resolve(Undecided("it could not be judged; federation-quota's log says why"), self.account)
        self._in_hand = []
        self._queue.clear()

    def _judge_all(self, books: Books, queue: list[_Waiting]) -> tuple[list[tuple[_Waiting, Outcome]], list[_Waiting]]:
        """Those of whom something can be said now, and those who have to wait."""
        decided: list[tuple[_Waiting, Outcome]] = []
        undecided: list[_Waiting] = []
        for waiting in queue:
            # Who has to wait keeps nobody behind from being judged: only what is decided fills the write.
            outcome = self._judge(books, waiting) if len(decided) < MOST_IN_ONE_WRITE else None
            if outcome is None:
                undecided.append(waiting)
            else:
                decided.append((waiting, outcome))
        return decided, undecided

    def _judge(self, books: Books, waiting: _Waiting) -> Outcome | None:
        """The outcome for one ask beside all before it; None where only time can tell."""
        verdict = books.judge(waiting.ask)
        fault = books.account.fault or self._fault(waiting.ask)
        if fault and not isinstance(verdict, Unaffected) and not waiting.may_exceed:
            waiting.wait(fault)
            return None
        if isinstance(verdict, Unproven):
            waiting.wait("only reservations stand in the way, and may yet go")
            self._is_short = self._is_short or verdict.is_advanced
            if not waiting.may_exceed:
                return None
        if isinstance(verdict, Refused | Unproven) and waiting.may_exceed:
            outcome: Outcome = Overdrawn(verdict.exceeded)
        else:
            outcome = verdict
        if _is_written(waiting, outcome):
            if books.account.is_full:
                waiting.reason = "it has more admissions under way than it can note"
                return None
            books.admit(waiting.ask.reservation)
        return outcome

    def _fault(self, ask: Ask) -> str:
        """Why nothing can be judged here: a stored binding whose cost nobody knows. Its own repair is judged."""
        for binding, reason in self._observation.view.faults(self.domain).items():
            if binding != ask.binding:
                return f"what binding {binding} costs cannot be told ({reason}): mend or delete it"
        return ""

    async def _take_up(self, account: Account) -> bool:
        """Join an account that is new, and activate it once everybody has; True where others have to go first."""
        if self._may_rest(account):
            return await self._return_advance(account)
        membership = self._membership
        is_joining = not membership.has_joined(account)
        taken_up = membership.join(account) if is_joining else await membership.activate(account)
        if taken_up is None or account is not self.account:
            return account is self.account
        written = await self._store.write(taken_up)
        membership.land(account)
        if is_joining:
            self._treasurer.clear()
        self._keep(written)
        return False

    async def _return_advance(self, account: Account) -> bool:
        """What this replica was advanced by earlier limits, of an account that nobody needs by those there are now; not
        at once, one change may be about a thousand of them. True where there is nothing to return for now."""
        if advance.of(account, self._replica()) is None or not self._treasurer.is_resting:
            return True
        books = self._treasurer.open_books(account)
        if not self._treasurer.note_one_by_one(books):
            return True
        written = await self._treasurer.write(self._store, books.account)
        self._treasurer.clear()
        self._keep(written)
        return False

    def _may_rest(self, account: Account) -> bool:
        """Whether nobody needs an account of somebody's: of a thousand users few ask at any time, and one change of
        limits may be about all of them."""
        is_wanted = any(shape == account.shape for _, shape in account.joined)
        return domain.is_usage(self.domain) and not self._queue and not is_wanted

    async def _catch_up(self, account: Account) -> bool:
        """Wait for the view, unless what it waits for can never come: a store that was restored from the past."""
        now = asyncio.get_running_loop().time()
        # Counted from when it fell behind, not from the last ask: those keep coming.
        since = self._behind_since = now if self._behind_since is None else self._behind_since
        if now < since + SUSPICION_SECONDS:
            deadline = min((*(waiting.deadline for waiting in self._queue), since + SUSPICION_SECONDS))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await _first(self._observation.reached(account.observed), self._news.wait())
            return False
        self._behind_since = None
        if await self._store.version() < account.observed and account is self.account:
            self._keep(await self._store.write(joining.initialise(account)))
        return False

    async def _look(self, account: Account) -> dict[str, settling.LiveLook]:
        """Live looks at the bindings of reservations that are older than any write can be."""
        now = asyncio.get_running_loop().time()
        expired = [*self._expiry.expired(account, now), *self._treasurer.expired()]
        return {one.id: await self._store.look(self.domain, one.binding) for one in expired}

    async def _read_again(self, problem: Exception) -> None:
        """After a conflict, or a write whose fate is not known: what is true is in the store."""
        is_answered = not isinstance(problem, UnreachableError)
        try:
            self._see(await self._store.read(self.domain, self.name))
        except UnreachableError:
            is_answered = False
        if not is_answered:
            self._tell_all("the API server does not answer")
            await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        """Until there is news of the account, of its namespace's bindings, or the first ask has waited enough."""
        account = self.account
        is_open = account is not None and self._membership.is_open(account)
        deadlines = [waiting.deadline for waiting in self._queue]
        if is_open:
            deadlines.append(self._treasurer.next_look())
        elif account is not None and not self._may_rest(account):
            deadlines.append(asyncio.get_running_loop().time() + TAKE_UP_SECONDS)
        elif account is not None and advance.of(account, self._replica()) is not None:
            deadlines.append(max(self._treasurer.rests_at, asyncio.get_running_loop().time() + TAKE_UP_SECONDS))
        deadline = min(deadlines, default=float("inf"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if deadline == float("inf") else deadline):
                # Bindings are no news for an account that is not active yet, nor for an advance that is being spent.
                is_waiting = bool(self._queue) or (self._treasurer.is_resting and not self._treasurer.is_empty)
                if is_open and is_waiting:
                    await _first(self._news.wait(), self._observation.changed(self.domain, self._judged_at))
                else:
                    await self._news.wait()

    def _keep(self, written: Account) -> None:
        """What a write returned, unless a watch has brought something newer meanwhile."""
        known = self.account
        if known is not None and known.uid == written.uid and int(known.version) <= int(written.version):
            self._see(written)

    def _expire_asks(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiting in self._queue:
            if waiting.deadline <= now:
                waiting.resolve(Undecided(waiting.reason), self.account)
        self._queue = [waiting for waiting in self._queue if not waiting.judgement.done()]

    def _tell_all(self, reason: str) -> None:
        for waiting in self._queue:
            waiting.reason = reason


_CLOSED = "this replica is shutting down"


def _asked(account: Account, decided: list[tuple[_Waiting, Outcome]]) -> Resources:
    """What all that is admitted grows by."""
    total = NOTHING
    for waiting, outcome in decided:
        if _is_written(waiting, outcome):
            total = total + advance.increase(account, waiting.ask)
    return total


def _is_written(waiting: _Waiting, outcome: Outcome) -> bool:
    return isinstance(outcome, Admitted | Overdrawn) and not waiting.is_dry_run


async def _first(*waits: Coroutine[None, None, object]) -> None:
    """Return when the first of them does, and end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
