"""Small files are joined within a limit of bytes: those of the oldest labels first."""

from __future__ import annotations

import pytest

from waterclock.storage.file_maintenance import JoinableFiles

THREE = JoinableFiles((("20200101000000", 8, 100), ("20200102000000", 9, 50), ("20200103000000", 8, 10)))


@pytest.mark.parametrize(("most", "labels"), [(-5, 0), (99, 0), (100, 1), (149, 1), (150, 2), (159, 2), (160, 3)])
def test_the_oldest_labels_that_fit_are_joined(most: int, labels: int) -> None:
    assert THREE.up_to(most).by_label == THREE.by_label[:labels]


def test_files_without_a_label_are_joined_together_or_not_at_all() -> None:
    whole = JoinableFiles((("", 50, 1000),))
    assert (whole.files, whole.bytes, whole.labels) == (50, 1000, ())
    assert whole.up_to(999).files == 0
    assert whole.up_to(1000) == whole
