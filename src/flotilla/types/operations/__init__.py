"""What can be asked of a broker, and what it answers: one request and one reply class per operation.

Grouped by what they concern: the log, queue groups, stream groups, transactions, the cluster. How they travel belongs
to `codec/`, what they do to `broker/`.
"""

from flotilla.types.operations.log import (
    EARLIEST as EARLIEST,
)
from flotilla.types.operations.log import (
    LATEST as LATEST,
)
from flotilla.types.operations.log import (
    AlterTopic as AlterTopic,
)
from flotilla.types.operations.log import (
    BrokerInfo as BrokerInfo,
)
from flotilla.types.operations.log import (
    ClusterReply as ClusterReply,
)
from flotilla.types.operations.log import (
    CommitOffset as CommitOffset,
)
from flotilla.types.operations.log import (
    CreateTopic as CreateTopic,
)
from flotilla.types.operations.log import (
    DeleteTopic as DeleteTopic,
)
from flotilla.types.operations.log import (
    Done as Done,
)
from flotilla.types.operations.log import (
    Fetch as Fetch,
)
from flotilla.types.operations.log import (
    Fetched as Fetched,
)
from flotilla.types.operations.log import (
    GetMetadata as GetMetadata,
)
from flotilla.types.operations.log import (
    Hello as Hello,
)
from flotilla.types.operations.log import (
    InitCluster as InitCluster,
)
from flotilla.types.operations.log import (
    JoinCluster as JoinCluster,
)
from flotilla.types.operations.log import (
    ListOffsets as ListOffsets,
)
from flotilla.types.operations.log import (
    Metadata as Metadata,
)
from flotilla.types.operations.log import (
    OffsetCommitted as OffsetCommitted,
)
from flotilla.types.operations.log import (
    OffsetFound as OffsetFound,
)
from flotilla.types.operations.log import (
    PartitionInfo as PartitionInfo,
)
from flotilla.types.operations.log import (
    Produce as Produce,
)
from flotilla.types.operations.log import (
    Produced as Produced,
)
from flotilla.types.operations.log import (
    ReadOffset as ReadOffset,
)
from flotilla.types.operations.log import (
    RemoveNode as RemoveNode,
)
from flotilla.types.operations.log import (
    Reply as Reply,
)
from flotilla.types.operations.log import (
    Request as Request,
)
from flotilla.types.operations.log import (
    TopicInfo as TopicInfo,
)
from flotilla.types.operations.log import (
    TopicReply as TopicReply,
)
from flotilla.types.operations.log import (
    TransferLeadership as TransferLeadership,
)
from flotilla.types.operations.log import (
    Welcome as Welcome,
)
