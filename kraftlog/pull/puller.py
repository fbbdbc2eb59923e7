"""A round of pulling: the newest snapshot, the log up to where the leader was, and what it said.

In: the leader, and the pulled folder. Out: the folder, grown, so that its log ends exactly where
the leader's did when it described the quorum; batches above the high watermark of that describe are
not committed yet. The rules are a follower's: diverging epochs cut the log, a log start beyond our
end begins it anew. Source: KIP-595, KIP-630; `simulate.fetch` and `simulate.boot` in earnest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kraftlog.log.names import FILE_LIMIT_BYTES
from kraftlog.plain import offsets_text
from kraftlog.pull.address import PullError, Unreachable
from kraftlog.pull.assembler import Assembler, AssemblyError, transfer, why_invalid
from kraftlog.pull.batches import After, WholeBatches, whole_batches
from kraftlog.pull.description import describe_text
from kraftlog.pull.folder import PulledFolder
from kraftlog.pull.leader import PAUSE_SECONDS, LeaderClient
from kraftlog.pull.messages import Description, Fetched
from kraftlog.quorum.epochs import EpochEnd, truncated_to
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import Piece
from kraftlog.wire import INT64

ROUNDS = 10
"""So often a new leader, or a snapshot that goes while it is fetched, is put up with."""


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
        """Not every user may know the cluster's id. Without it the leader's log says whose it is:
        it holds our last batch, or says that it does not.
        """
        ours, self.folder.last_batch = self.folder.last_batch, b""
        if self.folder.cluster_id is not None or not ours:
            return
        (offset,) = INT64.unpack_from(ours)
        answer = self.leader.fetch(offset, self.folder.vector.last_epoch)
        if answer.records and not answer.records.startswith(ours):
            raise PullError(
                f"the leader holds another batch at offset {offset} than {self.folder.path}, in the same epoch: it is of another cluster; name a new folder as --out"
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
