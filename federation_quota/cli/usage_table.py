"""What users and groups use, as a table for people: one line for each queue, from the root down."""

from collections.abc import Iterable, Iterator

from federation_quota.limits.report import GroupUsage, Queue, UserUsage
from federation_quota.resource_name import COUNT

_GAP = "   "


def table(found: Iterable[UserUsage | GroupUsage], heading: str) -> str:
    """All of them; `heading` says what they are. Empty where there are none."""
    rows = [(one.name, *cells) for one in found for cells in _cells(one.queues)]
    if not rows:
        return ""
    rows.insert(0, (heading, "QUEUE", "APPLICATIONS", "USED"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _cells(queue: Queue) -> Iterator[tuple[str, str, str]]:
    count = str(len(queue.applications))
    most = f"/{queue.max_applications}" if queue.max_applications else ""
    yield queue.name, count + most, _used(queue)
    for child in queue.children:
        yield from _cells(child)


def _used(queue: Queue) -> str:
    """What is limited, with its limit, and what else is used. Objects that nobody limits are left out."""
    names = {*queue.max_resources, *(name for name in queue.usage if not name.startswith(COUNT))}
    return ", ".join(_amount(queue, name) for name in sorted(names))


def _amount(queue: Queue, name: str) -> str:
    used = queue.usage[name]
    limit = queue.max_resources.get(name)
    return f"{name}: {used}" + (f"/{limit}" if limit is not None else "")
