"""A round of pulling: the newest snapshot, put together from its pieces, the log up to where the
leader was, and what it said.

In: the leader, and the pulled folder. Out: the folder, grown, so that its log ends exactly where
the leader's did when it described the quorum; batches above the high watermark of that describe are
not committed yet. The rules are a follower's: diverging epochs cut the log, a log start beyond our
end begins it anew. Source: KIP-595, KIP-630; `simulate.fetch` and `simulate.boot` in earnest.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import KraftlogError
from kraftlog.log.batch import PREFIX_SIZE
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import FILE_LIMIT_BYTES, checkpoint_name, classify
from kraftlog.log.segment import Limits
from kraftlog.plain import offsets_text
from kraftlog.pull.address import PullError, Unreachable
from kraftlog.pull.batches import After, WholeBatches, whole_batches
from kraftlog.pull.description import describe_text
from kraftlog.pull.folder import PulledFolder, open_own, rename, write_all
from kraftlog.pull.leader import PAUSE_SECONDS, LeaderClient
from kraftlog.pull.messages import Description, Fetched
from kraftlog.quorum.collector import Collector
from kraftlog.quorum.epochs import EpochEnd, truncated_to
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import Piece
from kraftlog.wire import INT32, INT64


class AssemblyError(KraftlogError):
    """A piece that does not fit, or a whole that is no snapshot."""


@dataclass(frozen=True)
class Assembler:
    """Gathers one snapshot in `folder`, of pieces in any sizes: `.part` → validated → renamed. A crash
    at any point leaves a `.part`, which counts as fetched, or the whole file. Source: KIP-630 "Response
    Handling".
    """

    folder: Path
    snapshot: SnapshotId

    @property
    def target(self) -> Path:
        return self.folder / checkpoint_name(self.snapshot.end_offset, self.snapshot.epoch)

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def position(self) -> int:
        """Where the next piece begins."""
        return self.part.stat().st_size if self.part.exists() else 0

    def resume(self) -> Path | None:
        """The finished file where nothing is left to ask for: it is there, or its `.part` is whole
        and only the renaming is missing. Kafka's leader would refuse to be asked at its end.
        """
        if self.target.exists():
            return self.target
        return self._finish() if self.part.exists() and why_invalid(self.part) is None else None

    def take(self, piece: Piece) -> Path | None:
        """Add a piece; the finished file where it was the last one.

        Raises AssemblyError for an error, for a piece of another snapshot, for a gap or an overlap,
        and for a whole that is not valid: its `.part` is then removed, as nothing tells which of
        its bytes are wrong.
        """
        self._check(piece)
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_own(self.part, os.O_APPEND) as handle:
            write_all(handle, piece.content)
            os.fsync(handle)
        return self._finish() if self.position == piece.size_bytes else None

    def _check(self, piece: Piece) -> None:
        name = self.target.name
        if piece.error is not None:
            raise AssemblyError(f"{name}: the leader answered {piece.error}")
        if piece.snapshot != self.snapshot:
            raise AssemblyError(f"{name}: the piece is of another snapshot, {piece.snapshot.name}")
        if piece.position != self.position:
            raise AssemblyError(
                f"{name}: the piece begins at byte {piece.position}, and {self.position} is next"
            )
        end = piece.position + len(piece.content)
        if end > piece.size_bytes:
            raise AssemblyError(f"{name}: {end} bytes are more than its {piece.size_bytes}")

    def _finish(self) -> Path:
        """Validate, rename, and make the name last."""
        reason = why_invalid(self.part)
        if reason is not None:
            self.part.unlink()
            raise AssemblyError(f"{self.target.name}: {reason}; it must be fetched again")
        rename(self.part, self.target)
        return self.target


def why_invalid(fetched: Path) -> str | None:
    """Why a fetched file is no snapshot (CRCs, records, header, footer); None where it is one. Kafka itself
    compares only the size, and finds the rest when it loads the file.
    """
    (one,) = find_replicas([str(fetched)])
    parsed = classify(fetched.name.removesuffix(".part"))
    collector = Collector(Limits(), Redactor(None))
    found = collector.snapshot(replace(one.files[0], parsed=parsed))
    return SnapshotView(one.label, found, tuple(collector.contents)).why_incomplete


def transfer(assembler: Assembler, answer: Callable[[int], Piece]) -> Path:
    """Ask for the piece at each position until the snapshot is there; a file that is there already
    is not asked for.

    Raises AssemblyError as `Assembler.take` does, and for an empty answer that is not the last.
    """
    finished = assembler.resume()
    while finished is None:
        piece = answer(assembler.position)
        finished = assembler.take(piece)
        if finished is None and not piece.content:
            raise AssemblyError(f"{assembler.target.name}: an empty piece brings nothing new")
    return finished


ROUNDS = 10
"""So often a new leader, or a snapshot that goes while it is fetched, is put up with."""


def _epoch_of(batch: bytes) -> bytes:
    """The leader's epoch in a batch's header, or what has come of it."""
    return batch[PREFIX_SIZE : PREFIX_SIZE + INT32.size]


class _SnapshotGone(PullError):
    """The leader has dropped or replaced a snapshot while it was fetched."""


@dataclass
class Puller:
    """Pulls as often as it is asked; `tell` says what a person should know. With `newest_only` the
    log begins at the newest snapshot, and not where the leader's begins. `whole` is the snapshot that
    was found to be one.
    """

    leader: LeaderClient
    folder: PulledFolder
    tell: Callable[[str], None]
    newest_only: bool = False
    whole: SnapshotId | None = None

    def pull(self) -> Description:
        """Rounds, until the folder holds all that the leader had, and the leader said so after the
        bulk of it had come.
        """
        whole: Description | None = None
        for _ in range(ROUNDS):
            described = self.leader.describe()
            self._identify()
            self._recognise()
            self._take_snapshot()
            requests = self._take_log(described.log_end_offset)
            is_whole = self.folder.after == (
                self.folder.vector.last_epoch,
                described.log_end_offset,
            )
            if not is_whole or described.leader != self.leader.leader:
                time.sleep(PAUSE_SECONDS)
                continue
            text = describe_text(described, self.folder.cluster_id)
            self.folder.save(text, described.high_watermark)
            if requests <= 1 or whole is not None:
                return described
            whole = described
        if whole is None:
            raise Unreachable("the quorum changes its leader too often to be pulled; try again")
        return whole

    def _identify(self) -> None:
        """The cluster's id goes into the folder's identity, and into every question from then."""
        if self.folder.cluster_id is None:
            self.folder.name_cluster(self.leader.name_cluster())
        self.leader.cluster_id = self.folder.cluster_id

    def _recognise(self) -> None:
        """Whether the leader's quorum is the one of our log. A cluster's id does not tell, where the
        user may know it: a quorum that is formed anew, as by `kraftlog recover`, may have the old one.
        So the leader is in no older epoch than our log, and holds our last batch, or another one of a
        later epoch, or says that it holds none: then what follows says what our log has too much.
        """
        leader, known, out = (
            self.leader.leader,
            self.folder.vector.last_epoch or 0,
            self.folder.path,
        )
        if leader.epoch < known:
            raise PullError(
                f"node {leader.node_id} leads in epoch {leader.epoch}, and {out} holds records of epoch {known}. "
                "Name the other controllers, or, where the quorum began anew, a new folder as --out"
            )
        ours, self.folder.last_batch = self.folder.last_batch, b""
        if not ours:
            return
        (offset,) = INT64.unpack_from(ours)
        held = self.leader.fetch(offset, known).records
        if held and not held.startswith(ours) and _epoch_of(held) == _epoch_of(ours):
            raise PullError(
                f"the leader holds another batch at offset {offset} than {out}, in the same epoch. "
                "It is of another cluster, or the quorum began anew: name a new folder as --out"
            )

    # --- the snapshot ----------------------------------------------------------------------------

    def _take_snapshot(self) -> None:
        """The newest snapshot, where the folder has none that is as new: a fetch from offset 0 is
        answered with it.
        """
        problem: PullError | None = None
        for _ in range(ROUNDS):
            newest = self.leader.fetch(0, 0).snapshot
            if newest is None or self._holds(newest):
                self.folder.forget_parts()
                return
            self.folder.forget_parts(but=newest)
            assembler = Assembler(self.folder.log, newest)
            is_resumed = assembler.position > 0
            try:
                transfer(assembler, self._pieces_of_one_file(newest))
            except _SnapshotGone as gone:
                problem = gone
                self.folder.forget_parts()
                continue
            except AssemblyError:
                if not is_resumed:
                    raise
                # What an earlier pull left may be of another leader's file.
                self.folder.forget_parts()
                continue
            self.whole = newest
            self.tell(f"snapshot {newest.name} has come")
            return
        why = f"the last one: {problem}" if problem else "what comes is not a snapshot"
        raise PullError(
            f"no snapshot has come whole in {ROUNDS} attempts ({why}); if the leader drops them faster than they come, raise the rate"
        )

    def _holds(self, snapshot: SnapshotId) -> bool:
        """Whether the folder has a snapshot, and its bytes are whole: they are looked at once, as a disk
        may have damaged what an earlier pull fetched.
        """
        if snapshot not in self.folder.snapshots():
            return False
        if snapshot == self.whole:
            return True
        path = self.folder.snapshot_path(snapshot)
        if (why := why_invalid(path)) is not None:
            self.tell(
                f"{path}: it is damaged ({why}); a .deleted file keeps it, and it is fetched anew"
            )
            self.folder.set_snapshot_aside(snapshot)
            return False
        self.whole = snapshot
        return True

    def _pieces_of_one_file(self, snapshot: SnapshotId) -> Callable[[int], Piece]:
        """Asks for pieces of a snapshot, all from one node's file: each node writes its own, and
        what holds the same records need not be the same bytes.
        """
        known: tuple[int, int] | None = None

        def answer(position: int) -> Piece:
            nonlocal known
            piece = self.leader.piece(snapshot, position)
            if piece.error is not None:
                raise _SnapshotGone(f"snapshot {snapshot.name}: {piece.error}")
            if not 0 < piece.size_bytes <= FILE_LIMIT_BYTES:
                raise PullError(f"the leader claims {piece.size_bytes} bytes for a snapshot")
            found = self.leader.leader.node_id, piece.size_bytes
            if known not in (None, found):
                raise _SnapshotGone(
                    f"snapshot {snapshot.name}: it is of another leader or size now"
                )
            known = found
            return piece

        return answer

    # --- the log ---------------------------------------------------------------------------------

    def _take_log(self, below: int) -> int:
        """Fetch until the log ends at an offset, or the leader has no more; how many requests it
        took. One at least, as it says whether our log is still the leader's.
        """
        requests = setbacks = 0
        while setbacks < ROUNDS:
            if self.folder.after is None and not self._begin(below):
                return requests
            answer = self.leader.fetch(self.folder.end_offset, self.folder.vector.last_epoch)
            requests += 1
            if answer.snapshot is not None or answer.diverging is not None:
                setbacks += 1
                if answer.diverging is not None:
                    self._cut(answer.diverging)
                else:
                    self._begin_anew(answer.log_start_offset)
                continue
            batches = self._batches(answer, self.folder.after, below)
            if batches is None:
                return requests
            self.folder.append(batches)
            self.folder.knows_committed(answer.high_watermark)
            if self.folder.end_offset >= below:
                return requests
        raise PullError("the leader takes back all that it sends; nothing more was asked for")

    def _batches(self, answer: Fetched, after: After, below: int) -> WholeBatches | None:
        return whole_batches(answer.records, self.leader.leader.epoch, after, below)

    def _begin(self, below: int) -> bool:
        """The first batches of an empty log: from offset 0 where no snapshot is in the way, else
        from where the leader's log begins, or from the newest snapshot's end, where it begins
        there. False where nothing has come after that yet.
        """
        snapshots = self.folder.snapshots()
        answer = self.leader.fetch(0, 0)
        if answer.snapshot is None:
            batches = self._batches(answer, None, below)
        else:
            newest = snapshots[-1] if snapshots else answer.snapshot
            is_covered = newest.end_offset > answer.log_start_offset
            batches = None
            if is_covered and not self.newest_only:
                batches = self._from_log_start(answer, below)
            if batches is None:
                batches = self._from(newest.end_offset, newest.epoch, below)
        if batches is not None:
            self.folder.append(batches)
        return batches is not None

    def _from_log_start(self, told: Fetched, below: int) -> WholeBatches | None:
        """What the leader still holds of its log. It answers offset 0 with a snapshot, and its log
        start as well where the epoch before it is not the one that it knows; so the question is for
        the offset after it, which brings the whole batch that holds it.
        """
        start = told.log_start_offset
        batches = self._from(start + 1, self.leader.leader.epoch, below)
        if batches is None or batches.base_offset <= start or start == 0:
            return batches
        earlier = self._from(start, batches.starts[0][0], below)
        return earlier if earlier is not None and earlier.base_offset == start else batches

    def _from(self, offset: int, last_epoch: int, below: int) -> WholeBatches | None:
        answer = self.leader.fetch(offset, last_epoch)
        if answer.snapshot is not None or answer.diverging is not None:
            return None
        found = self._batches(answer, None, below)
        if found is not None and not found.base_offset <= offset < found.end_offset:
            raise PullError(f"the leader sends offset {found.base_offset} for {offset}")
        return found

    def _begin_anew(self, log_start: int) -> None:
        """The leader has dropped what comes after our log: there is no way to go on without a hole.
        What was pulled stays, in files that no command takes for the log.
        """
        end = self.folder.end_offset
        self.tell(
            f"the quorum's log now begins at {log_start}, and the folder's ends at {end}: its files are kept as .deleted files, and the log begins anew"
        )
        self.folder.set_aside(log_start)

    def _cut(self, diverging: EpochEnd) -> None:
        """The leader holds other records at the end of our log."""
        vector = self.folder.vector
        cut = truncated_to(vector, diverging)
        if cut >= vector.end_offset:
            raise PullError("the leader says that our log diverges, and not where")
        newest = max((one.end_offset for one in self.folder.snapshots()), default=0)
        self.folder.knows_committed(min(newest, vector.end_offset))
        self.folder.truncate(cut)
        self.tell(
            f"a new leader has taken back {offsets_text(cut, vector.end_offset)}: none of it was committed, and a .deleted file keeps it"
        )
