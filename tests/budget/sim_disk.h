/* A disk in memory, as a SQLite VFS: what was written and not synced can be lost, and every kind of
 * failure can be asked for. One disk a process; one thread. */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_DISK_VFS "sim-disk"

typedef struct sim_disk_faults {
    int64_t crash_after;      /* writes and syncs until the machine stops; -1: never */
    int64_t space_bytes;      /* that files may still grow by; -1: no end */
    int64_t sync_fails_after; /* syncs until one fails; -1: never */
    bool read_only;
} sim_disk_faults;

extern sim_disk_faults sim_disk;

/* Registers the VFS (once) and empties the disk; no faults. */
void sim_disk_reset(void);

/* The power is gone: of each file's writes since its last sync, the first few are kept, random says
 * how many, and half of the next one. Works again afterwards; no faults. */
void sim_disk_crash(uint64_t random);

/* Did crash_after strike? */
bool sim_disk_stopped(void);

#endif
