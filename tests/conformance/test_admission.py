"""Kubernetes' quota admission: allowed or denied in its words, and what the quotas have used afterwards.

Two shapes of case: `single` (quotas and one request) and `batch` (quotas and several requests that come at once, with
writes that conflict). Any other shape fails. What is asked of each is in `admission_proof`.
"""

import pytest

pytest.register_assert_rewrite("tests.conformance.admission_proof")

from tests.conformance.admission_proof import prove  # noqa: E402 # so that what fails there says how
from tests.conformance.vectors import Case, case_ids, load_cases  # noqa: E402 # as above

CASES = load_cases("admission")


@pytest.mark.parametrize("case", CASES, ids=case_ids(CASES, "kind", "name"))
def test_admission(case: Case) -> None:
    prove(case)
