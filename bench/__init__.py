"""What the parts cost on this machine, each as a ratio to a probe of the same machine in the same run."""
