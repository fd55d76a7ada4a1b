/* Threads beside the one that handles a program's signals. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Starts a thread that gets no signals: they reach the threads that wait for them, with a signalfd or a
 * handler. *thread is joined or detached by the caller. The message of a failure says what it is for. */
BASE_MUST_CHECK base_status base_thread_start(pthread_t *thread, void *(*run)(void *argument),
                                              void *argument, const char *what, base_error *reterr);

#endif
