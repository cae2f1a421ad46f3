"""Maps each command to the models of its answers with --json. Tests check the real answers against them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from waterclock.json_models.access import (
    AccessesAnswer,
    NewTokenAnswer,
    RevokedSessionsAnswer,
    RevokedTokenAnswer,
    SessionsAnswer,
    TokensAnswer,
)
from waterclock.json_models.alerts import (
    AcknowledgedAnswer,
    AlertsAnswer,
    AlertsSentAnswer,
    AlertsTestAnswer,
    LineageSentAnswer,
    OpenLineageAnswer,
)
from waterclock.json_models.audit import AuditAnswer, AuditListAnswer
from waterclock.json_models.branches import (
    BranchAnswer,
    BranchesAnswer,
    BranchPlanAnswer,
    DeletedBranchAnswer,
    PromoteAnswer,
)
from waterclock.json_models.comparison import DiffAnswer, WhyAnswer
from waterclock.json_models.decisions import (
    CloseAnswer,
    DropAnswer,
    PauseAnswer,
    ReleaseAnswer,
    ResetAnswer,
    ResumeAnswer,
    RevertAnswer,
    SkipAnswer,
    WithdrawAnswer,
)
from waterclock.json_models.editing import EditAnswer
from waterclock.json_models.erasing import ErasureAnswer
from waterclock.json_models.lineage import ColumnLineageAnswer, ImpactAnswer, LineageAnswer
from waterclock.json_models.maintenance import LedgerAnswer, MaintainAnswer, RebuildAllAnswer, RebuildAnswer, WarmAnswer
from waterclock.json_models.parts import Answer
from waterclock.json_models.personal_data import PersonalDataAnswer
from waterclock.json_models.plan import PlanAnswer
from waterclock.json_models.runs import HeldAgainAnswer, RetryAnswer, RippleAnswer, RunAnswer, RunnersAnswer
from waterclock.json_models.setup import CheckAnswer, InitAnswer, ReceiveAnswer, SpecAnswer, TrustAnswer, UiAnswer
from waterclock.json_models.status import StatusAnswer
from waterclock.json_models.tables import FilesAnswer, FlatModelAnswer, ModelAnswer, QueryAnswer, ShowAnswer

ANSWERS: Mapping[str, tuple[type[Answer], ...]] = MappingProxyType(
    {
        "init": (InitAnswer,),
        "check": (CheckAnswer,),
        "spec": (SpecAnswer,),
        "plan": (PlanAnswer, BranchPlanAnswer),
        "run": (RunAnswer,),
        "edit": (EditAnswer,),
        "alerts": (AlertsAnswer, AlertsTestAnswer, AcknowledgedAnswer, AlertsSentAnswer),
        "branch": (BranchAnswer, BranchesAnswer, DeletedBranchAnswer),
        "promote": (PromoteAnswer, RunAnswer),
        "close": (CloseAnswer,),
        "skip": (SkipAnswer,),
        "release": (ReleaseAnswer,),
        "withdraw": (WithdrawAnswer,),
        "pause": (PauseAnswer,),
        "resume": (ResumeAnswer,),
        "status": (StatusAnswer,),
        "show": (ShowAnswer,),
        "query": (QueryAnswer,),
        "diff": (DiffAnswer, WhyAnswer),
        "model": (ModelAnswer, FlatModelAnswer),
        "audit": (AuditAnswer, AuditListAnswer),
        "lineage": (LineageAnswer, ColumnLineageAnswer, ImpactAnswer),
        "pii": (PersonalDataAnswer,),
        "openlineage": (OpenLineageAnswer, LineageSentAnswer),
        "drop": (DropAnswer,),
        "erase": (ErasureAnswer,),
        "files": (FilesAnswer,),
        "maintain": (MaintainAnswer,),
        "rebuild": (RebuildAnswer, RebuildAllAnswer),
        "reset": (ResetAnswer,),
        "ledger": (LedgerAnswer,),
        "runners": (RunnersAnswer,),
        "receive": (ReceiveAnswer,),
        "ui": (UiAnswer,),
        "trust": (TrustAnswer,),
        "token": (TokensAnswer, NewTokenAnswer, RevokedTokenAnswer),
        "session": (SessionsAnswer, RevokedSessionsAnswer),
        "access": (AccessesAnswer,),
        "warm": (WarmAnswer,),
        "backfill": (RunAnswer,),
        "retry": (RunAnswer, RetryAnswer),
        "recompute": (RunAnswer, RippleAnswer, HeldAgainAnswer),
        "recollect": (RunAnswer, RippleAnswer, HeldAgainAnswer),
        "replay": (RunAnswer, RippleAnswer),
        "revert": (RunAnswer, RevertAnswer),
    }
)
