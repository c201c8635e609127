"""Which sample comes when: a pure function of (seed, epoch, chunk rows, window), on the host and on a device."""
