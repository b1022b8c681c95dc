"""The bounds of the system. Everything that grows has one."""

KIB = 1024
MIB = 1024 * KIB

#: The largest body of one log entry (one record batch).
ENTRY_BYTES_MAX = 17 * MIB
#: The largest frame on a link between nodes; one append may carry one entry above the usual batch size.
PEER_FRAME_BYTES_MAX = ENTRY_BYTES_MAX + 4 * MIB
#: Frames that wait in front of a slow socket to one peer; beyond that the oldest are dropped.
PEER_QUEUE_BYTES_MAX = 32 * MIB
#: Connections of other nodes that may be in their handshake at the same time.
PEER_HANDSHAKE_COUNT_MAX = 64
#: Of these, those from addresses of members that others do not displace.
PEER_MEMBER_HANDSHAKE_COUNT_MAX = 16
#: Uncommitted proposals of one group, by bytes and by count; beyond that they are refused.
PROPOSAL_BYTES_MAX = 64 * MIB
PROPOSAL_COUNT_MAX = 8192
#: One append message carries at most this much (but always one entry).
APPEND_BYTES_MAX = 1 * MIB
#: Appends sent to one follower and not yet answered.
INFLIGHT_BYTES_MAX = 16 * MIB
INFLIGHT_COUNT_MAX = 256
#: Thrifty replication: while less than this waits for a quorum, voters beyond the quorum get entries a little later.
THRIFTY_BYTES_MAX = 16 * KIB
#: One piece of a snapshot on the wire, and the largest snapshot that is taken.
SNAPSHOT_CHUNK_BYTES_MAX = 1 * MIB
SNAPSHOT_BYTES_MAX = 1024 * MIB
#: To new replicas, on top of what producers write.
MOVE_BYTES_PER_SECOND = 16 * MIB
#: Stored data that are read again in the background, to find damage.
SCRUB_BYTES_PER_SECOND = 4 * MIB
#: New replicas that one node receives at a time.
MOVES_TO_NODE_MAX = 2
#: Committed entries handed out for application in one go.
APPLY_BYTES_MAX = 8 * MIB
#: Pending linearizable reads of one group.
READ_COUNT_MAX = 4096
#: Journal files are created at this size and closed when full.
JOURNAL_FILE_BYTES = 64 * MIB
#: The reserve for a full disk is a quarter of a journal file, and at least this large.
RESERVE_BYTES_MIN = 1 * MIB
#: A partition's segment is closed when it has grown to this size.
SEGMENT_FILE_BYTES = 64 * MIB
#: One index point for this many bytes of a segment.
SEGMENT_INDEX_INTERVAL_BYTES = 64 * KIB
#: Parts of logs that were loaded from disk for readers, of all groups together; and loads of one group in flight.
LOADED_BYTES_MAX = 32 * MIB
LOADS_PER_GROUP_MAX = 64
#: Repaired entries of one replica in memory that are not in their segments yet; above that it asks for no more.
REPAIR_BYTES_MAX = 128 * MIB
#: Memory that is kept for reads from the page cache.
READ_BUFFERS_BYTES_MAX = 16 * MIB
#: Loads that run at the same time, of one group at most one: a file that hangs holds up one of them.
LOAD_THREADS_MAX = 8
#: How long a reader waits for loads; a group with a load that takes longer has stalled.
LOAD_MS_MAX = 3_000
#: The payload of one record: what a topic allows unless it is set, and the most it can be set to.
PAYLOAD_BYTES_DEFAULT = 1 * MIB
PAYLOAD_BYTES_MAX = 16 * MIB
#: The other parts of one record. Headers count with their names and values together.
KEY_BYTES_MAX = 64 * KIB
IDEMPOTENCY_KEY_BYTES_MAX = 1 * KIB
RECORD_HEADER_COUNT_MAX = 64
RECORD_HEADER_BYTES_MAX = 64 * KIB
#: Records of one batch. Its bytes, also when decompressed, are bounded by ENTRY_BYTES_MAX.
BATCH_RECORD_COUNT_MAX = 65_536
#: Headers of all records of one batch.
BATCH_HEADER_COUNT_MAX = 262_144
#: How far a compressed batch may grow when it is opened; one that would grow further is stored uncompressed.
COMPRESSION_RATIO_MAX = 200
#: What compressed batches open to: on the loop in one turn, and those that wait for the thread that opens others.
OPENING_TURN_BYTES_MAX = 1 * MIB
OPENING_BYTES_MAX = 64 * MIB
#: What the batches open to of one answer that has their records, over HTTP and gRPC, and of one poll; at least one.
SHOWN_BYTES_MAX = 8 * MIB
#: Priorities go from 0 to this; a higher one is delivered earlier.
PRIORITY_MAX = 7
#: A record's own bound on its deliveries.
DELIVERY_COUNT_MAX = 65_535
#: The reason that a consumer gives for a failed delivery.
REASON_BYTES_MAX = 1 * KIB
#: Runs of failed and dead messages of one queue group and partition with whole reasons; further ones are cut.
GROUP_REASON_COUNT_MAX = 16_384
CUT_REASON_BYTES_MAX = 64
#: The name of a member of a group, in characters.
MEMBER_LENGTH_MAX = 256
#: Members of one queue group in one partition whom a new leader waits for by name; further ones have no name there.
HOLDER_COUNT_MAX = 1_000
#: In one queue group of one partition: messages that failed and wait for another attempt, dead messages that are not in
#: the dead-letter topic yet, and separate runs of settled messages. Beyond that the group gets no new messages.
GROUP_FAILED_COUNT_MAX = 1_000_000
GROUP_DYING_COUNT_MAX = 1_000_000
GROUP_SETTLED_RUN_COUNT_MAX = 1_000_000
#: How often a message comes back uncounted because its consumer's connection was lost. A message that kills its worker
#: each time must end: further losses count as failed attempts. Leaders count in memory, each from 0.
LOSS_COUNT_MAX = 5
#: How long every batch, producer and idempotency key is remembered at least, whatever the count of the window says; and
#: how many of them younger than that a partition remembers on top of the count. Beyond that it takes no new ones.
DEDUP_HORIZON_MS = 300_000
DEDUP_BATCH_COUNT_MAX = 4_000_000
DEDUP_PRODUCER_COUNT_MAX = 400_000
DEDUP_KEY_COUNT_MAX = 4_000_000
#: Headers in the filter of a consumer, and their names and values together.
FILTER_HEADER_COUNT_MAX = 16
FILTER_HEADER_BYTES_MAX = 4 * KIB
#: The text that a reader searches for.
FILTER_TEXT_BYTES_MAX = 1 * KIB
#: The result of one acked message, and the results that one partition keeps, each with 256 bytes of overhead. Beyond
#: that the oldest are forgotten.
RESULT_BYTES_MAX = 64 * KIB
RESULTS_BYTES_MAX = 32 * MIB
#: Separate runs of messages in one queue group and partition of which is known that their result is not kept.
UNKEPT_RUN_COUNT_MAX = 65_536
#: Messages whose results one request waits for, or settles with a result, and the bytes of results in one request and
#: in one answer.
RESULT_WAIT_COUNT_MAX = 1_024
RESULT_REQUEST_BYTES_MAX = 128 * KIB
RESULT_ANSWER_BYTES_MAX = 1 * MIB
#: Messages of one cancellation.
CANCEL_COUNT_MAX = 1_000
#: Delayed messages that one request makes due: each may move a part of the index of all delayed ones.
DELIVER_COUNT_MAX = 100
#: Schedules of a cluster: how many, the message of each, and the messages of all together.
SCHEDULE_COUNT_MAX = 10_000
SCHEDULE_MESSAGE_BYTES_MAX = 64 * KIB
SCHEDULE_BYTES_MAX = 32 * MIB
#: Users of a cluster, the grants of one of them, and those of all.
USER_COUNT_MAX = 10_000
USER_GRANT_COUNT_MAX = 1_000
GRANT_COUNT_MAX = 20_000
#: Roles of one user.
USER_ROLE_COUNT_MAX = 16
#: Sessions of browsers at one node: all of them, those of one user, how long they may be idle, and last.
HTTP_SESSION_COUNT_MAX = 1_024
HTTP_SESSION_USER_COUNT_MAX = 32
HTTP_SESSION_IDLE_MS_MAX = 900_000
HTTP_SESSION_MS_MAX = 43_200_000
#: Callers with credentials of their own for whom a proxy keeps connections.
PROXY_CALLER_COUNT_MAX = 256
#: Join tokens that are good at a time, and for how long.
JOIN_TOKEN_COUNT_MAX = 64
JOIN_TOKEN_MS_MAX = 86_400_000
#: Quotas of a cluster; the lowest rate of bytes, at which the largest small request still passes in a few seconds.
QUOTA_COUNT_MAX = 1_000
QUOTA_RATE_BYTES_MIN = 16 * KIB
#: How long a quota keeps a connection unread at a time: half of what clients wait for an answer.
QUOTA_PAUSE_MS_MAX = 5_000
#: Pipelines whose last report the controller keeps, topics in a report, and how long a silent one is shown.
PIPELINE_COUNT_MAX = 256
PIPELINE_TOPICS_MAX = 32
PIPELINE_SILENT_MS_MAX = 600_000
#: Times and durations in records: the largest integer that every SDK's number holds exactly.
TIME_MS_MAX = 2**53 - 1
#: Partitions that a node names in one warning.
WARNED_PARTITIONS_MAX = 100
#: The largest frame between a client and a broker: one batch, and room for its envelope.
CLIENT_FRAME_BYTES_MAX = ENTRY_BYTES_MAX + 1 * MIB
#: The part of a request that is not a batch. It bounds the objects that a hostile client can make a broker build.
REQUEST_ENVELOPE_BYTES_MAX = 256 * KIB
#: A frame of a client that has not said Hello, and how long it may take to say it.
HANDSHAKE_FRAME_BYTES_MAX = 16 * KIB
HANDSHAKE_MS_MAX = 5_000
#: TLS handshakes in progress at one endpoint for clients; each has as long as a Hello.
TLS_HANDSHAKE_COUNT_MAX = 1_024
#: Connections of clients to one node.
CONNECTION_COUNT_MAX = 4096
#: The same over HTTP.
HTTP_CONNECTION_COUNT_MAX = 1024
#: Beyond them, connections that get the status pages only, and how long each may take to ask.
HTTP_STATUS_CONNECTION_COUNT_MAX = 64
HTTP_STATUS_MS_MAX = 1_000
#: And over gRPC, of which the library closes further ones as it accepts them.
GRPC_CONNECTION_COUNT_MAX = 1024
#: One message of a gRPC call with records. The library holds a whole message before the endpoint sees it.
GRPC_MESSAGE_BYTES_MAX = 4 * MIB
#: A request of a gRPC call without records.
GRPC_REQUEST_BYTES_MAX = 1 * MIB
#: gRPC calls in flight, on one connection and in all.
GRPC_CONNECTION_CALL_COUNT_MAX = 64
GRPC_CALL_COUNT_MAX = 4_096
#: gRPC calls that are streams of requests, and those of them that are read at a time: the library may hold a message of
#: each, 320 MiB.
GRPC_STREAM_COUNT_MAX = 512
GRPC_READ_STREAM_COUNT_MAX = 80
#: Messages of all gRPC calls in flight. While one is received it counts as the largest, because its size is not known.
GRPC_BYTES_MAX = 64 * MIB
#: Of a proxy, bodies of all requests in flight over HTTP: those up to 64 KiB, and the larger ones, each.
HTTP_REQUEST_BYTES_MAX = 256 * MIB
#: Requests of one connection whose answers are not in its socket yet, and their batches. Beyond that the broker stops
#: reading from it. A connection may always carry one batch.
CONNECTION_REQUEST_COUNT_MAX = 256
CONNECTION_REQUEST_BYTES_MAX = 2 * CLIENT_FRAME_BYTES_MAX
#: Answers that wait for one client to read; beyond that its reads are answered with OVERLOADED.
CONNECTION_OUTPUT_BYTES_MAX = 32 * MIB
#: Requests in flight from all clients of a node, over HTTP as well: those up to 64 KiB, and the larger ones, each.
SERVER_REQUEST_BYTES_MAX = 256 * MIB
#: Answers that wait for all clients of a node to read; when it runs short, the clients that leave most unread are the
#: first to get OVERLOADED.
SERVER_OUTPUT_BYTES_MAX = 256 * MIB
#: How long a frame or an answer may take, plus its size at this many bytes a second.
TRANSFER_MS_MAX = 10_000
TRANSFER_BYTES_PER_SECOND_MIN = 64 * KIB
#: A connection without a byte or a request for this long is closed.
IDLE_MS_MAX = 600_000
