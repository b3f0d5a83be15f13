"""Identity: sign-in, sessions, tokens, and the IndieAuth provider."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.identity.admission import Admission, UserAddresses
    from microsub.identity.api import OAuthEndpoint, PresentedToken, RequestCredentials
    from microsub.identity.app_channels import AppChannels
    from microsub.identity.argon2id import Argon2id
    from microsub.identity.clients import ClientApps, ConsentLimit
    from microsub.identity.foreign_tokens import ForeignTokenCheck, Introspection
    from microsub.identity.local_sign_in import INVITATION_PATH, LocalSignIn
    from microsub.identity.page_check import PageDoctor
    from microsub.identity.page_check.findings import CheckedAgainst, PageReport
    from microsub.identity.pages.consent import ConsentPages
    from microsub.identity.pages.sign_in import LINK_PATH
    from microsub.identity.pages.visits import has_hosted_profile, next_path
    from microsub.identity.passwords import LONGEST_PASSWORD, SHORTEST_PASSWORD
    from microsub.identity.profiles import Profiles
    from microsub.identity.protocol.documents import micropub_line, profile_page, read_error, webmention_line
    from microsub.identity.provider import IndieAuthProvider
    from microsub.identity.sign_in import CALLBACK_OF_POSTING, PostingAccess, SignInClient, SignInLimits, provider_name
    from microsub.identity.webauthn import attested, presented_credential, verified_count
else:
    __getattr__ = lazy_exports(__name__, __file__)
