/* Standard output and standard error, written by threads of their own: a reader that does not read (a
 * pager, a terminal after Ctrl-S) never holds up a loop that has ranks and hosts to serve.
 *
 * Texts wait in a queue, in their order: one queue for each of the two, or one for both where they are
 * the same file. What a rank prints is read only while there is room (launch_writer_has_room), so the
 * rank waits in its own pipe. Results are always taken: what they are made of is bounded elsewhere.
 * The launcher's own lines are left out once far too much waits, and a line says later how many.
 *
 * The process has one. Before launch_writer_start, and after launch_writer_stop, a text is written at
 * once, by the caller. Any thread may put; one starts, flushes and stops. */
#ifndef LAUNCH_WRITER_H
#define LAUNCH_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    LAUNCH_WRITER_ROOM_BYTES = 1024 * 1024,    /* more may wait only as said above */
    LAUNCH_WRITER_OWN_BYTES = 4 * 1024 * 1024, /* of the launcher's own lines; more are left out */
    LAUNCH_WRITER_BUSY_MS = 10,                /* without room, it is looked for so often */
    LAUNCH_WRITER_FLUSH_MS = 500,              /* the end of a job waits so long for its output */
};

typedef enum launch_text_kind {
    LAUNCH_TEXT_RESULT, /* what the job was run for: lost if its reader has gone */
    LAUNCH_TEXT_RANK,   /* what a rank has printed: a reader that has gone wanted no more */
    LAUNCH_TEXT_OWN,    /* a line of the launcher's own */
} launch_text_kind;

/* From now on, base_log's lines go this way as well. */
BASE_MUST_CHECK base_status launch_writer_start(base_error *reterr);

/* Writes all that waits, however long that takes, and ends the threads. */
void launch_writer_stop(void);

/* fd: 1 or 2. Keeps a copy. Never blocks while the writer runs. */
void launch_writer_put(int fd, launch_text_kind kind, const char *data, size_t bytes);

/* A result, on standard output. */
void launch_writer_result(const char *format, ...) BASE_PRINTF(1, 2);

/* Whether fd takes more of what can wait elsewhere. */
bool launch_writer_has_room(int fd);

/* Whether nothing waits. */
bool launch_writer_is_idle(int fd);

/* How long the descriptor has refused to take any of what waits; 0: it takes texts, or none waits. */
int64_t launch_writer_stuck_ns(int fd, int64_t now_ns);

/* Waits until all is written. False: the deadline has come. */
bool launch_writer_flush(int64_t deadline_ns);

/* Why standard output did not take a text, the first time: an errno, or 0. */
int launch_writer_lost(void);

#endif
