"""Recorded losses: a refactoring that changes the mathematics, the data or their order is detected."""

import json

import pytest

from guard_losses import CASES, RECORD, STEPS, trained_losses

QUICK = ("classify fullFF-1", "classify randomFF-2", "classify fullFF-1 linear", "translate randomFF-2")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_fifty_losses_are_the_recorded_ones(case, tmp_path):
    recorded = json.loads(RECORD.read_text())
    assert set(recorded) == set(CASES)
    found = trained_losses(case, tmp_path)
    assert len(found) == STEPS
    assert found == pytest.approx(recorded[case], abs=1e-4)
