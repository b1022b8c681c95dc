"""The workload of stream groups: members that join, own partitions, commit and leave."""
