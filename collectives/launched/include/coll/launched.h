/* Being one rank of `launcher --ranks N -- PROGRAM`. This is the library libcoll-launched: libcoll
 * itself knows no launcher.
 *
 * The launcher starts the program N times; coll_launched_open finds the launcher through what the
 * process has inherited, joins, connects to the other ranks, and gives the context to work with. A
 * background thread receives the launcher's messages from then on: when another rank fails, the
 * collectives under way return COLL_ERR_ABORTED with the reason, and a moment later the process is
 * ended; when the launcher itself is gone, the process ends at once.
 *
 * A program that the launcher starts through a script may open it as well, once per rank. A program
 * with another launcher (MPI, say) does not need this: it gives coll_context_create an all-gather
 * of its own.
 *
 * One thread at a time. */
#ifndef COLL_LAUNCHED_H
#define COLL_LAUNCHED_H

#include <stdbool.h>

#include "coll/coll.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coll_launched coll_launched;

/* Whether this process was started by a launcher. */
bool coll_launched_here(void);

/* Joins and makes the context, with the launcher's --transport, --algorithm, --timeout and
 * --host-timeout. Blocks until all ranks have joined, for --join-timeout at most
 * (COLL_ERR_TIMEOUT). COLL_ERR_AUTH when no launcher has started this process, COLL_ERR_STATE
 * when it has joined before. The caller owns
 * *launched. */
COLL_MUST_CHECK coll_status coll_launched_open(coll_launched **launched, coll_error *reterr);

/* Owned by launched. */
coll_context *coll_launched_context(coll_launched *launched);

/* The user has asked for the end (Ctrl-C at the launcher): finish what is under way, and leave. The launcher passes
 * the signal on as well, so a program that looks here must ignore or catch SIGINT, SIGTERM and SIGHUP. */
bool coll_launched_stop_requested(const coll_launched *launched);

/* Tells the launcher why this rank fails, with what it was in the middle of. The launcher then ends
 * the others; leave with a non-zero exit code (coll_launched_close). NULL: it gave no reason. */
void coll_launched_fail(coll_launched *launched, const coll_error *error);

/* The end of success: finalizes the world (coll_comm_finalize), notifies the launcher, and waits
 * for its goodbye; then destroys the context and closes. Where the world has failed, or has
 * operations under way, that is reported instead of success, and returned. After coll_launched_fail
 * it only destroys and closes, and returns the error that was given there (COLL_ERR_STATE if that
 * had no status). So a program whose exit code is 0 only after COLL_OK needs nothing else. NULL is
 * fine. launched is gone whatever is returned. */
coll_status coll_launched_close(coll_launched *launched, coll_error *reterr);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
