/* What one parse or one run works with: its memory, its limits, and the place where a failure ends.
 *
 * All memory lies in blocks that are freed together. A failure writes its message and jumps to `failed`, which
 * rank_jinja_parse and rank_jinja_render have set. So no function between them checks for failures, and
 * none may hold what is not in the blocks. One thread. */
#ifndef RANK_JINJA_WORK_H
#define RANK_JINJA_WORK_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct jinja_block jinja_block;

typedef struct jinja_work {
    jinja_block *blocks;
    char *at; /* what is left of the newest block */
    size_t left_bytes;
    size_t used_bytes;
    size_t bytes_max;
    uint64_t steps;
    unsigned depth;
    unsigned depth_max;
    uint32_t line; /* of the template, where it is now */
    base_status status;
    base_error *reterr;
    jmp_buf failed;
} jinja_work;

/* Memory of that many bytes, aligned for every type; not zeroed. Never NULL. */
void *jinja_alloc(jinja_work *work, size_t bytes);
/* (count) items of zeros. */
void *jinja_zeros(jinja_work *work, size_t count, size_t item_bytes);
/* A copy with a NUL behind it. */
char *jinja_copy(jinja_work *work, const char *text, size_t bytes);
/* An array with room for one more than its count items, as base_grow. */
void *jinja_grow(jinja_work *work, void *array, size_t count, size_t *room, size_t item_bytes);
void jinja_free_blocks(jinja_block *blocks);

/* Fails with "line N: " before the message. */
BASE_NORETURN void jinja_fail(jinja_work *work, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);
/* Fails with this message alone. */
BASE_NORETURN void jinja_fail_with(jinja_work *work, base_status status, const char *message);

/* Counts steps. */
void jinja_step(jinja_work *work, size_t count);
/* Counts the work on that many bytes. */
void jinja_step_bytes(jinja_work *work, size_t bytes);
/* One level deeper; each enter has its leave. */
void jinja_enter(jinja_work *work);
void jinja_leave(jinja_work *work);

#endif
