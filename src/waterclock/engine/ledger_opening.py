"""Opens a project's ledger, and distinguishes a lost ledger from one that never existed.

The database drivers are imported only when a ledger is opened: `waterclock check` needs only the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.dpl.project import Project
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.flow.declarations import Secret
from waterclock.secrets.reader import Secrets
from waterclock.storage.lake import Lake
from waterclock.storage.ledger_exports import export_names

if TYPE_CHECKING:
    from waterclock.ledger.ledger import Ledger


def open_ledger(project: Project, *, even_moved: bool = False) -> Ledger | None:
    """Open a project's ledger for reading, or return None if the project never ran. Raises E421, E422, E425.

    `even_moved` opens also a ledger that was moved to another database (otherwise E425).
    """
    from waterclock.ledger.ledger import Ledger

    reach_storage(project)  # a caller that reads the ledger may read the tables next
    ledger = Ledger.open(ledger_url(project), create=False)
    if ledger is None:
        try:
            require_ledger_not_lost(project)
        except WaterclockError:
            # another runner may have created it since, and then made the tables that were found
            ledger = Ledger.open(ledger_url(project), create=False)
            if ledger is None:
                raise
        else:
            return None
    _follow_rotation(ledger, project)
    ledger.declared.apply_pending_renames(project.flow)
    if not even_moved:
        try:
            ledger.maintenance.require_not_moved()
        except BaseException:
            ledger.close()
            raise
    return ledger


def open_or_create_ledger(project: Project) -> Ledger:
    """Open a project's ledger, and create it if it does not exist yet. Raises the same errors as `Ledger.open`."""
    from waterclock.ledger.ledger import Ledger

    ledger = Ledger.open(ledger_url(project))
    _follow_rotation(ledger, project)
    return ledger


def _follow_rotation(ledger: Ledger, project: Project) -> None:
    """Make a ledger whose URL is a secret log in with the secret's current value, so that the secret may change."""
    if isinstance(project.ledger, Secret):
        ledger.log_in_by(lambda: ledger_url(project))


def ledger_url(project: Project) -> str:
    """Return the URL of a project's ledger, with its secret resolved. Raises E225 if that does not resolve."""
    return Secrets.from_places(project.secrets).value_of(project.ledger)


def require_valid_ledger_url(project: Project) -> None:
    """Check a project's ledger URL, without connecting. Raises E403 if it is invalid, E424 without its driver, E225."""
    url = ledger_url(project)
    if not url.startswith("sqlite:///"):
        from waterclock.ledger.store.locations import check_ledger_url

        check_ledger_url(url)


def require_ledger_not_lost(project: Project) -> None:
    """Raise E421 if a storage with the project's tables has no ledger: an empty one would make all batches again."""
    from waterclock.ledger.ledger_errors import lost_ledger_error
    from waterclock.ledger.store.locations import place_of, redact_url_text

    lake = Lake(project.storage)
    names = {*project.flow.tables, *(table.was for table in project.flow.tables.values() if table.was)}
    there = [name for name in sorted(names) if is_folder(entry_path(lake.folder(name), "_delta_log"))]
    tables = [name for name in there if not _is_of_other_project(lake.folder(name), project.flow.project)]
    if tables or export_names(lake.root):
        url = ledger_url(project)
        raise lost_ledger_error(redact_url_text(url), tables, place_of(url).others(project.flow.project))


def _is_of_other_project(folder: str, project: str) -> bool:
    """Return whether another project made the table in this folder. False if its log is unreadable."""
    from deltalake.exceptions import DeltaError  # imported only if a ledger is missing next to tables

    from waterclock.storage.commit.creation import require_owner

    try:
        require_owner(folder, project)
    except WaterclockError as error:
        return error.code == "E601"
    except DeltaError:
        return False
    return False


def lake_of(project: Project, ledger: Ledger | None) -> Lake:
    """Return a project's storage. It maps renamed tables to their original folders."""
    return Lake(project.storage, folders={} if ledger is None else ledger.declared.former().folders)
