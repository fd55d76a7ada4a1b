/* The same arrays on the CPU backend and on another one, for tests that run an operation on both
 * and compare everything: what was written, and that nothing else was.
 *
 * A new array has the same random content on both sides, with guard bytes around it. So an
 * operation's outputs are full of other numbers before it runs. */
#ifndef GPU_PARITY_TWIN_H
#define GPU_PARITY_TWIN_H

#include "backend/backend.h"

enum { TWIN_CPU, TWIN_OTHER, TWIN_SIDES, TWIN_ARRAYS_MAX = 32 };

typedef struct twin_array {
    const char *name;
    size_t size_bytes;
    rank_type type;   /* of the other side; bfloat16 is float32 on the CPU, with the same values */
    double tolerance; /* relative to 1 + |expected|; 0: the twin's; less: the bytes are equal */
    char *block[TWIN_SIDES];
} twin_array;

typedef struct twin {
    rank_device device[TWIN_SIDES];
    bool exact;       /* the other side has the CPU's bits */
    double tolerance; /* else, relative to 1 + |expected| */
    bool guards;      /* else something else watches the arrays' ends, to the byte */
    uint64_t seed;
    uint64_t bits; /* of all that twin_compare found on the other side: equal runs, equal bits */
    int count;
    twin_array arrays[TWIN_ARRAYS_MAX];
} twin;

/* Opens both sides. */
void twin_open(twin *t, const rank_backend *other);
void twin_close(twin *t);

/* Names the shape that is tried, for messages; then forgets all arrays. */
void twin_begin(twin *t);
void twin_end(twin *t);

uint64_t twin_random(twin *t);
/* From `low` to `high`, both possible. */
size_t twin_between(twin *t, size_t low, size_t high);

/* Index of a new array of random floats in [-scale, scale], in device memory. */
int twin_floats(twin *t, const char *name, size_t count, float scale);
/* Elements of that type. */
int twin_elements(twin *t, const char *name, rank_type type, size_t count, float scale);
/* Of what stands at `from`, in memory of this kind. */
int twin_copy(twin *t, const char *name, rank_memory kind, const void *from, size_t size_bytes);
/* Of integers from `low` to `high`, in host memory, as tables are. */
int twin_ints(twin *t, const char *name, size_t count, int low, int high);

/* What type an array of that type has on a side. */
static inline rank_type twin_type(rank_type type, int side)
{
    return side == TWIN_OTHER ? type : RANK_FLOAT32;
}

/* The array's address on a side. */
void *twin_at(const twin *t, int array, int side);
#define FLOATS(t, array, side) ((float *)twin_at(t, array, side))
#define INTS(t, array, side)   ((int32_t *)twin_at(t, array, side))

/* A result of elements that is rounded otherwise, even where the rest has equal bits. */
void twin_tolerate(twin *t, int array, double tolerance);

/* Compares all arrays. `shape` says what was tried. */
void twin_compare(twin *t, const char *shape);

#endif
