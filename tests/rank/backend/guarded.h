/* A backend for tests, in a file of its own: the CPU's operations, counted, on memory that only
 * they can touch. The system protects the memory except while an operation runs or it is mapped
 * (RANK_MEMORY_HOST is open, as on a GPU). So it shows that all code above a backend goes through
 * it, as it must on a GPU. Products read transposed operands themselves, and chunks have another
 * length. */
#ifndef TEST_GUARDED_H
#define TEST_GUARDED_H

#include "backend/backend.h"

typedef struct guarded_counts {
    int operations; /* all of them */
    int products;
    int attentions;
    int adamws;
    int allocs; /* not released yet */
    int maps;   /* not unmapped yet */
} guarded_counts;

extern const rank_backend guarded_backend;

/* A device of this backend; closed by rank_device_close. */
void guarded_open(rank_device *device);
guarded_counts guarded_count(const rank_device *device);

#endif
