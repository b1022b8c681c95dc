"""One test per rule of the Raft paper (sections 5 to 8) and of Ongaro's thesis, with the section in the name."""
