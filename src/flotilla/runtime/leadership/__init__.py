"""Which node should lead: who takes over, and when this node's disk is a reason to hand over."""
