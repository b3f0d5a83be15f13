"""Users of this server in Redis: accounts, tokens, grants, sessions, credentials, quotas."""

from microsub.accounts.activity import Activity, ActivityNotes, TokenUse
from microsub.accounts.credentials import (
    ATTEMPTS,
    PASSKEY_CHALLENGE,
    AttemptCounts,
    InvitationSpent,
    LocalCredentials,
    Passkey,
)
from microsub.accounts.foreign import ForeignTokens, KnownToken, Principal, TokenOrigin, UnknownTokens, Vouched
from microsub.accounts.grants import (
    SOURCE_MARK,
    AppGrant,
    Codes,
    Consent,
    Grants,
    Issued,
    OwnToken,
    OwnTokens,
    RedemptionResult,
    end_source,
    is_refresh,
    owner_in,
)
from microsub.accounts.post_room import PostRoom
from microsub.accounts.quotas import Most, RequestRate, UserQuotas, resolved
from microsub.accounts.records import absent
from microsub.accounts.sessions import (
    SIGN_IN,
    VISIT_NOTED,
    PendingStore,
    Sessions,
    SignedInPerson,
    SignInUnderWay,
    device,
)
from microsub.accounts.store import MARK, Accounts, ServiceTokens, Token, User, grant, unauthorized

__all__ = [
    "ATTEMPTS",
    "MARK",
    "PASSKEY_CHALLENGE",
    "SIGN_IN",
    "SOURCE_MARK",
    "VISIT_NOTED",
    "Accounts",
    "Activity",
    "ActivityNotes",
    "AppGrant",
    "AttemptCounts",
    "Codes",
    "Consent",
    "ForeignTokens",
    "Grants",
    "InvitationSpent",
    "Issued",
    "KnownToken",
    "LocalCredentials",
    "Most",
    "OwnToken",
    "OwnTokens",
    "Passkey",
    "PendingStore",
    "PostRoom",
    "Principal",
    "RedemptionResult",
    "RequestRate",
    "ServiceTokens",
    "Sessions",
    "SignInUnderWay",
    "SignedInPerson",
    "Token",
    "TokenOrigin",
    "TokenUse",
    "UnknownTokens",
    "User",
    "UserQuotas",
    "Vouched",
    "absent",
    "device",
    "end_source",
    "grant",
    "is_refresh",
    "owner_in",
    "resolved",
    "unauthorized",
]
