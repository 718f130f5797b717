"""Many questions at once: tables and lists in, the same with answers out, in bounded memory, over all processors."""
