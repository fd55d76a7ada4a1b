/* Memory, limits and failures of one parse or one run. Called by all of this directory. */
#include "work.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"

enum { BLOCK_BYTES = 1 << 16, ROOM_FIRST = 8, BYTES_OF_STEP = 16 };

struct jinja_block {
    jinja_block *next;
    alignas(max_align_t) char at[];
};

void *jinja_alloc(jinja_work *work, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    if (bytes > work->bytes_max) {
        jinja_fail(work, BASE_ERR_LIMIT, "the template takes more than %zu bytes of memory",
                   work->bytes_max);
    }
    bytes = bytes == 0 ? align : (bytes + align - 1) / align * align;
    if (bytes > work->left_bytes) {
        const size_t room = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        if (work->used_bytes + room > work->bytes_max) {
            jinja_fail(work, BASE_ERR_LIMIT, "the template takes more than %zu bytes of memory",
                       work->bytes_max);
        }
        jinja_block *block = malloc(sizeof *block + room);
        if (block == NULL) {
            jinja_fail(work, BASE_ERR_MEMORY, "no memory to run the template");
        }
        work->used_bytes += room;
        block->next = work->blocks;
        work->blocks = block;
        if (room == bytes) {
            return block->at; /* a block of its own: the newest goes on */
        }
        work->at = block->at;
        work->left_bytes = room;
    }
    void *at = work->at;
    work->at += bytes;
    work->left_bytes -= bytes;
    return at;
}

void *jinja_zeros(jinja_work *work, size_t count, size_t item_bytes)
{
    const size_t bytes = count <= work->bytes_max ? count * item_bytes : SIZE_MAX;
    return memset(jinja_alloc(work, bytes), 0, bytes);
}

char *jinja_copy(jinja_work *work, const char *text, size_t bytes)
{
    char *copy = jinja_alloc(work, bytes + 1);
    if (bytes > 0) {
        memcpy(copy, text, bytes);
    }
    copy[bytes] = '\0';
    return copy;
}

void *jinja_grow(jinja_work *work, void *array, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room) {
        return array;
    }
    const size_t more = *room > 0 ? 2 * *room : ROOM_FIRST;
    void *grown = jinja_alloc(work, more * item_bytes);
    if (count > 0) {
        memcpy(grown, array, count * item_bytes);
    }
    *room = more;
    return grown;
}

void jinja_free_blocks(jinja_block *blocks)
{
    while (blocks != NULL) {
        jinja_block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

void jinja_fail(jinja_work *work, base_status status, const char *format, ...)
{
    va_list args;
    char message[BASE_ERROR_MESSAGE_BYTES];
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    work->status = base_fail(work->reterr, status, "line %u: %s", work->line, message);
    longjmp(work->failed, 1);
}

void jinja_fail_with(jinja_work *work, base_status status, const char *message)
{
    work->status = base_fail(work->reterr, status, "%s", message);
    longjmp(work->failed, 1);
}

void jinja_step(jinja_work *work, size_t count)
{
    work->steps += count;
    if (work->steps > RANK_JINJA_STEPS_MAX) {
        jinja_fail(work, BASE_ERR_LIMIT, "the template takes more than %d steps",
                   RANK_JINJA_STEPS_MAX);
    }
}

void jinja_step_bytes(jinja_work *work, size_t bytes)
{
    jinja_step(work, bytes / BYTES_OF_STEP);
}

void jinja_enter(jinja_work *work)
{
    jinja_step(work, 1);
    if (++work->depth > work->depth_max) {
        jinja_fail(work, BASE_ERR_LIMIT, "the template is more than %u levels deep",
                   work->depth_max);
    }
}

void jinja_leave(jinja_work *work)
{
    work->depth--;
}
