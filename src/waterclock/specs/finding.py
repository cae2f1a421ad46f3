"""Finds the specification files of a project, and filters their scenarios by name and tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean, find_similar
from waterclock.specs.document import Feature, Scenario
from waterclock.specs.feature_files import read_feature

FOLDER, ENDING = "specs", ".feature"


@dataclass(frozen=True, slots=True)
class SpecFiles:
    """Features with the selected scenarios, and the errors in their files."""

    features: tuple[Feature, ...]
    errors: tuple[WaterclockError, ...] = ()

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """All scenarios, in the order of files and lines."""
        return tuple(scenario for feature in self.features for scenario in feature.scenarios)


def find_features(
    root: Path, files: Sequence[str | Path] = (), *, name: str | None = None, tags: str | None = None
) -> SpecFiles:
    """Find and parse the features of the project at `root`: all of `specs/`, or the given files and folders.

    `name` selects scenarios whose feature, rule or name contains this text, or matches it as a pattern with `*`.
    `tags`, such as `late,not slow`, selects scenarios with one of the tags and none of those after `not`.
    Raises E360 if no scenario is selected.
    """
    paths = _find_paths(root, files)
    features: list[Feature] = []
    errors: list[WaterclockError] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            errors.append(
                WaterclockError(
                    "E350", "this file is not UTF-8", where=f"{_format_path(path, root)}:1:1", fix="save it in UTF-8"
                )
            )
            continue
        feature, wrong = read_feature(text, _format_path(path, root))
        errors.extend(wrong)
        if feature is not None:
            features.append(feature)
    selected = [kept for feature in features if (kept := _filter_feature(feature, name, tags)) is not None]
    if not selected and not errors:
        raise _no_scenario_error(features, name, tags)
    return SpecFiles(tuple(selected), tuple(errors))


def _find_paths(root: Path, files: Sequence[str | Path]) -> list[Path]:
    if not files:
        found = sorted((root / FOLDER).rglob(f"*{ENDING}"))
        if not found:
            raise WaterclockError(
                "E360",
                f"there are no specifications in {root / FOLDER}",
                where=str(root / FOLDER),
                why=f"the folder contains no file *{ENDING}",
                fix=f"write {FOLDER}/first{ENDING}, or name a file",
            )
        return found
    paths: list[Path] = []
    for each in files:
        path = Path(each) if Path(each).exists() else root / each
        if path.is_dir():
            paths.extend(sorted(path.rglob(f"*{ENDING}")))
        elif path.is_file():
            paths.append(path)
        else:
            there = [_format_path(other, root) for other in (root / FOLDER).rglob(f"*{ENDING}")]
            near = find_similar(str(each), there, most=1)
            fix = f"did you mean {near[0]}?" if near else f"name one of {', '.join(sorted(there))}" if there else None
            raise WaterclockError("E360", f"no file {each}", where=str(each), fix=fix)
    return list(dict.fromkeys(paths))


def _format_path(path: Path, root: Path) -> str:
    """Return a file's path relative to the project's folder if it is inside."""
    resolved = path.resolve()
    return resolved.relative_to(root.resolve()).as_posix() if resolved.is_relative_to(root.resolve()) else str(path)


def _filter_feature(feature: Feature, name: str | None, tags: str | None) -> Feature | None:
    if name is None and tags is None:
        return feature
    rules = [
        replace(rule, scenarios=kept)
        for rule in feature.rules
        if (kept := tuple(each for each in rule.scenarios if _has_name(each, name) and _has_tags(each, tags)))
    ]
    return replace(feature, rules=tuple(rules)) if rules else None


def _has_name(scenario: Scenario, name: str | None) -> bool:
    if name is None:
        return True
    text, wanted = str(scenario).lower(), name.lower()
    return wanted in text or fnmatchcase(text, wanted) or fnmatchcase(scenario.title.lower(), wanted)


def _has_tags(scenario: Scenario, tags: str | None) -> bool:
    there = {tag.lstrip("@").lower() for tag in scenario.tags}
    wanted = [part.strip() for part in (tags or "").lower().split(",") if part.strip()]
    without = {part.removeprefix("not ").strip().lstrip("@") for part in wanted if part.startswith("not ")}
    having = {part.lstrip("@") for part in wanted if not part.startswith("not ")}
    return not (there & without) and (not having or bool(there & having))


def _no_scenario_error(features: Iterable[Feature], name: str | None, tags: str | None) -> WaterclockError:
    scenarios = [scenario for feature in features for scenario in feature.scenarios]
    filters = " and ".join(filter(None, (f"name {name}" if name else "", f"tags {tags}" if tags else "")))
    all_tags = sorted({tag.lstrip("@") for scenario in scenarios for tag in scenario.tags})
    near = did_you_mean(name, [scenario.title for scenario in scenarios]) if name else None
    return WaterclockError(
        "E360",
        f"no scenario has {filters}",
        why=f"there are {len(scenarios)} scenarios" + (f", with the tags {', '.join(all_tags)}" if all_tags else ""),
        fix=near or "leave the choice out to run all",
    )
