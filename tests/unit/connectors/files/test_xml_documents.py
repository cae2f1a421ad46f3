"""Hostile XML is detected in its prolog, and no external resource is opened."""

from __future__ import annotations

import io
import time

import pytest

from waterclock.connectors.files.xml_documents import columns_in, first_fault, require_no_entities
from waterclock.errors import WaterclockError

LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10}">' for at in range(1, 10))
BILLION = f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY l0 "lol">{LAUGHS}]><r>&l9;</r>'


@pytest.mark.parametrize(
    "text",
    [
        BILLION,
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>',
        '<!DOCTYPE r [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x">%x;]><r/>',
        '<!DOCTYPE r PUBLIC "-//x" "http://127.0.0.1:9/x.dtd"><r/>',
        "<!-- " + "x" * (2 << 20) + "--><r/>",
    ],
)
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "UTF-7", "Shift_JIS", "GB18030"])
def test_harmful_xml_is_refused_at_once(text: str, encoding: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(WaterclockError) as caught:
        require_no_entities(io.BytesIO(text.encode(encoding)), "in/a.xml", encoding)
    assert (caught.value.code, caught.value.where) == ("E880", "in/a.xml")
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "text", ["<r/>", '<?xml version="1.0"?><!-- c --><r a="&lt;">&amp;&#233;</r>', "<!DOCTYPE r><r/>", "no xml", ""]
)
def test_plain_and_malformed_documents_pass_the_entity_check(text: str) -> None:
    require_no_entities(io.BytesIO(text.encode()), "in/a.xml", "UTF-8")


def test_columns_are_attributes_and_elements_of_rows() -> None:
    rows = '<o:i x="1"><b>1</b><c><i><d/></i></c></o:i><i><b/><b/></i><j><k/></j><i y="2">t</i>'
    text = f'<o:r xmlns:o="u" a="1">{rows}</o:r>'
    assert columns_in(io.BytesIO(text.encode()), "i", "UTF-8") == {
        "_x": "STRING",
        "b": "ARRAY<STRING>",
        "c": "STRING",
        "_y": "STRING",
        "_VALUE": "STRING",
    }


def test_the_first_fault_has_its_line() -> None:
    assert first_fault(io.BytesIO(b"<r>\n<a>\n</b></r>"), "UTF-8") == (3, "it is not XML: mismatched tag, at column 3")
    assert first_fault(io.BytesIO(b"<r>\n</r>"), "UTF-8") is None


def test_entities_that_come_late_are_no_xml() -> None:
    late = b'<r><!DOCTYPE r [<!ENTITY x "y">]>&x;</r>'
    assert first_fault(io.BytesIO(late), "UTF-8") is not None


@pytest.mark.parametrize("encoding", ["UTF-7", "Shift_JIS", "GB18030", "UTF-16", "windows-1252", "EUC-KR"])
def test_an_encoding_that_the_parser_does_not_know_is_decoded_first(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><r><i a="1"><b>&lt;</b></i>\n</r>'
    require_no_entities(io.BytesIO(text.encode(encoding)), "in/a.xml", encoding)
    assert columns_in(io.BytesIO(text.encode(encoding)), "i", encoding) == {"_a": "STRING", "b": "STRING"}
    assert first_fault(io.BytesIO(text.encode(encoding)), encoding) is None
    assert first_fault(io.BytesIO(text.replace("</r>", "</b>").encode(encoding)), encoding) is not None


@pytest.mark.parametrize("encoding", ["UTF-7", "Shift_JIS", "no-such"])
def test_a_document_that_declares_an_encoding_that_cannot_be_checked_is_refused(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><r><i/></r>'.encode()
    with pytest.raises(WaterclockError, match="its encoding cannot be read"):
        require_no_entities(io.BytesIO(text), "in/a.xml", "UTF-8")
    columns_in(io.BytesIO(text), "i", "UTF-8")
    assert first_fault(io.BytesIO(text), "UTF-8") is not None
