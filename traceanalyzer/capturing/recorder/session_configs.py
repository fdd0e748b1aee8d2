"""How the program configured its sessions of TensorFlow 1.

A session has options of its own (`ConfigProto`), whatever `tf.config` says: optimizers, devices,
soft placement. One that is made without has those of `tf.config` (python/client/session.py,
`BaseSession.__init__`, of 2.12 and 2.21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from .journal import Journal

__all__ = ["SessionConfigs"]

_MOST = 20  # different ones of one program
_MOST_NAMES = 50  # in a list or a map
_LONGEST = 200  # characters of a name


class SessionConfigs:
    """Journals each distinct configuration once."""

    def __init__(self, journal: Journal) -> None:
        """Start with none known.

        Args:
            journal: Where to write.
        """
        self._journal = journal
        self._found: List[Dict[str, Any]] = []

    def made(self, session: Any, *, is_own: bool) -> None:  # noqa: ANN401 - a BaseSession
        """Note the configuration of a session that was made.

        Args:
            session: It.
            is_own: Whether the program gave it one.
        """
        try:
            if len(self._found) >= _MOST:
                return
            found = {"is_own": is_own, **_facts(session)}
            if found not in self._found:
                self._found.append(found)
                self._journal.write("session_config", **found)
        except Exception as error:  # noqa: BLE001 - ours, not the program's
            self._journal.failed("the configuration of a session", error)


def _facts(session: Any) -> Dict[str, Any]:  # noqa: ANN401 - a BaseSession
    config = session._config  # noqa: SLF001 - what the program gave it, or the default
    is_local = not session._target  # noqa: SLF001 - bytes
    devices = session.list_devices() if is_local else ()  # a server would have to be asked
    return {
        "is_local": is_local,
        "device_types": sorted({device.device_type for device in devices}),
        "soft_placement": config.allow_soft_placement,
        "log_placement": config.log_device_placement,
        "device_count": dict(sorted(config.device_count.items())[:_MOST_NAMES]),
        "memory_fraction": config.gpu_options.per_process_gpu_memory_fraction or None,
        "rewrites": _rewrites(config.graph_options.rewrite_options),
    }


def _rewrites(options: Any) -> Dict[str, Any]:  # noqa: ANN401 - a RewriterConfig
    """Return what is set of the optimizers' options: choices by name, lists of names, numbers."""
    found: Dict[str, Any] = {}
    for field, value in options.ListFields():
        if field.enum_type is not None:
            chosen = field.enum_type.values_by_number.get(value)
            found[field.name] = chosen.name if chosen is not None else value
        elif field.name == "optimizers":
            found[field.name] = [str(each)[:_LONGEST] for each in value[:_MOST_NAMES]]
        elif isinstance(value, (bool, int, float)):
            found[field.name] = value
    return found
