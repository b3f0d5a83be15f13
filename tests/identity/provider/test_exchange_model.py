"""All actions of apps, users and thieves with codes and refresh tokens, in any order, against a model.

Nothing is accepted twice except for the same request within seconds, and nothing works that was revoked or came from a
code or token that was used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from microsub.accounts.grants import CODE, CODE_REPEAT, TOKEN_OVERLAP, Codes, Consent, Grants, Issued, RedemptionResult
from microsub.accounts.store import Accounts
from microsub.base.errors import Unauthorized
from tests.support import examples
from tests.support.histories import History, emptied, try_histories
from tests.support.invariants import assert_no_stray_keys

T = TypeVar("T")
START = 2_000_000_000.0
EXAMPLES = examples(40)


@dataclass
class Family:
    """All results of one code: `ended` if none of them may work any more; `tokens` with their expiry times."""

    user: str
    ended: bool = False
    tokens: dict[str, float] = field(default_factory=dict)
    newest: str = ""
    used: dict[str, tuple[float, Issued]] = field(default_factory=dict)


@dataclass
class Code:
    """A code in the model. `use` is its first use, with the verifier."""

    text: str
    family: Family
    made: float
    used: float | None = None
    use: tuple[str, str] | None = None
    answer: Issued | None = None


class Machine(History):
    """Two users, with any number of codes and grants."""

    codes = Bundle("codes")
    refreshes = Bundle("refreshes")

    def __init__(self) -> None:
        super().__init__()
        self.accounts, self.store, self.grants = Accounts(self.redis), Codes(self.redis), Grants(self.redis)
        self.now = START
        self.disabled: set[str] = set()
        self.families: list[Family] = []

    def teardown(self) -> None:
        self.run(assert_no_stray_keys(self.redis))
        super().teardown()

    @initialize()
    def begin(self) -> None:
        for name in ("ann", "bob"):
            self.run(self.accounts.add_user(name, f"https://{name}.example/", START))

    @rule(seconds=st.sampled_from((0.5, 5, CODE_REPEAT, 60, CODE, TOKEN_OVERLAP)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(user=st.sampled_from(("ann", "bob")))
    def disable_or_restore(self, user: str) -> None:
        if user in self.disabled:
            self.run(self.accounts.restore_user(user))
        else:
            self.run(self.accounts.disable_user(user, self.now))
        self.disabled ^= {user}

    @rule(target=codes, user=st.sampled_from(("ann", "bob")))
    def agree(self, user: str) -> Code:
        if user in self.disabled:
            return Code(f"{user}.none", Family(user, ended=True), self.now)
        consent = Consent(
            user, "https://app.example/", "App", "https://app.example/back", frozenset({"read", "follow"})
        )
        family = Family(user)
        self.families.append(family)
        return Code(self.run(self.store.create(consent, self.now)), family, self.now)

    @rule(
        target=refreshes,
        code=codes,
        use=st.sampled_from(("token", "token", "profile")),
        verifier=st.sampled_from(("v", "v", "w")),
        fits=st.sampled_from((True, True, True, False)),
    )
    def redeem(self, code: Code, use: str, verifier: str, fits: bool) -> tuple[Family, str]:
        issued = None
        if use == "token":
            spent, issued = self.run(self.store.redeem(code.text, verifier, lambda _: fits, self.now))
        else:
            spent = self.run(self.store.redeem_profile(code.text, lambda _: fits, self.now))
        request = (use, verifier if use == "token" else "")
        expected, family = self.expected(code, request, fits), code.family
        assert spent is expected, (spent, expected)
        assert (issued is not None) == (use == "token" and spent.good)
        if spent is RedemptionResult.GIVEN:
            code.used, code.use, code.answer = self.now, request, issued
            if issued:
                family.tokens[issued.access] = self.now + issued.lifetime
                family.newest = issued.refresh
        elif spent is RedemptionResult.AGAIN:
            assert issued == code.answer
        elif spent is RedemptionResult.REFUSED:
            code.used, code.use = self.now, ("refused", "")
        elif spent is RedemptionResult.REUSED:
            code.use = ("ended", "")
            family.ended = True
        return family, issued.refresh if issued else family.newest

    def expected(self, code: Code, request: tuple[str, str], fits: bool) -> RedemptionResult:
        if code.text.endswith(".none"):
            return RedemptionResult.UNKNOWN
        if code.family.user in self.disabled:
            return RedemptionResult.DISABLED
        if code.used is not None:
            same = fits and request == code.use and self.now - code.used <= CODE_REPEAT
            # An answer is repeated only while its tokens are valid.
            alive = code.answer is None or code.answer.access in self.alive(code.family)
            return RedemptionResult.AGAIN if same and alive else RedemptionResult.REUSED
        if self.now >= code.made + CODE:
            return RedemptionResult.EXPIRED
        return RedemptionResult.GIVEN if fits else RedemptionResult.REFUSED

    def alive(self, family: Family) -> set[str]:
        return set() if family.ended else set(family.tokens)

    @rule(target=refreshes, known=refreshes)
    def renew(self, known: tuple[Family, str]) -> tuple[Family, str]:
        family, refresh = known
        renewed, issued = self.run(self.grants.renew(refresh, None, self.now))
        before = family.used.get(refresh)
        if not refresh or family.ended:
            assert renewed is RedemptionResult.UNKNOWN
        elif family.user in self.disabled:
            assert renewed is RedemptionResult.DISABLED
        elif refresh == family.newest:
            assert renewed is RedemptionResult.GIVEN
            assert issued is not None
            for token, until in family.tokens.items():
                family.tokens[token] = min(until, self.now + TOKEN_OVERLAP)
            family.tokens[issued.access] = self.now + issued.lifetime
            family.newest, family.used[refresh] = issued.refresh, (self.now, issued)
        elif before and before[1].refresh == family.newest and self.now - before[0] <= CODE_REPEAT:
            assert (renewed, issued) == (RedemptionResult.AGAIN, before[1])
        else:
            assert renewed is RedemptionResult.REUSED
            family.ended = True
        return family, issued.refresh if issued else refresh

    @rule(known=refreshes)
    def revoke(self, known: tuple[Family, str]) -> None:
        """The user or the app ends the grant."""
        family, refresh = known
        found = self.run(self.grants.find(refresh))
        assert (found is not None) == (bool(refresh) and not family.ended)
        if found:
            assert self.run(self.grants.end(family.user, found.id))
            family.ended = True

    @invariant()
    def what_works_is_what_the_model_says(self) -> None:
        for family in self.families:
            for number, (token, until) in enumerate(family.tokens.items()):
                if len(family.tokens) - number > 9:
                    continue  # the oldest of too many may be dropped early
                assert self.works(token) == (not family.ended and family.user not in self.disabled and self.now < until)

    def works(self, token: str) -> bool:
        credential = self.accounts.credential(token)
        assert credential is not None
        try:
            self.run(self.accounts.verify(credential, self.now))
        except Unauthorized:
            return False
        return True


def test_codes_work_once_and_revoked_tokens_never(redis_url: str) -> None:
    """This holds for any order of consent, redemption, renewal, revocation, disabling and waiting."""
    try_histories(Machine, emptied(redis_url), EXAMPLES, steps=30)
