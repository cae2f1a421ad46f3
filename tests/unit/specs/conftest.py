from __future__ import annotations

import pytest

from tests.specifying import shop
from waterclock.dpl.project import Project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return shop(tmp_path_factory.mktemp("shop"))
