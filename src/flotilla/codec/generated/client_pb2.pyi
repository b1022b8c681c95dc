from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Request(_message.Message):
    __slots__ = ("correlation_id", "metadata_index", "hello", "produce", "fetch", "list_offsets", "commit_offset", "read_offset", "get_metadata", "create_topic", "alter_topic", "delete_topic", "init_cluster", "join_cluster", "remove_node", "transfer_leadership", "poll", "settle", "extend", "subscribe", "add_credit", "unsubscribe", "cancel_records", "list_groups", "describe_group", "reset_group", "delete_group", "alter_group", "explain_message", "take_tokens", "stage", "commit_transaction", "abort_transaction", "transaction_outcome", "stage_settlement", "list_transactions", "list_open_transactions", "forget_transaction", "join_group", "heartbeat", "leave_group", "claim_partition", "describe_stream_group", "list_stream_groups", "fence_group", "forget_group", "withdraw", "leave_queue", "ping", "enter_cluster", "drain_node", "rebalance", "cancel_moves", "describe_replicas", "describe_node", "read_history", "count_partitions", "read_due_times", "list_blocked_keys", "list_clients", "list_delayed", "deliver_now", "trim_partition", "read_results", "expire_group", "create_schedule", "pause_schedule", "delete_schedule", "run_schedule", "list_schedules", "authenticate", "create_user", "set_password", "delete_user", "create_administrator", "list_users", "grant_access", "revoke_access", "list_grants", "create_join_token", "assign_role", "unassign_role", "list_roles", "set_quota", "remove_quota", "list_quotas", "read_log", "read_snapshot", "hold_settlements", "report_pipeline", "list_pipelines", "upgrade_cluster")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_INDEX_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    LIST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    READ_OFFSET_FIELD_NUMBER: _ClassVar[int]
    GET_METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    INIT_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    JOIN_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_LEADERSHIP_FIELD_NUMBER: _ClassVar[int]
    POLL_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    ADD_CREDIT_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LIST_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_GROUP_FIELD_NUMBER: _ClassVar[int]
    RESET_GROUP_FIELD_NUMBER: _ClassVar[int]
    DELETE_GROUP_FIELD_NUMBER: _ClassVar[int]
    ALTER_GROUP_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TAKE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ABORT_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STAGE_SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    LIST_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    LIST_OPEN_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    FORGET_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    JOIN_GROUP_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_GROUP_FIELD_NUMBER: _ClassVar[int]
    CLAIM_PARTITION_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_STREAM_GROUP_FIELD_NUMBER: _ClassVar[int]
    LIST_STREAM_GROUPS_FIELD_NUMBER: _ClassVar[int]
    FENCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    FORGET_GROUP_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    LEAVE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    ENTER_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NODE_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_MOVES_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_NODE_FIELD_NUMBER: _ClassVar[int]
    READ_HISTORY_FIELD_NUMBER: _ClassVar[int]
    COUNT_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    READ_DUE_TIMES_FIELD_NUMBER: _ClassVar[int]
    LIST_BLOCKED_KEYS_FIELD_NUMBER: _ClassVar[int]
    LIST_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    LIST_DELAYED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_NOW_FIELD_NUMBER: _ClassVar[int]
    TRIM_PARTITION_FIELD_NUMBER: _ClassVar[int]
    READ_RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_GROUP_FIELD_NUMBER: _ClassVar[int]
    CREATE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DELETE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    RUN_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    LIST_SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_USER_FIELD_NUMBER: _ClassVar[int]
    SET_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    DELETE_USER_FIELD_NUMBER: _ClassVar[int]
    CREATE_ADMINISTRATOR_FIELD_NUMBER: _ClassVar[int]
    LIST_USERS_FIELD_NUMBER: _ClassVar[int]
    GRANT_ACCESS_FIELD_NUMBER: _ClassVar[int]
    REVOKE_ACCESS_FIELD_NUMBER: _ClassVar[int]
    LIST_GRANTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_ROLE_FIELD_NUMBER: _ClassVar[int]
    UNASSIGN_ROLE_FIELD_NUMBER: _ClassVar[int]
    LIST_ROLES_FIELD_NUMBER: _ClassVar[int]
    SET_QUOTA_FIELD_NUMBER: _ClassVar[int]
    REMOVE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    LIST_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    READ_LOG_FIELD_NUMBER: _ClassVar[int]
    READ_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    HOLD_SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    REPORT_PIPELINE_FIELD_NUMBER: _ClassVar[int]
    LIST_PIPELINES_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    metadata_index: int
    hello: Hello
    produce: Produce
    fetch: Fetch
    list_offsets: ListOffsets
    commit_offset: CommitOffset
    read_offset: ReadOffset
    get_metadata: GetMetadata
    create_topic: CreateTopic
    alter_topic: AlterTopic
    delete_topic: DeleteTopic
    init_cluster: InitCluster
    join_cluster: JoinCluster
    remove_node: RemoveNode
    transfer_leadership: TransferLeadership
    poll: Poll
    settle: Settle
    extend: Extend
    subscribe: Subscribe
    add_credit: AddCredit
    unsubscribe: Unsubscribe
    cancel_records: CancelRecords
    list_groups: ListGroups
    describe_group: DescribeGroup
    reset_group: ResetGroup
    delete_group: DeleteGroup
    alter_group: AlterGroup
    explain_message: ExplainMessage
    take_tokens: TakeTokens
    stage: Stage
    commit_transaction: CommitTransaction
    abort_transaction: AbortTransaction
    transaction_outcome: TransactionOutcome
    stage_settlement: StageSettlement
    list_transactions: ListTransactions
    list_open_transactions: ListOpenTransactions
    forget_transaction: ForgetTransaction
    join_group: JoinGroup
    heartbeat: Heartbeat
    leave_group: LeaveGroup
    claim_partition: ClaimPartition
    describe_stream_group: DescribeStreamGroup
    list_stream_groups: ListStreamGroups
    fence_group: FenceGroup
    forget_group: ForgetGroup
    withdraw: Withdraw
    leave_queue: LeaveQueue
    ping: Ping
    enter_cluster: EnterCluster
    drain_node: DrainNode
    rebalance: Rebalance
    cancel_moves: CancelMoves
    describe_replicas: DescribeReplicas
    describe_node: DescribeNode
    read_history: ReadHistory
    count_partitions: CountPartitions
    read_due_times: ReadDueTimes
    list_blocked_keys: ListBlockedKeys
    list_clients: ListClients
    list_delayed: ListDelayed
    deliver_now: DeliverNow
    trim_partition: TrimPartition
    read_results: ReadResults
    expire_group: ExpireGroup
    create_schedule: CreateSchedule
    pause_schedule: PauseSchedule
    delete_schedule: DeleteSchedule
    run_schedule: RunSchedule
    list_schedules: ListSchedules
    authenticate: Authenticate
    create_user: CreateUser
    set_password: SetPassword
    delete_user: DeleteUser
    create_administrator: CreateAdministrator
    list_users: ListUsers
    grant_access: GrantAccess
    revoke_access: RevokeAccess
    list_grants: ListGrants
    create_join_token: CreateJoinToken
    assign_role: AssignRole
    unassign_role: UnassignRole
    list_roles: ListRoles
    set_quota: SetQuota
    remove_quota: RemoveQuota
    list_quotas: ListQuotas
    read_log: ReadLog
    read_snapshot: ReadSnapshot
    hold_settlements: HoldSettlements
    report_pipeline: ReportPipeline
    list_pipelines: ListPipelines
    upgrade_cluster: UpgradeCluster
    def __init__(self, correlation_id: _Optional[int] = ..., metadata_index: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., produce: _Optional[_Union[Produce, _Mapping]] = ..., fetch: _Optional[_Union[Fetch, _Mapping]] = ..., list_offsets: _Optional[_Union[ListOffsets, _Mapping]] = ..., commit_offset: _Optional[_Union[CommitOffset, _Mapping]] = ..., read_offset: _Optional[_Union[ReadOffset, _Mapping]] = ..., get_metadata: _Optional[_Union[GetMetadata, _Mapping]] = ..., create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., init_cluster: _Optional[_Union[InitCluster, _Mapping]] = ..., join_cluster: _Optional[_Union[JoinCluster, _Mapping]] = ..., remove_node: _Optional[_Union[RemoveNode, _Mapping]] = ..., transfer_leadership: _Optional[_Union[TransferLeadership, _Mapping]] = ..., poll: _Optional[_Union[Poll, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., add_credit: _Optional[_Union[AddCredit, _Mapping]] = ..., unsubscribe: _Optional[_Union[Unsubscribe, _Mapping]] = ..., cancel_records: _Optional[_Union[CancelRecords, _Mapping]] = ..., list_groups: _Optional[_Union[ListGroups, _Mapping]] = ..., describe_group: _Optional[_Union[DescribeGroup, _Mapping]] = ..., reset_group: _Optional[_Union[ResetGroup, _Mapping]] = ..., delete_group: _Optional[_Union[DeleteGroup, _Mapping]] = ..., alter_group: _Optional[_Union[AlterGroup, _Mapping]] = ..., explain_message: _Optional[_Union[ExplainMessage, _Mapping]] = ..., take_tokens: _Optional[_Union[TakeTokens, _Mapping]] = ..., stage: _Optional[_Union[Stage, _Mapping]] = ..., commit_transaction: _Optional[_Union[CommitTransaction, _Mapping]] = ..., abort_transaction: _Optional[_Union[AbortTransaction, _Mapping]] = ..., transaction_outcome: _Optional[_Union[TransactionOutcome, _Mapping]] = ..., stage_settlement: _Optional[_Union[StageSettlement, _Mapping]] = ..., list_transactions: _Optional[_Union[ListTransactions, _Mapping]] = ..., list_open_transactions: _Optional[_Union[ListOpenTransactions, _Mapping]] = ..., forget_transaction: _Optional[_Union[ForgetTransaction, _Mapping]] = ..., join_group: _Optional[_Union[JoinGroup, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., leave_group: _Optional[_Union[LeaveGroup, _Mapping]] = ..., claim_partition: _Optional[_Union[ClaimPartition, _Mapping]] = ..., describe_stream_group: _Optional[_Union[DescribeStreamGroup, _Mapping]] = ..., list_stream_groups: _Optional[_Union[ListStreamGroups, _Mapping]] = ..., fence_group: _Optional[_Union[FenceGroup, _Mapping]] = ..., forget_group: _Optional[_Union[ForgetGroup, _Mapping]] = ..., withdraw: _Optional[_Union[Withdraw, _Mapping]] = ..., leave_queue: _Optional[_Union[LeaveQueue, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., enter_cluster: _Optional[_Union[EnterCluster, _Mapping]] = ..., drain_node: _Optional[_Union[DrainNode, _Mapping]] = ..., rebalance: _Optional[_Union[Rebalance, _Mapping]] = ..., cancel_moves: _Optional[_Union[CancelMoves, _Mapping]] = ..., describe_replicas: _Optional[_Union[DescribeReplicas, _Mapping]] = ..., describe_node: _Optional[_Union[DescribeNode, _Mapping]] = ..., read_history: _Optional[_Union[ReadHistory, _Mapping]] = ..., count_partitions: _Optional[_Union[CountPartitions, _Mapping]] = ..., read_due_times: _Optional[_Union[ReadDueTimes, _Mapping]] = ..., list_blocked_keys: _Optional[_Union[ListBlockedKeys, _Mapping]] = ..., list_clients: _Optional[_Union[ListClients, _Mapping]] = ..., list_delayed: _Optional[_Union[ListDelayed, _Mapping]] = ..., deliver_now: _Optional[_Union[DeliverNow, _Mapping]] = ..., trim_partition: _Optional[_Union[TrimPartition, _Mapping]] = ..., read_results: _Optional[_Union[ReadResults, _Mapping]] = ..., expire_group: _Optional[_Union[ExpireGroup, _Mapping]] = ..., create_schedule: _Optional[_Union[CreateSchedule, _Mapping]] = ..., pause_schedule: _Optional[_Union[PauseSchedule, _Mapping]] = ..., delete_schedule: _Optional[_Union[DeleteSchedule, _Mapping]] = ..., run_schedule: _Optional[_Union[RunSchedule, _Mapping]] = ..., list_schedules: _Optional[_Union[ListSchedules, _Mapping]] = ..., authenticate: _Optional[_Union[Authenticate, _Mapping]] = ..., create_user: _Optional[_Union[CreateUser, _Mapping]] = ..., set_password: _Optional[_Union[SetPassword, _Mapping]] = ..., delete_user: _Optional[_Union[DeleteUser, _Mapping]] = ..., create_administrator: _Optional[_Union[CreateAdministrator, _Mapping]] = ..., list_users: _Optional[_Union[ListUsers, _Mapping]] = ..., grant_access: _Optional[_Union[GrantAccess, _Mapping]] = ..., revoke_access: _Optional[_Union[RevokeAccess, _Mapping]] = ..., list_grants: _Optional[_Union[ListGrants, _Mapping]] = ..., create_join_token: _Optional[_Union[CreateJoinToken, _Mapping]] = ..., assign_role: _Optional[_Union[AssignRole, _Mapping]] = ..., unassign_role: _Optional[_Union[UnassignRole, _Mapping]] = ..., list_roles: _Optional[_Union[ListRoles, _Mapping]] = ..., set_quota: _Optional[_Union[SetQuota, _Mapping]] = ..., remove_quota: _Optional[_Union[RemoveQuota, _Mapping]] = ..., list_quotas: _Optional[_Union[ListQuotas, _Mapping]] = ..., read_log: _Optional[_Union[ReadLog, _Mapping]] = ..., read_snapshot: _Optional[_Union[ReadSnapshot, _Mapping]] = ..., hold_settlements: _Optional[_Union[HoldSettlements, _Mapping]] = ..., report_pipeline: _Optional[_Union[ReportPipeline, _Mapping]] = ..., list_pipelines: _Optional[_Union[ListPipelines, _Mapping]] = ..., upgrade_cluster: _Optional[_Union[UpgradeCluster, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("correlation_id", "metadata_index", "error", "welcome", "produced", "fetched", "offset_found", "offset_committed", "metadata", "topic_reply", "cluster_reply", "done", "polled", "settled", "pushed", "records_cancelled", "group_list", "group_description", "group_reset", "group_reply", "explanation", "tokens_granted", "staged", "transaction_decided", "transaction_shown", "transaction_list", "open_transaction_list", "group_assignment", "stream_group_description", "stream_group_list", "moves_planned", "replicas_described", "node_described", "history_read", "partition_trimmed", "results_read", "group_use", "schedule_reply", "schedule_list", "challenge", "user_list", "grant_list", "quota_list", "role_list", "log_read", "snapshot_read", "settlements_held", "pipeline_list", "cluster_upgraded", "partition_counts", "due_times", "blocked_keys", "client_list", "delayed_messages", "delivered_now")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FOUND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REPLY_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_REPLY_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    POLLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    PUSHED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GROUP_LIST_FIELD_NUMBER: _ClassVar[int]
    GROUP_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    GROUP_RESET_FIELD_NUMBER: _ClassVar[int]
    GROUP_REPLY_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_DECIDED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_SHOWN_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_LIST_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRANSACTION_LIST_FIELD_NUMBER: _ClassVar[int]
    GROUP_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    STREAM_GROUP_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STREAM_GROUP_LIST_FIELD_NUMBER: _ClassVar[int]
    MOVES_PLANNED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    NODE_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_READ_FIELD_NUMBER: _ClassVar[int]
    PARTITION_TRIMMED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_READ_FIELD_NUMBER: _ClassVar[int]
    GROUP_USE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_REPLY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_LIST_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    USER_LIST_FIELD_NUMBER: _ClassVar[int]
    GRANT_LIST_FIELD_NUMBER: _ClassVar[int]
    QUOTA_LIST_FIELD_NUMBER: _ClassVar[int]
    ROLE_LIST_FIELD_NUMBER: _ClassVar[int]
    LOG_READ_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_READ_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_HELD_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_LIST_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_UPGRADED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    DUE_TIMES_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_KEYS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_LIST_FIELD_NUMBER: _ClassVar[int]
    DELAYED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_NOW_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    metadata_index: int
    error: Error
    welcome: Welcome
    produced: Produced
    fetched: Fetched
    offset_found: OffsetFound
    offset_committed: OffsetCommitted
    metadata: Metadata
    topic_reply: TopicReply
    cluster_reply: ClusterReply
    done: Done
    polled: Polled
    settled: Settled
    pushed: Pushed
    records_cancelled: RecordsCancelled
    group_list: GroupList
    group_description: GroupDescription
    group_reset: GroupReset
    group_reply: GroupReply
    explanation: Explanation
    tokens_granted: TokensGranted
    staged: Staged
    transaction_decided: TransactionDecided
    transaction_shown: TransactionShown
    transaction_list: TransactionList
    open_transaction_list: OpenTransactionList
    group_assignment: GroupAssignment
    stream_group_description: StreamGroupDescription
    stream_group_list: StreamGroupList
    moves_planned: MovesPlanned
    replicas_described: ReplicasDescribed
    node_described: NodeDescribed
    history_read: HistoryRead
    partition_trimmed: PartitionTrimmed
    results_read: ResultsRead
    group_use: GroupUse
    schedule_reply: ScheduleReply
    schedule_list: ScheduleList
    challenge: Challenge
    user_list: UserList
    grant_list: GrantList
    quota_list: QuotaList
    role_list: RoleList
    log_read: LogRead
    snapshot_read: SnapshotRead
    settlements_held: SettlementsHeld
    pipeline_list: PipelineList
    cluster_upgraded: ClusterUpgraded
    partition_counts: PartitionCounts
    due_times: DueTimes
    blocked_keys: BlockedKeys
    client_list: ClientList
    delayed_messages: DelayedMessages
    delivered_now: DeliveredNow
    def __init__(self, correlation_id: _Optional[int] = ..., metadata_index: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., produced: _Optional[_Union[Produced, _Mapping]] = ..., fetched: _Optional[_Union[Fetched, _Mapping]] = ..., offset_found: _Optional[_Union[OffsetFound, _Mapping]] = ..., offset_committed: _Optional[_Union[OffsetCommitted, _Mapping]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., topic_reply: _Optional[_Union[TopicReply, _Mapping]] = ..., cluster_reply: _Optional[_Union[ClusterReply, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., polled: _Optional[_Union[Polled, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ..., pushed: _Optional[_Union[Pushed, _Mapping]] = ..., records_cancelled: _Optional[_Union[RecordsCancelled, _Mapping]] = ..., group_list: _Optional[_Union[GroupList, _Mapping]] = ..., group_description: _Optional[_Union[GroupDescription, _Mapping]] = ..., group_reset: _Optional[_Union[GroupReset, _Mapping]] = ..., group_reply: _Optional[_Union[GroupReply, _Mapping]] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., tokens_granted: _Optional[_Union[TokensGranted, _Mapping]] = ..., staged: _Optional[_Union[Staged, _Mapping]] = ..., transaction_decided: _Optional[_Union[TransactionDecided, _Mapping]] = ..., transaction_shown: _Optional[_Union[TransactionShown, _Mapping]] = ..., transaction_list: _Optional[_Union[TransactionList, _Mapping]] = ..., open_transaction_list: _Optional[_Union[OpenTransactionList, _Mapping]] = ..., group_assignment: _Optional[_Union[GroupAssignment, _Mapping]] = ..., stream_group_description: _Optional[_Union[StreamGroupDescription, _Mapping]] = ..., stream_group_list: _Optional[_Union[StreamGroupList, _Mapping]] = ..., moves_planned: _Optional[_Union[MovesPlanned, _Mapping]] = ..., replicas_described: _Optional[_Union[ReplicasDescribed, _Mapping]] = ..., node_described: _Optional[_Union[NodeDescribed, _Mapping]] = ..., history_read: _Optional[_Union[HistoryRead, _Mapping]] = ..., partition_trimmed: _Optional[_Union[PartitionTrimmed, _Mapping]] = ..., results_read: _Optional[_Union[ResultsRead, _Mapping]] = ..., group_use: _Optional[_Union[GroupUse, _Mapping]] = ..., schedule_reply: _Optional[_Union[ScheduleReply, _Mapping]] = ..., schedule_list: _Optional[_Union[ScheduleList, _Mapping]] = ..., challenge: _Optional[_Union[Challenge, _Mapping]] = ..., user_list: _Optional[_Union[UserList, _Mapping]] = ..., grant_list: _Optional[_Union[GrantList, _Mapping]] = ..., quota_list: _Optional[_Union[QuotaList, _Mapping]] = ..., role_list: _Optional[_Union[RoleList, _Mapping]] = ..., log_read: _Optional[_Union[LogRead, _Mapping]] = ..., snapshot_read: _Optional[_Union[SnapshotRead, _Mapping]] = ..., settlements_held: _Optional[_Union[SettlementsHeld, _Mapping]] = ..., pipeline_list: _Optional[_Union[PipelineList, _Mapping]] = ..., cluster_upgraded: _Optional[_Union[ClusterUpgraded, _Mapping]] = ..., partition_counts: _Optional[_Union[PartitionCounts, _Mapping]] = ..., due_times: _Optional[_Union[DueTimes, _Mapping]] = ..., blocked_keys: _Optional[_Union[BlockedKeys, _Mapping]] = ..., client_list: _Optional[_Union[ClientList, _Mapping]] = ..., delayed_messages: _Optional[_Union[DelayedMessages, _Mapping]] = ..., delivered_now: _Optional[_Union[DeliveredNow, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "leader", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    leader: str
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., leader: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_min", "version_max", "client", "is_gateway")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    IS_GATEWAY_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    client: str
    is_gateway: bool
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., client: _Optional[str] = ..., is_gateway: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "node", "cluster_id", "frame_bytes_max", "requests_max", "time_ms", "mechanisms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_MAX_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    MECHANISMS_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: int
    cluster_id: str
    frame_bytes_max: int
    requests_max: int
    time_ms: int
    mechanisms: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., node: _Optional[int] = ..., cluster_id: _Optional[str] = ..., frame_bytes_max: _Optional[int] = ..., requests_max: _Optional[int] = ..., time_ms: _Optional[int] = ..., mechanisms: _Optional[_Iterable[str]] = ...) -> None: ...

class Produce(_message.Message):
    __slots__ = ("topic", "partition", "topic_id", "partition_count", "owner")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    topic_id: int
    partition_count: int
    owner: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[int] = ..., partition_count: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class Produced(_message.Message):
    __slots__ = ("base_offset", "duplicate", "known_positions", "known_offsets")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    duplicate: bool
    known_positions: _containers.RepeatedScalarFieldContainer[int]
    known_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, base_offset: _Optional[int] = ..., duplicate: _Optional[bool] = ..., known_positions: _Optional[_Iterable[int]] = ..., known_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class Fetch(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes", "wait_ms", "is_any_replica", "is_linearizable", "topic_id", "types", "headers", "key", "contains")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_ANY_REPLICA_FIELD_NUMBER: _ClassVar[int]
    IS_LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    max_bytes: int
    wait_ms: int
    is_any_replica: bool
    is_linearizable: bool
    topic_id: int
    types: _containers.RepeatedScalarFieldContainer[str]
    headers: _containers.RepeatedCompositeFieldContainer[HeaderPair]
    key: bytes
    contains: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ..., is_any_replica: _Optional[bool] = ..., is_linearizable: _Optional[bool] = ..., topic_id: _Optional[int] = ..., types: _Optional[_Iterable[str]] = ..., headers: _Optional[_Iterable[_Union[HeaderPair, _Mapping]]] = ..., key: _Optional[bytes] = ..., contains: _Optional[str] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("log_start", "next_offset", "batch_bytes", "reached")
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    log_start: int
    next_offset: int
    batch_bytes: _containers.RepeatedScalarFieldContainer[int]
    reached: int
    def __init__(self, log_start: _Optional[int] = ..., next_offset: _Optional[int] = ..., batch_bytes: _Optional[_Iterable[int]] = ..., reached: _Optional[int] = ...) -> None: ...

class ListOffsets(_message.Message):
    __slots__ = ("topic", "partition", "timestamp_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    timestamp_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class OffsetFound(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class CommitOffset(_message.Message):
    __slots__ = ("group", "topic", "partition", "offset", "reset", "epoch", "topic_id", "as_of")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    offset: int
    reset: bool
    epoch: int
    topic_id: int
    as_of: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., reset: _Optional[bool] = ..., epoch: _Optional[int] = ..., topic_id: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class OffsetCommitted(_message.Message):
    __slots__ = ("offset", "as_of")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    offset: int
    as_of: int
    def __init__(self, offset: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class ReadOffset(_message.Message):
    __slots__ = ("group", "topic", "partition", "topic_id", "is_optional")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    IS_OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    topic_id: int
    is_optional: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[int] = ..., is_optional: _Optional[bool] = ...) -> None: ...

class GetMetadata(_message.Message):
    __slots__ = ("topics", "create", "is_linearizable", "search", "after", "limit", "owner")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    IS_LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    create: bool
    is_linearizable: bool
    search: str
    after: str
    limit: int
    owner: str
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., create: _Optional[bool] = ..., is_linearizable: _Optional[bool] = ..., search: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("node", "client", "http", "is_alive", "state", "grpc", "version", "cluster_version_min", "cluster_version_max", "machine", "zone")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    IS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    node: int
    client: str
    http: str
    is_alive: bool
    state: str
    grpc: str
    version: str
    cluster_version_min: int
    cluster_version_max: int
    machine: str
    zone: str
    def __init__(self, node: _Optional[int] = ..., client: _Optional[str] = ..., http: _Optional[str] = ..., is_alive: _Optional[bool] = ..., state: _Optional[str] = ..., grpc: _Optional[str] = ..., version: _Optional[str] = ..., cluster_version_min: _Optional[int] = ..., cluster_version_max: _Optional[int] = ..., machine: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("number", "leader", "replicas", "term", "target")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    number: int
    leader: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    term: int
    target: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., term: _Optional[int] = ..., target: _Optional[_Iterable[int]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "settings", "key_partitions", "owner")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: int
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    settings: _containers.ScalarMap[str, str]
    key_partitions: int
    owner: str
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., settings: _Optional[_Mapping[str, str]] = ..., key_partitions: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "topics", "cluster_name", "is_stale", "index", "cluster_version", "total")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_STALE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    cluster_name: str
    is_stale: bool
    index: int
    cluster_version: int
    total: int
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., cluster_name: _Optional[str] = ..., is_stale: _Optional[bool] = ..., index: _Optional[int] = ..., cluster_version: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("topic", "partitions", "replication_factor", "settings", "owner")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: int
    replication_factor: int
    settings: _containers.ScalarMap[str, str]
    owner: str
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ..., owner: _Optional[str] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("topic", "partitions", "settings", "replication_factor")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: int
    settings: _containers.ScalarMap[str, str]
    replication_factor: int
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class TopicReply(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class InitCluster(_message.Message):
    __slots__ = ("nodes",)
    class NodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.ScalarMap[int, str]
    def __init__(self, nodes: _Optional[_Mapping[int, str]] = ...) -> None: ...

class JoinCluster(_message.Message):
    __slots__ = ("node", "peer", "client", "http", "incarnation", "token", "version_min", "version_max", "machine", "zone")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    node: int
    peer: str
    client: str
    http: str
    incarnation: int
    token: bytes
    version_min: int
    version_max: int
    machine: str
    zone: str
    def __init__(self, node: _Optional[int] = ..., peer: _Optional[str] = ..., client: _Optional[str] = ..., http: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[bytes] = ..., version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., machine: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class UpgradeCluster(_message.Message):
    __slots__ = ("version", "is_dry_run")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    version: int
    is_dry_run: bool
    def __init__(self, version: _Optional[int] = ..., is_dry_run: _Optional[bool] = ...) -> None: ...

class ClusterUpgraded(_message.Message):
    __slots__ = ("version", "before")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    version: int
    before: int
    def __init__(self, version: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class CreateJoinToken(_message.Message):
    __slots__ = ("digest", "ttl_ms")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    ttl_ms: int
    def __init__(self, digest: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class RemoveNode(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: int
    def __init__(self, node: _Optional[int] = ...) -> None: ...

class EnterCluster(_message.Message):
    __slots__ = ("servers", "token")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedScalarFieldContainer[str]
    token: bytes
    def __init__(self, servers: _Optional[_Iterable[str]] = ..., token: _Optional[bytes] = ...) -> None: ...

class DrainNode(_message.Message):
    __slots__ = ("node", "is_draining")
    NODE_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    node: int
    is_draining: bool
    def __init__(self, node: _Optional[int] = ..., is_draining: _Optional[bool] = ...) -> None: ...

class Rebalance(_message.Message):
    __slots__ = ("topics", "is_dry_run")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    IS_DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    is_dry_run: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., is_dry_run: _Optional[bool] = ...) -> None: ...

class CancelMoves(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class PlannedMove(_message.Message):
    __slots__ = ("topic", "partition", "replicas", "target")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    target: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., target: _Optional[_Iterable[int]] = ...) -> None: ...

class CountPartitions(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PartitionCounts(_message.Message):
    __slots__ = ("topics", "partitions", "without_leader", "leads", "replicas", "moving", "moves")
    class LeadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class ReplicasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    topics: int
    partitions: int
    without_leader: int
    leads: _containers.ScalarMap[int, int]
    replicas: _containers.ScalarMap[int, int]
    moving: int
    moves: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    def __init__(self, topics: _Optional[int] = ..., partitions: _Optional[int] = ..., without_leader: _Optional[int] = ..., leads: _Optional[_Mapping[int, int]] = ..., replicas: _Optional[_Mapping[int, int]] = ..., moving: _Optional[int] = ..., moves: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ...) -> None: ...

class MovesPlanned(_message.Message):
    __slots__ = ("moves",)
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    def __init__(self, moves: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ...) -> None: ...

class DescribeReplicas(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("node", "role", "is_alive", "behind_entries", "behind_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    IS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BEHIND_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    role: str
    is_alive: bool
    behind_entries: int
    behind_bytes: int
    def __init__(self, node: _Optional[int] = ..., role: _Optional[str] = ..., is_alive: _Optional[bool] = ..., behind_entries: _Optional[int] = ..., behind_bytes: _Optional[int] = ...) -> None: ...

class ReplicasDescribed(_message.Message):
    __slots__ = ("replicas", "size_bytes")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    size_bytes: int
    def __init__(self, replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class DescribeNode(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeWarning(_message.Message):
    __slots__ = ("code", "message", "node", "partitions")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    node: int
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., node: _Optional[int] = ..., partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeDescribed(_message.Message):
    __slots__ = ("node", "warnings", "version", "uptime_ms", "disk_free_bytes", "disk_total_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    warnings: _containers.RepeatedCompositeFieldContainer[NodeWarning]
    version: str
    uptime_ms: int
    disk_free_bytes: int
    disk_total_bytes: int
    def __init__(self, node: _Optional[int] = ..., warnings: _Optional[_Iterable[_Union[NodeWarning, _Mapping]]] = ..., version: _Optional[str] = ..., uptime_ms: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ...) -> None: ...

class ListClients(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ConnectedClient(_message.Message):
    __slots__ = ("endpoint", "name", "address", "principal", "connected_ms", "in_flight")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_MS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    name: str
    address: str
    principal: str
    connected_ms: int
    in_flight: int
    def __init__(self, endpoint: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., principal: _Optional[str] = ..., connected_ms: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class ClientList(_message.Message):
    __slots__ = ("node", "clients", "total")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    node: int
    clients: _containers.RepeatedCompositeFieldContainer[ConnectedClient]
    total: int
    def __init__(self, node: _Optional[int] = ..., clients: _Optional[_Iterable[_Union[ConnectedClient, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class ReadHistory(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RateSeries(_message.Message):
    __slots__ = ("name", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Iterable[int]] = ...) -> None: ...

class HistoryRead(_message.Message):
    __slots__ = ("node", "step_ms", "end_ms", "series")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STEP_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    node: int
    step_ms: int
    end_ms: int
    series: _containers.RepeatedCompositeFieldContainer[RateSeries]
    def __init__(self, node: _Optional[int] = ..., step_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., series: _Optional[_Iterable[_Union[RateSeries, _Mapping]]] = ...) -> None: ...

class ClusterReply(_message.Message):
    __slots__ = ("cluster_id", "peers", "cluster_name")
    class PeersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    peers: _containers.ScalarMap[int, str]
    cluster_name: str
    def __init__(self, cluster_id: _Optional[str] = ..., peers: _Optional[_Mapping[int, str]] = ..., cluster_name: _Optional[str] = ...) -> None: ...

class TransferLeadership(_message.Message):
    __slots__ = ("topic", "partition", "to")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    to: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaseRanges(_message.Message):
    __slots__ = ("lease_ids", "firsts", "counts")
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_ids: _Optional[_Iterable[int]] = ..., firsts: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("kind", "value")
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    kind: int
    value: int
    def __init__(self, kind: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...

class Poll(_message.Message):
    __slots__ = ("topic", "group", "member", "partitions", "max_messages", "max_bytes", "visibility_ms", "wait_ms", "is_auto_ack", "is_ordered_by_key", "start", "types", "topic_id", "headers", "presents")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_AUTO_ACK_FIELD_NUMBER: _ClassVar[int]
    IS_ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRESENTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    max_messages: int
    max_bytes: int
    visibility_ms: int
    wait_ms: int
    is_auto_ack: bool
    is_ordered_by_key: bool
    start: Start
    types: _containers.RepeatedScalarFieldContainer[str]
    topic_id: int
    headers: _containers.RepeatedCompositeFieldContainer[HeaderPair]
    presents: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., visibility_ms: _Optional[int] = ..., wait_ms: _Optional[int] = ..., is_auto_ack: _Optional[bool] = ..., is_ordered_by_key: _Optional[bool] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., types: _Optional[_Iterable[str]] = ..., topic_id: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[HeaderPair, _Mapping]]] = ..., presents: _Optional[bool] = ...) -> None: ...

class HeaderPair(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Deliveries(_message.Message):
    __slots__ = ("partitions", "lease_ids", "firsts", "counts", "attempts", "batch_bytes", "topic_ids")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    batch_bytes: _containers.RepeatedScalarFieldContainer[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[int]] = ..., lease_ids: _Optional[_Iterable[int]] = ..., firsts: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., batch_bytes: _Optional[_Iterable[int]] = ..., topic_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Polled(_message.Message):
    __slots__ = ("deliveries", "visibility_ms", "retry_after_ms", "lag")
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    deliveries: Deliveries
    visibility_ms: int
    retry_after_ms: int
    lag: int
    def __init__(self, deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., visibility_ms: _Optional[int] = ..., retry_after_ms: _Optional[int] = ..., lag: _Optional[int] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("topic", "partition", "group", "kind", "leases", "reason", "delay_ms", "members", "topic_id", "results")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    kind: int
    leases: LeaseRanges
    reason: str
    delay_ms: int
    members: _containers.RepeatedScalarFieldContainer[str]
    topic_id: int
    results: _containers.RepeatedCompositeFieldContainer[MessageResult]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., kind: _Optional[int] = ..., leases: _Optional[_Union[LeaseRanges, _Mapping]] = ..., reason: _Optional[str] = ..., delay_ms: _Optional[int] = ..., members: _Optional[_Iterable[str]] = ..., topic_id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[MessageResult, _Mapping]]] = ...) -> None: ...

class MessageResult(_message.Message):
    __slots__ = ("offset", "payload", "is_kept")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    payload: bytes
    is_kept: bool
    def __init__(self, offset: _Optional[int] = ..., payload: _Optional[bytes] = ..., is_kept: _Optional[bool] = ...) -> None: ...

class ReadResults(_message.Message):
    __slots__ = ("topic", "partition", "group", "offsets", "wait_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    offsets: _containers.RepeatedScalarFieldContainer[int]
    wait_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., offsets: _Optional[_Iterable[int]] = ..., wait_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ResultsRead(_message.Message):
    __slots__ = ("ended",)
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ended: _containers.RepeatedCompositeFieldContainer[EndedMessage]
    def __init__(self, ended: _Optional[_Iterable[_Union[EndedMessage, _Mapping]]] = ...) -> None: ...

class EndedMessage(_message.Message):
    __slots__ = ("offset", "state", "result", "reason", "attempts")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    state: str
    result: bytes
    reason: str
    attempts: int
    def __init__(self, offset: _Optional[int] = ..., state: _Optional[str] = ..., result: _Optional[bytes] = ..., reason: _Optional[str] = ..., attempts: _Optional[int] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("expired", "settled", "term")
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    expired: LeaseRanges
    settled: LeaseRanges
    term: int
    def __init__(self, expired: _Optional[_Union[LeaseRanges, _Mapping]] = ..., settled: _Optional[_Union[LeaseRanges, _Mapping]] = ..., term: _Optional[int] = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("topic", "partition", "group", "member", "leases", "visibility_ms", "topic_id", "presented_term")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PRESENTED_TERM_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    member: str
    leases: LeaseRanges
    visibility_ms: int
    topic_id: int
    presented_term: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., leases: _Optional[_Union[LeaseRanges, _Mapping]] = ..., visibility_ms: _Optional[int] = ..., topic_id: _Optional[int] = ..., presented_term: _Optional[int] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("topic", "group", "member", "credit", "partitions", "visibility_ms", "is_auto_ack", "is_ordered_by_key", "start", "topic_id", "types", "headers", "presents", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    IS_AUTO_ACK_FIELD_NUMBER: _ClassVar[int]
    IS_ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRESENTS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    credit: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    visibility_ms: int
    is_auto_ack: bool
    is_ordered_by_key: bool
    start: Start
    topic_id: int
    types: _containers.RepeatedScalarFieldContainer[str]
    headers: _containers.RepeatedCompositeFieldContainer[HeaderPair]
    presents: bool
    max_bytes: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., credit: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., visibility_ms: _Optional[int] = ..., is_auto_ack: _Optional[bool] = ..., is_ordered_by_key: _Optional[bool] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., topic_id: _Optional[int] = ..., types: _Optional[_Iterable[str]] = ..., headers: _Optional[_Iterable[_Union[HeaderPair, _Mapping]]] = ..., presents: _Optional[bool] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class Pushed(_message.Message):
    __slots__ = ("deliveries", "visibility_ms", "lag", "left_partitions")
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LEFT_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    deliveries: Deliveries
    visibility_ms: int
    lag: int
    left_partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., visibility_ms: _Optional[int] = ..., lag: _Optional[int] = ..., left_partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class AddCredit(_message.Message):
    __slots__ = ("subscription", "messages")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    messages: int
    def __init__(self, subscription: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    def __init__(self, subscription: _Optional[int] = ...) -> None: ...

class Withdraw(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class LeaveQueue(_message.Message):
    __slots__ = ("topic", "group", "member", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrimPartition(_message.Message):
    __slots__ = ("topic", "partition", "offset", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class PartitionTrimmed(_message.Message):
    __slots__ = ("log_start",)
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    log_start: int
    def __init__(self, log_start: _Optional[int] = ...) -> None: ...

class CancelRecords(_message.Message):
    __slots__ = ("topic", "partition", "offsets", "keys", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., keys: _Optional[_Iterable[bytes]] = ..., topic_id: _Optional[int] = ...) -> None: ...

class RecordsCancelled(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class ListGroups(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class GroupList(_message.Message):
    __slots__ = ("groups",)
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.ScalarMap[str, str]
    def __init__(self, groups: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DescribeGroup(_message.Message):
    __slots__ = ("topic", "partition", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "leased", "last_poll_ms_ago", "is_live")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    LAST_POLL_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    IS_LIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    leased: int
    last_poll_ms_ago: int
    is_live: bool
    def __init__(self, name: _Optional[str] = ..., leased: _Optional[int] = ..., last_poll_ms_ago: _Optional[int] = ..., is_live: _Optional[bool] = ...) -> None: ...

class GroupDescription(_message.Message):
    __slots__ = ("kind", "floor", "next_offset", "log_start", "lag", "oldest_age_ms", "ready", "leased", "delayed", "dying", "dead_total", "acked_total", "failed_total", "expired_total", "cancelled_total", "is_paused", "members", "trimmed_total", "unburied", "partition_count", "held_back", "unused_ms")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    DEAD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ACKED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    FAILED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    UNBURIED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    UNUSED_MS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    floor: int
    next_offset: int
    log_start: int
    lag: int
    oldest_age_ms: int
    ready: int
    leased: int
    delayed: int
    dying: int
    dead_total: int
    acked_total: int
    failed_total: int
    expired_total: int
    cancelled_total: int
    is_paused: bool
    members: _containers.RepeatedCompositeFieldContainer[Member]
    trimmed_total: int
    unburied: int
    partition_count: int
    held_back: int
    unused_ms: int
    def __init__(self, kind: _Optional[str] = ..., floor: _Optional[int] = ..., next_offset: _Optional[int] = ..., log_start: _Optional[int] = ..., lag: _Optional[int] = ..., oldest_age_ms: _Optional[int] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., dying: _Optional[int] = ..., dead_total: _Optional[int] = ..., acked_total: _Optional[int] = ..., failed_total: _Optional[int] = ..., expired_total: _Optional[int] = ..., cancelled_total: _Optional[int] = ..., is_paused: _Optional[bool] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., trimmed_total: _Optional[int] = ..., unburied: _Optional[int] = ..., partition_count: _Optional[int] = ..., held_back: _Optional[int] = ..., unused_ms: _Optional[int] = ...) -> None: ...

class ExpireGroup(_message.Message):
    __slots__ = ("topic", "partition", "group", "step", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    step: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., step: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class GroupUse(_message.Message):
    __slots__ = ("is_known", "unused_ms", "is_held")
    IS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    UNUSED_MS_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    is_known: bool
    unused_ms: int
    is_held: bool
    def __init__(self, is_known: _Optional[bool] = ..., unused_ms: _Optional[int] = ..., is_held: _Optional[bool] = ...) -> None: ...

class ResetGroup(_message.Message):
    __slots__ = ("topic", "partition", "group", "start", "is_dry_run", "epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    IS_DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    start: Start
    is_dry_run: bool
    epoch: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., is_dry_run: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class GroupReset(_message.Message):
    __slots__ = ("from_offset", "to_offset")
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    from_offset: int
    to_offset: int
    def __init__(self, from_offset: _Optional[int] = ..., to_offset: _Optional[int] = ...) -> None: ...

class DeleteGroup(_message.Message):
    __slots__ = ("topic", "partition", "group", "is_forced")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_FORCED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    is_forced: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., is_forced: _Optional[bool] = ...) -> None: ...

class AlterGroup(_message.Message):
    __slots__ = ("topic", "group", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GroupReply(_message.Message):
    __slots__ = ("settings",)
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.ScalarMap[str, str]
    def __init__(self, settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExplainMessage(_message.Message):
    __slots__ = ("topic", "partition", "offset", "group", "topic_id", "has_record", "has_history")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    HAS_RECORD_FIELD_NUMBER: _ClassVar[int]
    HAS_HISTORY_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    group: str
    topic_id: int
    has_record: bool
    has_history: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., group: _Optional[str] = ..., topic_id: _Optional[int] = ..., has_record: _Optional[bool] = ..., has_history: _Optional[bool] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("state", "attempts", "reason", "holder", "remaining_ms", "history", "next", "ended_ms")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    state: str
    attempts: int
    reason: str
    holder: str
    remaining_ms: int
    history: _containers.RepeatedScalarFieldContainer[str]
    next: str
    ended_ms: int
    def __init__(self, state: _Optional[str] = ..., attempts: _Optional[int] = ..., reason: _Optional[str] = ..., holder: _Optional[str] = ..., remaining_ms: _Optional[int] = ..., history: _Optional[_Iterable[str]] = ..., next: _Optional[str] = ..., ended_ms: _Optional[int] = ...) -> None: ...

class ReadDueTimes(_message.Message):
    __slots__ = ("topic", "partition", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class DueTimes(_message.Message):
    __slots__ = ("counts", "is_estimated")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    IS_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    is_estimated: bool
    def __init__(self, counts: _Optional[_Iterable[int]] = ..., is_estimated: _Optional[bool] = ...) -> None: ...

class ListDelayed(_message.Message):
    __slots__ = ("topic", "partition", "group", "limit", "from_ms", "from_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    limit: int
    from_ms: int
    from_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., limit: _Optional[int] = ..., from_ms: _Optional[int] = ..., from_offset: _Optional[int] = ...) -> None: ...

class DelayedMessage(_message.Message):
    __slots__ = ("offset", "due_ms", "attempts", "reason")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    offset: int
    due_ms: int
    attempts: int
    reason: str
    def __init__(self, offset: _Optional[int] = ..., due_ms: _Optional[int] = ..., attempts: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DelayedMessages(_message.Message):
    __slots__ = ("messages", "has_more", "is_cut")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    IS_CUT_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DelayedMessage]
    has_more: bool
    is_cut: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[DelayedMessage, _Mapping]]] = ..., has_more: _Optional[bool] = ..., is_cut: _Optional[bool] = ...) -> None: ...

class DeliverNow(_message.Message):
    __slots__ = ("topic", "partition", "offsets", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    group: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., group: _Optional[str] = ...) -> None: ...

class DeliveredNow(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class ListBlockedKeys(_message.Message):
    __slots__ = ("topic", "partition", "group", "limit")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    limit: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class BlockedKey(_message.Message):
    __slots__ = ("key", "offset", "state", "holder", "remaining_ms", "attempts", "reason", "blocked")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    offset: int
    state: str
    holder: str
    remaining_ms: int
    attempts: int
    reason: str
    blocked: int
    def __init__(self, key: _Optional[bytes] = ..., offset: _Optional[int] = ..., state: _Optional[str] = ..., holder: _Optional[str] = ..., remaining_ms: _Optional[int] = ..., attempts: _Optional[int] = ..., reason: _Optional[str] = ..., blocked: _Optional[int] = ...) -> None: ...

class BlockedKeys(_message.Message):
    __slots__ = ("keys", "key_count", "message_count")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[BlockedKey]
    key_count: int
    message_count: int
    def __init__(self, keys: _Optional[_Iterable[_Union[BlockedKey, _Mapping]]] = ..., key_count: _Optional[int] = ..., message_count: _Optional[int] = ...) -> None: ...

class TakeTokens(_message.Message):
    __slots__ = ("topic", "group", "tokens", "start")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    tokens: int
    start: Start
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., tokens: _Optional[int] = ..., start: _Optional[_Union[Start, _Mapping]] = ...) -> None: ...

class TokensGranted(_message.Message):
    __slots__ = ("tokens", "retry_after_ms")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    tokens: int
    retry_after_ms: int
    def __init__(self, tokens: _Optional[int] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("topic", "partition", "transaction_id", "topic_id", "timeout_ms", "member")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    transaction_id: str
    topic_id: int
    timeout_ms: int
    member: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., transaction_id: _Optional[str] = ..., topic_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., member: _Optional[str] = ...) -> None: ...

class StageSettlement(_message.Message):
    __slots__ = ("topic", "partition", "group", "transaction_id", "leases", "topic_id", "timeout_ms", "member", "results")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    transaction_id: str
    leases: LeaseRanges
    topic_id: int
    timeout_ms: int
    member: str
    results: _containers.RepeatedCompositeFieldContainer[MessageResult]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., transaction_id: _Optional[str] = ..., leases: _Optional[_Union[LeaseRanges, _Mapping]] = ..., topic_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., member: _Optional[str] = ..., results: _Optional[_Iterable[_Union[MessageResult, _Mapping]]] = ...) -> None: ...

class Staged(_message.Message):
    __slots__ = ("count", "begun_ms", "topic_id")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    count: int
    begun_ms: int
    topic_id: int
    def __init__(self, count: _Optional[int] = ..., begun_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class Participant(_message.Message):
    __slots__ = ("topic", "number")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    number: int
    def __init__(self, topic: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class CommitTransaction(_message.Message):
    __slots__ = ("transaction_id", "application_id", "version", "partitions", "members", "begun_ms", "owner", "topic_ids")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    application_id: str
    version: int
    partitions: _containers.RepeatedCompositeFieldContainer[Participant]
    members: _containers.RepeatedCompositeFieldContainer[TransactionMember]
    begun_ms: int
    owner: str
    topic_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, transaction_id: _Optional[str] = ..., application_id: _Optional[str] = ..., version: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Participant, _Mapping]]] = ..., members: _Optional[_Iterable[_Union[TransactionMember, _Mapping]]] = ..., begun_ms: _Optional[int] = ..., owner: _Optional[str] = ..., topic_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TransactionMember(_message.Message):
    __slots__ = ("transaction_id", "partitions")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, transaction_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class AbortTransaction(_message.Message):
    __slots__ = ("transaction_id", "partitions", "begun_ms")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[Participant]
    begun_ms: int
    def __init__(self, transaction_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[Participant, _Mapping]]] = ..., begun_ms: _Optional[int] = ...) -> None: ...

class TransactionDecided(_message.Message):
    __slots__ = ("is_repeated",)
    IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    is_repeated: bool
    def __init__(self, is_repeated: _Optional[bool] = ...) -> None: ...

class TransactionOutcome(_message.Message):
    __slots__ = ("topic", "partition", "transaction_id", "wait_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    transaction_id: str
    wait_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., transaction_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class TransactionShown(_message.Message):
    __slots__ = ("is_shown", "producer_ids", "producer_sequences", "base_offsets", "begun_ms", "topic_id")
    IS_SHOWN_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    is_shown: bool
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    producer_sequences: _containers.RepeatedScalarFieldContainer[int]
    base_offsets: _containers.RepeatedScalarFieldContainer[int]
    begun_ms: int
    topic_id: int
    def __init__(self, is_shown: _Optional[bool] = ..., producer_ids: _Optional[_Iterable[int]] = ..., producer_sequences: _Optional[_Iterable[int]] = ..., base_offsets: _Optional[_Iterable[int]] = ..., begun_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ListTransactions(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class AwaitedTransaction(_message.Message):
    __slots__ = ("transaction_id", "application_id", "version", "decided_at_ms", "partitions")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    application_id: str
    version: int
    decided_at_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[Participant]
    def __init__(self, transaction_id: _Optional[str] = ..., application_id: _Optional[str] = ..., version: _Optional[int] = ..., decided_at_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Participant, _Mapping]]] = ...) -> None: ...

class TransactionList(_message.Message):
    __slots__ = ("awaited", "awaited_count", "remembered_count", "forgotten_ms", "application_count", "idle_application_count")
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    AWAITED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_MS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    IDLE_APPLICATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    awaited: _containers.RepeatedCompositeFieldContainer[AwaitedTransaction]
    awaited_count: int
    remembered_count: int
    forgotten_ms: int
    application_count: int
    idle_application_count: int
    def __init__(self, awaited: _Optional[_Iterable[_Union[AwaitedTransaction, _Mapping]]] = ..., awaited_count: _Optional[int] = ..., remembered_count: _Optional[int] = ..., forgotten_ms: _Optional[int] = ..., application_count: _Optional[int] = ..., idle_application_count: _Optional[int] = ...) -> None: ...

class ListOpenTransactions(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class OpenTransaction(_message.Message):
    __slots__ = ("transaction_id", "begun_ms", "timeout_ms", "record_count", "ack_count")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACK_COUNT_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    begun_ms: int
    timeout_ms: int
    record_count: int
    ack_count: int
    def __init__(self, transaction_id: _Optional[str] = ..., begun_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., record_count: _Optional[int] = ..., ack_count: _Optional[int] = ...) -> None: ...

class OpenTransactionList(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[OpenTransaction]
    def __init__(self, transactions: _Optional[_Iterable[_Union[OpenTransaction, _Mapping]]] = ...) -> None: ...

class ForgetTransaction(_message.Message):
    __slots__ = ("transaction_id", "application_id")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    application_id: str
    def __init__(self, transaction_id: _Optional[str] = ..., application_id: _Optional[str] = ...) -> None: ...

class JoinGroup(_message.Message):
    __slots__ = ("topic", "group", "member", "client", "strategy", "session_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    client: str
    strategy: str
    session_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., client: _Optional[str] = ..., strategy: _Optional[str] = ..., session_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("topic", "group", "member", "generation", "owned", "wait_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    generation: int
    owned: _containers.RepeatedScalarFieldContainer[int]
    wait_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., generation: _Optional[int] = ..., owned: _Optional[_Iterable[int]] = ..., wait_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class LeaveGroup(_message.Message):
    __slots__ = ("topic", "group", "member", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., topic_id: _Optional[int] = ...) -> None: ...

class GroupAssignment(_message.Message):
    __slots__ = ("generation", "partitions", "epochs", "session_ms", "topic_id", "first_partitions")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    session_ms: int
    topic_id: int
    first_partitions: int
    def __init__(self, generation: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., epochs: _Optional[_Iterable[int]] = ..., session_ms: _Optional[int] = ..., topic_id: _Optional[int] = ..., first_partitions: _Optional[int] = ...) -> None: ...

class ClaimPartition(_message.Message):
    __slots__ = ("group", "topic", "partition", "epoch", "topic_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    epoch: int
    topic_id: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., epoch: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class DescribeStreamGroup(_message.Message):
    __slots__ = ("topic", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class StreamMember(_message.Message):
    __slots__ = ("name", "client", "partitions", "heard_ms_ago")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    client: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    heard_ms_ago: int
    def __init__(self, name: _Optional[str] = ..., client: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., heard_ms_ago: _Optional[int] = ...) -> None: ...

class StreamGroupDescription(_message.Message):
    __slots__ = ("generation", "strategy", "session_ms", "members", "rebalanced_ms_ago", "cause", "moved")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REBALANCED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    strategy: str
    session_ms: int
    members: _containers.RepeatedCompositeFieldContainer[StreamMember]
    rebalanced_ms_ago: int
    cause: str
    moved: int
    def __init__(self, generation: _Optional[int] = ..., strategy: _Optional[str] = ..., session_ms: _Optional[int] = ..., members: _Optional[_Iterable[_Union[StreamMember, _Mapping]]] = ..., rebalanced_ms_ago: _Optional[int] = ..., cause: _Optional[str] = ..., moved: _Optional[int] = ...) -> None: ...

class ListStreamGroups(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class FenceGroup(_message.Message):
    __slots__ = ("topic", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class ForgetGroup(_message.Message):
    __slots__ = ("topic", "group", "is_forced")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_FORCED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    is_forced: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., is_forced: _Optional[bool] = ...) -> None: ...

class StreamGroupList(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class ScheduleHeader(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class ScheduleDefinition(_message.Message):
    __slots__ = ("topic", "cron", "every_ms", "time_zone", "start_ms", "missed", "missed_max", "payload", "key", "headers", "priority", "content_type")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    MISSED_MAX_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    cron: str
    every_ms: int
    time_zone: str
    start_ms: int
    missed: str
    missed_max: int
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[ScheduleHeader]
    priority: int
    content_type: int
    def __init__(self, topic: _Optional[str] = ..., cron: _Optional[str] = ..., every_ms: _Optional[int] = ..., time_zone: _Optional[str] = ..., start_ms: _Optional[int] = ..., missed: _Optional[str] = ..., missed_max: _Optional[int] = ..., payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[ScheduleHeader, _Mapping]]] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ...) -> None: ...

class ScheduleInfo(_message.Message):
    __slots__ = ("name", "schedule_id", "definition", "is_paused", "created_ms", "runs", "last_ms", "produced_ms", "skipped_ms", "upcoming_ms", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_MS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_MS_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedule_id: int
    definition: ScheduleDefinition
    is_paused: bool
    created_ms: int
    runs: int
    last_ms: int
    produced_ms: int
    skipped_ms: int
    upcoming_ms: _containers.RepeatedScalarFieldContainer[int]
    error: str
    def __init__(self, name: _Optional[str] = ..., schedule_id: _Optional[int] = ..., definition: _Optional[_Union[ScheduleDefinition, _Mapping]] = ..., is_paused: _Optional[bool] = ..., created_ms: _Optional[int] = ..., runs: _Optional[int] = ..., last_ms: _Optional[int] = ..., produced_ms: _Optional[int] = ..., skipped_ms: _Optional[int] = ..., upcoming_ms: _Optional[_Iterable[int]] = ..., error: _Optional[str] = ...) -> None: ...

class ScheduleReply(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: ScheduleInfo
    def __init__(self, schedule: _Optional[_Union[ScheduleInfo, _Mapping]] = ...) -> None: ...

class CreateSchedule(_message.Message):
    __slots__ = ("name", "definition", "is_update")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    IS_UPDATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    definition: ScheduleDefinition
    is_update: bool
    def __init__(self, name: _Optional[str] = ..., definition: _Optional[_Union[ScheduleDefinition, _Mapping]] = ..., is_update: _Optional[bool] = ...) -> None: ...

class PauseSchedule(_message.Message):
    __slots__ = ("name", "is_paused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_paused: bool
    def __init__(self, name: _Optional[str] = ..., is_paused: _Optional[bool] = ...) -> None: ...

class DeleteSchedule(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RunSchedule(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ScheduleList(_message.Message):
    __slots__ = ("schedules", "next")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[ScheduleInfo]
    next: str
    def __init__(self, schedules: _Optional[_Iterable[_Union[ScheduleInfo, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListSchedules(_message.Message):
    __slots__ = ("name", "after", "upcoming")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    name: str
    after: str
    upcoming: int
    def __init__(self, name: _Optional[str] = ..., after: _Optional[str] = ..., upcoming: _Optional[int] = ...) -> None: ...

class Authenticate(_message.Message):
    __slots__ = ("mechanism", "data")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    data: bytes
    def __init__(self, mechanism: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Challenge(_message.Message):
    __slots__ = ("data", "is_done")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_done: bool
    def __init__(self, data: _Optional[bytes] = ..., is_done: _Optional[bool] = ...) -> None: ...

class Verifier(_message.Message):
    __slots__ = ("salt", "iterations", "stored_key", "server_key")
    SALT_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    def __init__(self, salt: _Optional[bytes] = ..., iterations: _Optional[int] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class CreateUser(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ...) -> None: ...

class SetPassword(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ...) -> None: ...

class DeleteUser(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateAdministrator(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ...) -> None: ...

class UserInfo(_message.Message):
    __slots__ = ("name", "created_ms", "password_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_ms: int
    password_ms: int
    def __init__(self, name: _Optional[str] = ..., created_ms: _Optional[int] = ..., password_ms: _Optional[int] = ...) -> None: ...

class UserList(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[UserInfo]
    def __init__(self, users: _Optional[_Iterable[_Union[UserInfo, _Mapping]]] = ...) -> None: ...

class ListUsers(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Grant(_message.Message):
    __slots__ = ("user", "action", "topic", "group")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    user: str
    action: str
    topic: str
    group: str
    def __init__(self, user: _Optional[str] = ..., action: _Optional[str] = ..., topic: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class GrantAccess(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class RevokeAccess(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class GrantList(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class ListGrants(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("user", "namespace", "bytes_in_per_second", "bytes_out_per_second", "requests_per_second", "connections", "partitions", "stored_bytes")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    user: str
    namespace: str
    bytes_in_per_second: int
    bytes_out_per_second: int
    requests_per_second: int
    connections: int
    partitions: int
    stored_bytes: int
    def __init__(self, user: _Optional[str] = ..., namespace: _Optional[str] = ..., bytes_in_per_second: _Optional[int] = ..., bytes_out_per_second: _Optional[int] = ..., requests_per_second: _Optional[int] = ..., connections: _Optional[int] = ..., partitions: _Optional[int] = ..., stored_bytes: _Optional[int] = ...) -> None: ...

class SetQuota(_message.Message):
    __slots__ = ("quota",)
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    quota: Quota
    def __init__(self, quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class RemoveQuota(_message.Message):
    __slots__ = ("user", "namespace")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    user: str
    namespace: str
    def __init__(self, user: _Optional[str] = ..., namespace: _Optional[str] = ...) -> None: ...

class QuotaUsage(_message.Message):
    __slots__ = ("partitions", "stored_bytes")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    partitions: int
    stored_bytes: int
    def __init__(self, partitions: _Optional[int] = ..., stored_bytes: _Optional[int] = ...) -> None: ...

class QuotaList(_message.Message):
    __slots__ = ("quotas", "usage")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    usage: _containers.RepeatedCompositeFieldContainer[QuotaUsage]
    def __init__(self, quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ..., usage: _Optional[_Iterable[_Union[QuotaUsage, _Mapping]]] = ...) -> None: ...

class ListQuotas(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AssignRole(_message.Message):
    __slots__ = ("user", "role")
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    user: str
    role: str
    def __init__(self, user: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class UnassignRole(_message.Message):
    __slots__ = ("user", "role")
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    user: str
    role: str
    def __init__(self, user: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class RoleOfUser(_message.Message):
    __slots__ = ("user", "role")
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    user: str
    role: str
    def __init__(self, user: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class RoleList(_message.Message):
    __slots__ = ("roles",)
    ROLES_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedCompositeFieldContainer[RoleOfUser]
    def __init__(self, roles: _Optional[_Iterable[_Union[RoleOfUser, _Mapping]]] = ...) -> None: ...

class ListRoles(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadLog(_message.Message):
    __slots__ = ("topic", "partition", "first_index", "last_index")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    first_index: int
    last_index: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...

class LogRead(_message.Message):
    __slots__ = ("group", "base_index", "base_term", "last_index", "last_term", "snapshot_index", "snapshot_term", "snapshot_bytes", "entries")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    BASE_TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_TERM_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    group: int
    base_index: int
    base_term: int
    last_index: int
    last_term: int
    snapshot_index: int
    snapshot_term: int
    snapshot_bytes: int
    entries: bytes
    def __init__(self, group: _Optional[int] = ..., base_index: _Optional[int] = ..., base_term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., snapshot_index: _Optional[int] = ..., snapshot_term: _Optional[int] = ..., snapshot_bytes: _Optional[int] = ..., entries: _Optional[bytes] = ...) -> None: ...

class ReadSnapshot(_message.Message):
    __slots__ = ("topic", "partition", "index", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    index: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., index: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class SnapshotRead(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class HoldSettlements(_message.Message):
    __slots__ = ("hold_id", "hold_ms")
    HOLD_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    hold_id: str
    hold_ms: int
    def __init__(self, hold_id: _Optional[str] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class SettlementsHeld(_message.Message):
    __slots__ = ("node", "is_held")
    NODE_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    node: int
    is_held: bool
    def __init__(self, node: _Optional[int] = ..., is_held: _Optional[bool] = ...) -> None: ...

class Pipeline(_message.Message):
    __slots__ = ("id", "name", "topics", "group", "records_behind", "bytes_behind", "records_per_second", "batch", "batch_records", "batch_ms", "reported_ms", "lake", "lake_bytes", "lake_rows", "lake_files", "lake_verified_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RECORDS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    BYTES_BEHIND_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_MS_FIELD_NUMBER: _ClassVar[int]
    REPORTED_MS_FIELD_NUMBER: _ClassVar[int]
    LAKE_FIELD_NUMBER: _ClassVar[int]
    LAKE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAKE_ROWS_FIELD_NUMBER: _ClassVar[int]
    LAKE_FILES_FIELD_NUMBER: _ClassVar[int]
    LAKE_VERIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    group: str
    records_behind: int
    bytes_behind: int
    records_per_second: int
    batch: int
    batch_records: int
    batch_ms: int
    reported_ms: int
    lake: str
    lake_bytes: int
    lake_rows: int
    lake_files: int
    lake_verified_ms: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ..., records_behind: _Optional[int] = ..., bytes_behind: _Optional[int] = ..., records_per_second: _Optional[int] = ..., batch: _Optional[int] = ..., batch_records: _Optional[int] = ..., batch_ms: _Optional[int] = ..., reported_ms: _Optional[int] = ..., lake: _Optional[str] = ..., lake_bytes: _Optional[int] = ..., lake_rows: _Optional[int] = ..., lake_files: _Optional[int] = ..., lake_verified_ms: _Optional[int] = ...) -> None: ...

class ReportPipeline(_message.Message):
    __slots__ = ("pipeline", "is_over")
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    pipeline: Pipeline
    is_over: bool
    def __init__(self, pipeline: _Optional[_Union[Pipeline, _Mapping]] = ..., is_over: _Optional[bool] = ...) -> None: ...

class ListPipelines(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PipelineList(_message.Message):
    __slots__ = ("pipelines",)
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    pipelines: _containers.RepeatedCompositeFieldContainer[Pipeline]
    def __init__(self, pipelines: _Optional[_Iterable[_Union[Pipeline, _Mapping]]] = ...) -> None: ...
