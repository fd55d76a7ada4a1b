/* Threads beside the one that handles a program's signals, and how they wait for each other. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread that gets no signals: they reach the threads that wait for them, with a signalfd or a
 * handler. *thread is joined or detached by the caller. The message of a failure says what it is for. */
BASE_MUST_CHECK base_status base_thread_start(pthread_t *thread, void *(*run)(void *argument),
                                              void *argument, const char *what, base_error *reterr);

/* Makes a condition for base_cond_wait. pthread_cond_destroy ends it. */
void base_cond_init(pthread_cond_t *condition);

/* pthread_cond_wait until the deadline of base/clock.h. Returns false when it has passed. */
bool base_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns);

#endif
