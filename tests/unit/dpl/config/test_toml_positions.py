from __future__ import annotations

from waterclock.dpl.config.toml_positions import places_of
from waterclock.dpl.syntax.source_text import SourceText

TEXT = '''\
# [not.a.table]
name = "x = 1"   # y = 2
list = [
  "a = 1", # b = 2
  { inner = 3 },
]
long = """
[no.table]
c = 1
"""
[defaults."marts.*"]
owner = 'd'
[env.dev]
connections.ops = { path = "data/ops.sqlite", auth = { token = { secret = "s" } }, "odd.name" = 1 }
connections."b.c".path = "x"
[[rows]]
e = 1
'''


def test_each_key_is_found_at_its_position() -> None:
    places = {path: str(span.place) for path, span in places_of(SourceText("w.toml", TEXT)).items()}
    assert places == {
        ("name",): "w.toml:2:1",
        ("list",): "w.toml:3:1",
        ("list", "inner"): "w.toml:5:5",
        ("long",): "w.toml:7:1",
        ("defaults",): "w.toml:11:2",
        ("defaults", "marts.*"): "w.toml:11:2",
        ("defaults", "marts.*", "owner"): "w.toml:12:1",
        ("env",): "w.toml:13:2",
        ("env", "dev"): "w.toml:13:2",
        ("env", "dev", "connections"): "w.toml:14:1",
        ("env", "dev", "connections", "ops"): "w.toml:14:1",
        ("env", "dev", "connections", "ops", "path"): "w.toml:14:21",
        ("env", "dev", "connections", "ops", "auth"): "w.toml:14:47",
        ("env", "dev", "connections", "ops", "auth", "token"): "w.toml:14:56",
        ("env", "dev", "connections", "ops", "auth", "token", "secret"): "w.toml:14:66",
        ("env", "dev", "connections", "ops", "odd.name"): "w.toml:14:84",
        ("env", "dev", "connections", "b.c"): "w.toml:15:1",
        ("env", "dev", "connections", "b.c", "path"): "w.toml:15:1",
        ("rows",): "w.toml:16:3",
        ("rows", "e"): "w.toml:17:1",
    }
