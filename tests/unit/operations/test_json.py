from __future__ import annotations

import json

from waterclock.operations.json import json_text


def test_a_text_that_is_no_unicode_is_escaped_as_json_does() -> None:
    said = json_text({"what": "no table matches caf\udce9 or café"})
    assert json.loads(said.encode())["what"] == "no table matches caf\udce9 or café"
    assert "café" in said
