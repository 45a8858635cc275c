"""What is said again, counted, combined or dropped; the numbers are client-go's."""

from federation_quota.kube.correlation import COMBINED, Correlator, Limits, Reference, Report

ABOUT = Reference("v1", "ConfigMap", "a", "n", "uid")
ROOMY = Limits(burst=1000)


def report(message: str, *, about: Reference = ABOUT, reason: str = "Held") -> Report:
    return Report(about, reason, message)


def test_the_same_again_only_raises_the_count() -> None:
    correlator = Correlator()
    first = correlator.judge(report("m"), 0, "t0")
    again = correlator.judge(report("m"), 5, "t5")
    assert first is not None
    assert again is not None
    assert first.known is again.known
    assert (again.known.count, again.known.first) == (2, "t0")


def test_another_object_reason_type_or_message_is_another_event() -> None:
    correlator = Correlator()
    other = Reference("v1", "ConfigMap", "b", "n", "uid-b")
    reports = [report("m"), report("m2"), report("m", reason="Released"), report("m", about=other)]
    reports.append(Report(ABOUT, "Held", "m", "Warning"))
    verdicts = [correlator.judge(one, 0, "t") for one in reports]
    assert len({id(verdict.known) for verdict in verdicts if verdict}) == 5


def test_more_than_ten_messages_of_one_reason_are_combined_into_one_event() -> None:
    correlator = Correlator(ROOMY)
    verdicts = [correlator.judge(report(f"m{number}"), number, "t") for number in range(15)]
    said = [verdict.report.message for verdict in verdicts if verdict]
    assert said[:10] == [f"m{number}" for number in range(10)]
    assert said[10:] == [f"{COMBINED}m{number}" for number in range(10, 15)]
    combined = {id(verdict.known) for verdict in verdicts[10:] if verdict}
    assert len(combined) == 1
    # What was said before is still counted on its own event.
    known = correlator.judge(report("m3"), 16, "t")
    assert known is not None
    assert (known.report.message, known.known.count) == ("m3", 2)


def test_after_ten_minutes_messages_are_told_apart_again() -> None:
    correlator = Correlator(ROOMY)
    for number in range(12):
        correlator.judge(report(f"m{number}"), 0, "t")
    verdict = correlator.judge(report("new"), 601, "t")
    assert verdict is not None
    assert verdict.report.message == "new"


def test_an_object_may_speak_25_times_at_once_and_then_once_in_five_minutes() -> None:
    correlator = Correlator()
    assert sum(correlator.judge(report("m"), 0, "t") is not None for _ in range(40)) == 25
    assert correlator.judge(report("m"), 299, "t") is None
    assert correlator.judge(report("m"), 301, "t") is not None
    assert correlator.judge(report("m"), 302, "t") is None
    other = Reference("v1", "ConfigMap", "b", "n")
    assert correlator.judge(report("m", about=other), 302, "t") is not None


def test_memory_is_bounded() -> None:
    correlator = Correlator(Limits(remembered=50))
    for number in range(500):
        correlator.judge(report("m", about=Reference("v1", "ConfigMap", f"a{number}")), 0, "t")
    assert max(len(correlator._known), len(correlator._buckets), len(correlator._similar)) == 50
