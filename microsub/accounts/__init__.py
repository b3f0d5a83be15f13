"""Users of this server in Redis: accounts, tokens, grants, sessions, credentials, quotas."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.accounts.activity import ActivityNotes
    from microsub.accounts.app_passwords import create_app_password, token_of_password
    from microsub.accounts.credentials import (
        PASSKEY_CHALLENGE,
        InvitationSpent,
        LocalCredentials,
        Passkey,
    )
    from microsub.accounts.foreign import ForeignTokens, KnownToken, UnknownTokens, Vouched
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
        TokenUse,
        end_source,
        is_refresh,
        owner_in,
    )
    from microsub.accounts.post_room import PostRoom
    from microsub.accounts.quotas import Most, RequestRate, UserQuotas, resolved
    from microsub.accounts.records import Activity, absent
    from microsub.accounts.requests import AppRequests
    from microsub.accounts.sessions import (
        SIGN_IN,
        VISIT_NOTED,
        PendingStore,
        Sessions,
        SignedInPerson,
        SignInUnderWay,
        device,
        write_record,
    )
    from microsub.accounts.store import MARK, Accounts, ServiceTokens, Token, User, grant, unauthorized
else:
    __getattr__ = lazy_exports(__name__, __file__)
