"""What has to do with people's identity, in one value that `wiring.identity` builds."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.identity.local.login import LocalIdentity
from microsub.identity.page_check.doctor import PageDoctor
from microsub.identity.provider.clients import ConsentLimit
from microsub.identity.provider.provider import IndieAuthProvider
from microsub.identity.sign_in.client import SignInClient
from microsub.identity.sign_in.profiles import Profiles
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.tokens.foreign import ForeignTokenCheck
from microsub.identity.tokens.quotas import UserQuotas


@dataclass(frozen=True, slots=True)
class IdentityServices:
    """All use cases of identity of one process."""

    profiles: Profiles
    provider: IndieAuthProvider
    sessions: Sessions
    signing_in: SignInClient
    local: LocalIdentity
    quotas: UserQuotas
    consents: ConsentLimit
    verification: ForeignTokenCheck
    doctor: PageDoctor
