"""Every bound of the system, by name. Nothing that grows is without one."""

KIB = 1024
MIB = 1024 * KIB

#: The largest body of one log entry (one record batch).
ENTRY_BYTES_MAX = 17 * MIB
#: The largest frame on a link between nodes; one append may carry one entry above the usual batch size.
PEER_FRAME_BYTES_MAX = ENTRY_BYTES_MAX + 4 * MIB
#: Uncommitted proposals of one group, by bytes and by count; beyond that they are refused.
PROPOSAL_BYTES_MAX = 64 * MIB
PROPOSAL_COUNT_MAX = 8192
#: One append message carries at most this much (but always one entry).
APPEND_BYTES_MAX = 1 * MIB
#: Appends sent to one follower and not yet answered.
INFLIGHT_BYTES_MAX = 16 * MIB
INFLIGHT_COUNT_MAX = 256
#: One piece of a snapshot on the wire, and the largest snapshot that is taken.
SNAPSHOT_CHUNK_BYTES_MAX = 1 * MIB
SNAPSHOT_BYTES_MAX = 1024 * MIB
#: Committed entries handed out for application in one go.
APPLY_BYTES_MAX = 8 * MIB
#: Waiting linearizable reads of one group.
READ_COUNT_MAX = 4096
#: Journal files are created at this size and closed when full.
JOURNAL_FILE_BYTES = 64 * MIB
#: A partition's segment is closed when it has grown to this size.
SEGMENT_FILE_BYTES = 64 * MIB
#: One index point for this many bytes of a segment.
SEGMENT_INDEX_INTERVAL_BYTES = 64 * KIB
