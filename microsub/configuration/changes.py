"""What an edit of backend.json asks the stores to do: one frozen value per change.

Each may be applied twice without harm. `str()` of a change is its line in the log; URLs are shown without passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from microsub.configuration.joining import Quotas
from microsub.configuration.model import InstanceSettings, Limits, UserConfig
from microsub.settings import mask_password

RuleKind = Literal["mute", "block"]


@dataclass(frozen=True, slots=True)
class UserAdded:
    """A user that isn't there, or is disabled and comes back by command (`restored`) with all they had."""

    user: str
    me: str = ""
    restored: bool = False

    def __str__(self) -> str:
        return f"user {self.user} {'restored' if self.restored else 'added'}"


@dataclass(frozen=True, slots=True)
class UserReturned:
    """A disabled user whom the file declares again is enabled, after what they have was made what the file says."""

    user: str
    me: str = ""

    def __str__(self) -> str:
        return f"user {self.user} is back, with what the file says"


@dataclass(frozen=True, slots=True)
class UserChanged:
    """The user's site is another one."""

    user: str
    me: str

    def __str__(self) -> str:
        return f"user {self.user}: site changed to {mask_password(self.me)}"


@dataclass(frozen=True, slots=True)
class TokenEndpointChanged:
    """Where the user's tokens are checked; None: where their site says."""

    user: str
    url: str | None

    def __str__(self) -> str:
        if self.url is None:
            return f"user {self.user}: tokens are checked where the site says"
        return f"user {self.user}: tokens are checked at {mask_password(self.url)}"


@dataclass(frozen=True, slots=True)
class UserRemoved:
    """The user is disabled; restorable for 30 days."""

    user: str

    def __str__(self) -> str:
        return f"user {self.user} disabled, restorable for 30 days"


@dataclass(frozen=True, slots=True)
class UserSettingsChanged:
    """The limits that hold for all of the user's channels; absent ones fall back to the instance's."""

    user: str
    settings: Limits

    def __str__(self) -> str:
        return f"user {self.user}: settings changed"


@dataclass(frozen=True, slots=True)
class UserQuotasChanged:
    """How much the user may have; what is absent falls back to what holds for others."""

    user: str
    quotas: Quotas

    def __str__(self) -> str:
        return f"user {self.user}: quotas changed"


@dataclass(frozen=True, slots=True)
class ChannelAdded:
    """A channel that isn't there, or was removed (`restored`) and comes back with its timeline."""

    user: str
    uid: str
    name: str
    restored: bool = False

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid} {'restored' if self.restored else 'added'}"


@dataclass(frozen=True, slots=True)
class ChannelRenamed:
    """The channel's name; its uid never changes."""

    user: str
    uid: str
    name: str

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid} renamed to '{self.name}'"


@dataclass(frozen=True, slots=True)
class ChannelRemoved:
    """The channel disappears; restorable for 30 days."""

    user: str
    uid: str

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid} removed, restorable for 30 days"


@dataclass(frozen=True, slots=True)
class ChannelsReordered:
    """All of the user's channels in their new order, those made through the API included."""

    user: str
    uids: tuple[str, ...]

    def __str__(self) -> str:
        return f"channels of {self.user} put in the order {', '.join(self.uids)}"


@dataclass(frozen=True, slots=True)
class ChannelSettingsChanged:
    """The channel's own limits and filters, whole; absent limits fall back to the user's."""

    user: str
    uid: str
    settings: Limits
    filters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid}: settings changed"


@dataclass(frozen=True, slots=True)
class FeedAdded:
    """The channel follows a feed more."""

    user: str
    uid: str
    url: str
    name: str | None = None

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid} follows {mask_password(self.url)}"


@dataclass(frozen=True, slots=True)
class FeedRenamed:
    """The owner's own name for a feed; None: the feed's title again."""

    user: str
    uid: str
    url: str
    name: str | None

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid}: {mask_password(self.url)} is called '{self.name or ''}'"


@dataclass(frozen=True, slots=True)
class FeedRemoved:
    """The channel follows a feed less."""

    user: str
    uid: str
    url: str

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid} no longer follows {mask_password(self.url)}"


@dataclass(frozen=True, slots=True)
class RuleAdded:
    """A mute or block; `uid` is `global` for all channels."""

    user: str
    uid: str
    kind: RuleKind
    url: str

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid}: {self.kind} {mask_password(self.url)}"


@dataclass(frozen=True, slots=True)
class RuleRemoved:
    """A mute or block less."""

    user: str
    uid: str
    kind: RuleKind
    url: str

    def __str__(self) -> str:
        return f"channel {self.user}/{self.uid}: no more {self.kind} of {mask_password(self.url)}"


@dataclass(frozen=True, slots=True)
class InstanceSettingsChanged:
    """What holds for everybody."""

    settings: InstanceSettings

    def __str__(self) -> str:
        return "settings of the instance changed"


Change = (
    UserAdded
    | UserReturned
    | UserChanged
    | TokenEndpointChanged
    | UserRemoved
    | UserSettingsChanged
    | UserQuotasChanged
    | ChannelAdded
    | ChannelRenamed
    | ChannelRemoved
    | ChannelsReordered
    | ChannelSettingsChanged
    | FeedAdded
    | FeedRenamed
    | FeedRemoved
    | RuleAdded
    | RuleRemoved
    | InstanceSettingsChanged
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """File and API changed the same thing; the later change won."""

    what: str
    file: str
    api: str
    winner: Literal["file", "api"]

    def __str__(self) -> str:
        winner = "the file" if self.winner == "file" else "the API"
        return f"{self.what}: the file has {self.file}, the API {self.api}; {winner} changed it later and wins"


@dataclass(frozen=True, slots=True)
class Current:
    """What the stores hold now.

    `users` has every user that isn't disabled, with the channels that aren't removed, in order, and `disabled` the
    others. `changed` gives, by (user, uid), Unix time of the API's last change of a channel, and by (user, '') of their
    order, where it is known. `removed` channels can be restored. `settings` are the instance's. Users who `registered`
    made their accounts themselves: the file may say something of them, but they don't depend on it.
    """

    users: Mapping[str, UserConfig] = field(default_factory=dict)
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    disabled: Mapping[str, UserConfig] = field(default_factory=dict)
    removed: frozenset[tuple[str, str]] = frozenset()
    changed: Mapping[tuple[str, str], float] = field(default_factory=dict)
    registered: frozenset[str] = frozenset()
