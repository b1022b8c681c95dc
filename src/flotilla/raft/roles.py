"""The four roles of a replica. Numbers, because they are compared on every message.

FOLLOWER -> PRE_CANDIDATE   no leader heard in time, or the link to it broke
PRE_CANDIDATE -> CANDIDATE  a quorum would vote
CANDIDATE -> LEADER         a quorum voted
FOLLOWER -> CANDIDATE       the leader transfers leadership to this node
any -> FOLLOWER             a newer term, a leader of this term, a lost election, or no quorum heard
"""

FOLLOWER = 1
PRE_CANDIDATE = 2
CANDIDATE = 3
LEADER = 4

ROLE_NAMES = {FOLLOWER: "follower", PRE_CANDIDATE: "pre-candidate", CANDIDATE: "candidate", LEADER: "leader"}
