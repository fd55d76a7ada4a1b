/* Writes to standard output and standard error from threads, so that no caller waits for a reader.
 * Called by screen.c for the job's lines, and by cli/ for results. */
#include "job/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

typedef struct text {
    struct text *next;
    int fd;
    launch_text_kind kind;
    size_t bytes;
    char data[];
} text;

/* One queue and its thread. */
typedef struct stream {
    pthread_t thread;
    pthread_cond_t filled;
    pthread_cond_t written;
    text *first; /* stays here while it is written */
    text *last;
    size_t bytes;       /* that wait */
    size_t own_bytes;   /* … of the launcher's own lines */
    int64_t waiting_ns; /* since when `first` is not whole */
    uint64_t left_out;  /* lines of the launcher's own */
} stream;

enum { STREAMS = 2 };

static struct {
    pthread_mutex_t lock; /* of all below */
    bool runs;
    bool ends;
    int count; /* of streams: 1 where both descriptors are one file */
    int lost;  /* errno of standard output; 0: none */
    stream streams[STREAMS];
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static stream *stream_of(int fd)
{
    BASE_ASSERT(fd == STDOUT_FILENO || fd == STDERR_FILENO);
    return &writer.streams[fd == STDERR_FILENO && writer.count == STREAMS ? 1 : 0];
}

/* The lock is held. */
static void note_loss(int fd, launch_text_kind kind, int reason)
{
    const bool wanted = reason != EPIPE || kind == LAUNCH_TEXT_RESULT;
    if (fd == STDOUT_FILENO && writer.lost == 0 && wanted) {
        writer.lost = reason;
    }
}

/* ---- the threads ---- */

static void *run(void *argument)
{
    stream *of = argument;
    (void)pthread_mutex_lock(&writer.lock);
    for (;;) {
        while (of->first == NULL && !writer.ends) {
            (void)pthread_cond_wait(&of->filled, &writer.lock);
        }
        if (of->first == NULL) {
            break;
        }
        text *next = of->first;
        of->waiting_ns = base_now_ns();
        (void)pthread_mutex_unlock(&writer.lock);
        const int reason = base_fd_put(next->fd, next->data, next->bytes);
        (void)pthread_mutex_lock(&writer.lock);
        note_loss(next->fd, next->kind, reason);
        of->first = next->next;
        of->bytes -= next->bytes;
        of->own_bytes -= next->kind == LAUNCH_TEXT_OWN ? next->bytes : 0;
        free(next);
        (void)pthread_cond_signal(&of->written);
    }
    (void)pthread_mutex_unlock(&writer.lock);
    return NULL;
}

static bool are_one_file(void)
{
    struct stat out;
    struct stat err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static base_status start_stream(stream *made, base_error *reterr)
{
    *made = (stream){.first = NULL};
    (void)pthread_cond_init(&made->filled, NULL);
    base_cond_init(&made->written);
    return base_thread_start(&made->thread, run, made, "the output", reterr);
}

static void put_log(const char *line, size_t bytes)
{
    launch_writer_put(STDERR_FILENO, LAUNCH_TEXT_OWN, line, bytes);
}

base_status launch_writer_start(base_error *reterr)
{
    base_status status = BASE_OK;
    const int wanted = are_one_file() ? 1 : STREAMS;
    BASE_ASSERT(!writer.runs);
    (void)pthread_mutex_lock(&writer.lock);
    writer.runs = true;
    writer.ends = false;
    writer.lost = 0;
    writer.count = 0;
    for (int i = 0; i < wanted && status == BASE_OK; i++) {
        status = start_stream(&writer.streams[i], reterr);
        writer.count += status == BASE_OK ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&writer.lock);
    if (status != BASE_OK) {
        launch_writer_stop();
        return status;
    }
    base_log_redirect(put_log);
    return BASE_OK;
}

/* ---- the queues ---- */

/* The lock is held. */
static void append(stream *of, int fd, launch_text_kind kind, const char *data, size_t bytes)
{
    text *made = malloc(sizeof *made + bytes);
    if (made == NULL) {
        note_loss(fd, kind, ENOMEM);
        return;
    }
    *made = (text){.fd = fd, .kind = kind, .bytes = bytes};
    memcpy(made->data, data, bytes);
    if (of->first == NULL) {
        of->first = made;
        of->waiting_ns = base_now_ns();
    } else {
        of->last->next = made;
    }
    of->last = made;
    of->bytes += bytes;
    of->own_bytes += kind == LAUNCH_TEXT_OWN ? bytes : 0;
    (void)pthread_cond_signal(&of->filled);
}

/* The lock is held. */
static void say_left_out(stream *of)
{
    char line[128];
    if (of->left_out > 0) {
        const int bytes = snprintf(line, sizeof line,
                                   "launcher: %llu lines of its own are left out here: nobody "
                                   "read its output\n",
                                   (unsigned long long)of->left_out);
        of->left_out = 0;
        append(of, STDERR_FILENO, LAUNCH_TEXT_OWN, line, (size_t)bytes);
    }
}

void launch_writer_stop(void)
{
    if (!writer.runs) {
        return;
    }
    base_log_redirect(NULL);
    (void)pthread_mutex_lock(&writer.lock);
    for (int i = 0; i < writer.count; i++) {
        say_left_out(&writer.streams[i]);
        (void)pthread_cond_signal(&writer.streams[i].filled);
    }
    writer.ends = true;
    (void)pthread_mutex_unlock(&writer.lock);
    for (int i = 0; i < writer.count; i++) {
        (void)pthread_join(writer.streams[i].thread, NULL);
        (void)pthread_cond_destroy(&writer.streams[i].filled);
        (void)pthread_cond_destroy(&writer.streams[i].written);
    }
    (void)pthread_mutex_lock(&writer.lock);
    writer.runs = false;
    (void)pthread_mutex_unlock(&writer.lock);
}

void launch_writer_put(int fd, launch_text_kind kind, const char *data, size_t bytes)
{
    (void)pthread_mutex_lock(&writer.lock);
    stream *of = stream_of(fd);
    if (!writer.runs) {
        note_loss(fd, kind, base_fd_put(fd, data, bytes));
    } else if (kind == LAUNCH_TEXT_OWN && of->own_bytes > LAUNCH_WRITER_OWN_BYTES) {
        of->left_out++;
    } else {
        if (of->bytes < LAUNCH_WRITER_ROOM_BYTES) {
            say_left_out(of);
        }
        append(of, fd, kind, data, bytes);
    }
    (void)pthread_mutex_unlock(&writer.lock);
}

void launch_writer_result(const char *format, ...)
{
    char *made = NULL;
    va_list args;
    va_start(args, format);
    const int bytes = vasprintf(&made, format, args);
    va_end(args);
    if (bytes >= 0) {
        launch_writer_put(STDOUT_FILENO, LAUNCH_TEXT_RESULT, made, (size_t)bytes);
        free(made);
        return;
    }
    (void)pthread_mutex_lock(&writer.lock);
    note_loss(STDOUT_FILENO, LAUNCH_TEXT_RESULT, ENOMEM);
    (void)pthread_mutex_unlock(&writer.lock);
}

bool launch_writer_has_room(int fd)
{
    (void)pthread_mutex_lock(&writer.lock);
    const bool room = !writer.runs || stream_of(fd)->bytes < LAUNCH_WRITER_ROOM_BYTES;
    (void)pthread_mutex_unlock(&writer.lock);
    return room;
}

bool launch_writer_is_idle(int fd)
{
    (void)pthread_mutex_lock(&writer.lock);
    const bool idle = !writer.runs || stream_of(fd)->first == NULL;
    (void)pthread_mutex_unlock(&writer.lock);
    return idle;
}

int64_t launch_writer_stuck_ns(int fd, int64_t now_ns)
{
    (void)pthread_mutex_lock(&writer.lock);
    const bool waits = writer.runs && stream_of(fd)->first != NULL;
    const int64_t since_ns = waits ? stream_of(fd)->waiting_ns : now_ns;
    (void)pthread_mutex_unlock(&writer.lock);
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

bool launch_writer_flush(int64_t deadline_ns)
{
    bool all = true;
    (void)pthread_mutex_lock(&writer.lock);
    for (int i = 0; writer.runs && i < writer.count; i++) {
        stream *of = &writer.streams[i];
        while (of->first != NULL && all) {
            all = base_cond_wait(&of->written, &writer.lock, deadline_ns);
        }
        all = all && of->first == NULL;
    }
    (void)pthread_mutex_unlock(&writer.lock);
    return all;
}

int launch_writer_lost(void)
{
    (void)pthread_mutex_lock(&writer.lock);
    const int lost = writer.lost;
    (void)pthread_mutex_unlock(&writer.lock);
    return lost;
}
