"""Opens a project's ledger, and tells a lost one from one that was never there.

What reads the database is loaded where a ledger is opened: `waterclock check` needs only its URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.dpl.project import Project
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.filesystem import at, is_folder
from waterclock.flow.declarations import Secret
from waterclock.secrets import Secrets
from waterclock.storage.exports import export_names
from waterclock.storage.lake import Lake

if TYPE_CHECKING:
    from waterclock.ledger.ledger import Ledger


def open_ledger(project: Project, *, even_moved: bool = False) -> Ledger | None:
    """Open a project's ledger to look at it; None where nothing ever ran, and no trace is left of the look.

    Raises  E421 where tables of the project are there and the ledger is not, E422 where it is damaged, E425 where it
            was moved, but with `even_moved`
    """
    from waterclock.ledger.ledger import Ledger

    reach_storage(project)  # whoever looks at the ledger may look at the tables next
    ledger = Ledger.open(ledger_url(project), create=False)
    if ledger is None:
        refuse_lost(project)
        return None
    _follow_rotation(ledger, project)
    ledger.declared.say_pending(project.flow)
    if not even_moved:
        try:
            ledger.keeping.refuse_moved()
        except BaseException:
            ledger.close()
            raise
    return ledger


def make_ledger(project: Project) -> Ledger:
    """Open a project's ledger, and make it where it is not there yet. Raises as `Ledger.open`."""
    from waterclock.ledger.ledger import Ledger

    ledger = Ledger.open(ledger_url(project))
    _follow_rotation(ledger, project)
    return ledger


def _follow_rotation(ledger: Ledger, project: Project) -> None:
    """Have a ledger whose URL is a secret log in by what the secret holds then: a runner outlives its rotation."""
    if isinstance(project.ledger, Secret):
        ledger.log_in_by(lambda: ledger_url(project))


def ledger_url(project: Project) -> str:
    """Return the URL of a project's ledger; one that is a secret is read.

    Raises  E225 where the secret does not resolve
    """
    return Secrets.of(project.secrets).value_of(project.ledger)


def refuse_unknown(project: Project) -> None:
    """Refuse a URL that no ledger can have, without looking at what lies there.

    Raises  E403 for an unknown kind or option, E424 where its driver is not installed, E225 as `ledger_url`
    """
    url = ledger_url(project)
    if not url.startswith("sqlite:///"):
        from waterclock.ledger.store.places import require_known

        require_known(url)


def refuse_lost(project: Project) -> None:
    """Refuse a storage that holds tables of the project and has no ledger: an empty one would make all of it again.

    Raises  E421
    """
    from waterclock.ledger.refusals import lost
    from waterclock.ledger.store.places import place_of, shown

    lake = Lake(project.storage)
    names = {*project.flow.tables, *(table.was for table in project.flow.tables.values() if table.was)}
    there = [name for name in sorted(names) if is_folder(at(lake.folder(name), "_delta_log"))]
    tables = [name for name in there if not _is_anothers(lake.folder(name), project.flow.project)]
    if tables or export_names(lake.root):
        url = ledger_url(project)
        raise lost(shown(url), tables, place_of(url).others(project.flow.project))


def _is_anothers(folder: str, project: str) -> bool:
    """Tell whether another project made the table, whose batches will say so; not where its log cannot be read."""
    from deltalake.exceptions import DeltaError  # loaded only where a ledger is missing beside tables

    from waterclock.storage.commit.creation import require_owner

    try:
        require_owner(folder, project)
    except WaterclockError as error:
        return error.code == "E601"
    except DeltaError:
        return False
    return False


def lake_of(project: Project, ledger: Ledger | None) -> Lake:
    """Return a project's storage, in which tables that were renamed lie where they were before."""
    return Lake(project.storage, folders={} if ledger is None else ledger.declared.former().folders)
