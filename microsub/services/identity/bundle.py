"""What has to do with people's identity, in one value that `wiring.identity` builds."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.services.identity.asking import Asking
from microsub.services.identity.doctor import Doctor
from microsub.services.identity.granting import Granting
from microsub.services.identity.local import Local
from microsub.services.identity.profiles import Profiles
from microsub.services.identity.quotas import UserQuotas
from microsub.services.identity.sessions import Sessions
from microsub.services.identity.signing_in import SigningIn
from microsub.services.identity.verification import Verification


@dataclass(frozen=True, slots=True)
class Identity:
    """All use cases of identity of one process."""

    profiles: Profiles
    granting: Granting
    sessions: Sessions
    signing_in: SigningIn
    local: Local
    quotas: UserQuotas
    asking: Asking
    verification: Verification
    doctor: Doctor
