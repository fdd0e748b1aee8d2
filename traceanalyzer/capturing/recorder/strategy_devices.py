"""Whose devices the strategies of `tf.distribute` ask for.

`MirroredStrategy()` and the like take the GPUs there are, and the CPU where there is none: that is
a device of the machine, not of the program. What they are given, and the hosts of devices, are
spelt out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable, List, Tuple

from .origins import MACHINE, is_cpu_in_full
from .patches import Patches
from .tracebacks import unseen

if TYPE_CHECKING:
    from .origins import Origins

__all__ = ["StrategyDevices"]

_DISTRIBUTE = "tensorflow.python.distribute."


class StrategyDevices:
    """Has the texts of strategies' devices tell whose they are."""

    def __init__(self, origins: Origins) -> None:
        """Prepare; nothing is replaced yet."""
        self._origins = origins
        self._patches = Patches()

    def install(self) -> None:
        """Replace what strategies find their devices by."""
        util = importlib.import_module(_DISTRIBUTE + "device_util")
        mirrored = importlib.import_module(_DISTRIBUTE + "mirrored_strategy")
        collective = importlib.import_module(_DISTRIBUTE + "collective_all_reduce_strategy")
        extended = collective.CollectiveAllReduceExtended
        for owner, name, wrap in (
            (mirrored, "all_local_devices", self._logical),
            (util, "local_devices_from_num_gpus", self._named),
            (extended, "_initialize_local_devices", self._first_of_pair),
            (util, "canonicalize", self._canonicalized),
            (util, "get_host_for_device", self._host),
        ):
            self._patches.replace(owner, name, wrap(getattr(owner, name)))

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()

    def _logical(self, original: Callable[..., List[Any]]) -> Callable[..., List[Any]]:
        def devices(*args: Any, **kwargs: Any) -> List[Any]:  # noqa: ANN401
            with unseen:
                found = original(*args, **kwargs)
            return [d._replace(name=self._of_machine(d.name)) for d in found]

        return devices

    def _named(self, original: Callable[..., Tuple[str, ...]]) -> Callable[..., Tuple[str, ...]]:
        def devices(*args: Any, **kwargs: Any) -> Tuple[str, ...]:  # noqa: ANN401
            with unseen:
                found = original(*args, **kwargs)
            return tuple(map(self._of_machine, found))

        return devices

    def _first_of_pair(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def devices(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            with unseen:
                found, kind = original(*args, **kwargs)
            return tuple(map(self._of_machine, found)), kind

        return devices

    def _of_machine(self, name: str) -> str:
        return self._origins.named(name, MACHINE) if "CPU" in name else name

    def _canonicalized(self, original: Callable[..., str]) -> Callable[..., str]:
        """Keep whose a device is when its name is completed; a part of one is spelt out."""

        def canonicalize(d: Any, *args: Any, **kwargs: Any) -> str:  # noqa: ANN401
            with unseen:
                found = original(d, *args, **kwargs)
            given = getattr(d, "name", d)
            is_told = self._origins.is_known(given) or not is_cpu_in_full(given)
            if is_told and "cpu" in str(given).lower():
                return self._origins.named(found, self._origins.known(given))
            return found

        return canonicalize

    def _host(self, original: Callable[..., str]) -> Callable[..., str]:
        def host(*args: Any, **kwargs: Any) -> str:  # noqa: ANN401
            with unseen:
                return self._origins.named(original(*args, **kwargs), None)

        return host
