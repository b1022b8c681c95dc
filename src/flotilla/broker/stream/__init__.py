"""Stream groups at the leader of the metadata: members, heartbeats and assignments.

The table of groups is replicated and lives in `metadata/`.
"""
