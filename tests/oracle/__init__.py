"""Scripted Raft behaviour written by others, replayed on our core.

The scripts are not part of this repository. FLOTILLA_RAFT_DATA names their folder (default: `../shared/etcd-raft-data`
beside the repository); without it these tests are skipped.
"""
