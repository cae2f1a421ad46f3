"""Changes and lists the trusted folders. Their projects run although other users can change their files."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.errors import WaterclockError
from waterclock.permissions.project_trust import VARIABLE, distrust_folder, list_file, trust_folder, trusted_folders


def change_trust(folder: Path, *, is_trusted: bool, is_json: bool) -> None:
    """Add a folder to the user's list of trusted folders, or remove it. Raises E244 if it does not exist, E930."""
    path = folder.resolve()
    if is_trusted and not path.is_dir():
        raise WaterclockError("E244", "there is no such folder", where=str(path), fix="name the project's folder")
    is_changed = trust_folder(path) if is_trusted else distrust_folder(path)
    if is_json:
        _print_json()
        return
    if is_trusted:
        words = "trusted" if is_changed else "trusted already"
        console().print(f"{words}: {path}, and all below it; `waterclock trust --remove` removes it", soft_wrap=True)
    else:
        console().print(f"{'no longer trusted' if is_changed else 'not in the list'}: {path}", soft_wrap=True)


def list_trust(*, is_json: bool) -> None:
    """Print the folders that are trusted, by the list file or by the environment variable."""
    if is_json:
        _print_json()
        return
    for folder in trusted_folders():
        console().print(str(folder), soft_wrap=True, highlight=False)
    if not trusted_folders():
        console().print(f"none listed in {list_file()} or {VARIABLE}: only your own projects run", soft_wrap=True)


def _print_json() -> None:
    from waterclock.json_models.setup import TrustAnswer

    print_answer(TrustAnswer.build(trusted=[str(folder) for folder in trusted_folders()], list=str(list_file())))
