"""Error codes of branches: environments that borrow the tables of another one."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

BRANCHES: Mapping[str, Code] = {
    "E470": Code(
        "no such branch",
        "The environment is not a branch, or the branch was not created. `waterclock branch list` shows the branches, "
        "and `waterclock branch create NAME` creates one.",
    ),
    "E471": Code(
        "existing branch",
        "A branch with this name exists, or the name is that of an environment that is not a branch. Delete the "
        "branch first, or use another name.",
    ),
    "E472": Code(
        "command in a branch",
        "A branch borrows its collected and unchanged tables from another environment, which it only reads. Commands "
        "that collect, deliver or maintain are not available there. Run them in the other environment.",
    ),
    "E473": Code(
        "borrowed table",
        "The table is borrowed from the environment of which this one is a branch. It is only read, and no batch of it "
        "is made.",
    ),
    "E474": Code(
        "expired branch",
        "The lease of the branch has ended. Production removes replaced files after KEEP VERSIONS, so an older branch "
        "may not find what it borrows. Delete the branch and create it again.",
    ),
    "E475": Code(
        "changed base",
        "The other environment has rebuilt, dropped or changed a table that the branch borrows, or removed rows of it. "
        "Delete the branch and create it again.",
    ),
    "E476": Code(
        "storage of a branch",
        "A branch needs an empty storage of its own. It must not be inside the storage that the branch borrows from, "
        "nor contain it, nor be a link. The ledger of the branch is a file in it. Deleting the branch removes all of "
        "it.",
    ),
    "E477": Code(
        "branch in use",
        "Only one process at a time can create, run or delete a branch, and another process is using it now. Nothing "
        "was changed. A killed process holds no lock.",
    ),
    "E478": Code(
        "branch of a newer version",
        "A newer version of Waterclock wrote the file of the branch, which this version cannot read. Use that version, "
        "or delete the branch and create it again.",
    ),
    "E479": Code(
        "sandbox of a branch",
        "A sandbox has the options of connections that publishes of a branch deliver to. Only a branch has one, and "
        "each connection in it differs from that of the other environment.",
    ),
}
