/* Progress: moves operations through their stages. */
#ifndef COLL_SRC_PROGRESS_H
#define COLL_SRC_PROGRESS_H

#include "core/failure.h"
#include "core/op.h"

enum {
    COLL_TESTS_PER_LOOK = 8, /* at the clock, which takes half as long as a test */
};

/* Moves all started operations of the context on, without blocking. True if anything moved.
 * Failures are stored in the communicators. */
bool coll_progress(coll_context *context);

/* The same without reading the sockets. */
bool coll_advance(coll_context *context);

/* Whether a test without success has to look for failures: every eighth does, where that is due. */
static inline bool coll_test_has_to_look(coll_context *context)
{
    return ++context->idle_tests % COLL_TESTS_PER_LOOK == 0 && coll_watch_is_due(context);
}

/* The context's list of communicators with something under way. A program may have thousands of
 * others, which cost a call nothing. One that has become idle, or has failed, stands there until
 * the next of the calls above or of coll_is_under_way. */

/* Called where an operation of the communicator starts. */
void coll_busy_add(coll_comm *comm);
/* Called where the communicator is destroyed. */
void coll_busy_remove(coll_comm *comm);
/* Whether anything of the context is under way. */
bool coll_is_under_way(coll_context *context);

#endif
