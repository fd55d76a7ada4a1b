/* The one wait point. */
#ifndef COLL_SRC_WAIT_H
#define COLL_SRC_WAIT_H

#include "core/op.h"

/* How many yields are worth while where ranks outnumber processors: more when none had to sleep after
 * them, else fewer (coll_wait). */
void coll_yield_budget_grow(coll_context *context);
/* For a rank that goes to sleep: moves on what can be moved. True if anything moved, or the context
 * was aborted. */
bool coll_has_changed(coll_context *context);
/* What coll_context_describe says from now on: op; NULL: nothing. */
void coll_describe(coll_context *context, const coll_op *op);
/* A few cycles for the other side of the cache. */
void coll_pause(void);
/* Whether the deadline, which is counted from the first look where it is 0, has passed. */
bool coll_is_late(const coll_context *context, int64_t *deadline_ns);
/* How long a rank waits before it shows its peers for whom. */
int64_t coll_show_after_ns(const coll_context *context);
/* Called where a test has looked for failures (coll_test_has_to_look). COLL_ERR_TIMEOUT: such looks have found op not
 * done, and no test anything moving, for the timeout. */
COLL_MUST_CHECK coll_status coll_still_check(coll_op *op, coll_error *reterr);
/* Until op is done, the communicator has failed, or the timeout, counted from here if op has no
 * deadline, has passed. */
COLL_MUST_CHECK coll_status coll_wait(coll_op *op, coll_error *reterr);
/* Until one of the requests has come to that (or its communicator has been destroyed), and the place of
 * the first such one; count: all are NULL. They are of one context, and none is on a stream. */
size_t coll_wait_any(coll_request *const *requests, size_t count);

#endif
