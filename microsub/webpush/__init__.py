"""Web push: devices that show notifications of new posts, the messages to them, and their encryption."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.webpush.devices import Device, Devices, DeviceState
    from microsub.webpush.encryption import ServerKey, browser_keys, encrypted
    from microsub.webpush.messages import DeviceMessages
else:
    __getattr__ = lazy_exports(__name__, __file__)
