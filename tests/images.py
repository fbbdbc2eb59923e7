"""Images of one replica, as commands build them."""

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.segment import Limits
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rebuild import image_at, offset_at_time
from kraftlog.state.image import Image

CLEAR = Redactor(None)


def held_by(replica: Replica, limits: Limits | None = None) -> Held:
    """What a replica's files hold, looked at by itself."""
    quorum = Quorum(evidence_by(Collector(limits or Limits(), CLEAR), [replica], None))
    return Held.by(quorum, quorum.logs[0])


def built(of: Replica | Held, offset: int | None = None, time_ms: int | None = None) -> Image:
    """The image at an offset, at a time, or at the log's end."""
    held = of if isinstance(of, Held) else held_by(of)
    return image_at(held, offset if time_ms is None else offset_at_time(held, time_ms), CLEAR)
