/* rank --check: does a rank refuse the job that the launcher is about to start? Private to the
 * program. */
#ifndef RANK_CHECK_H
#define RANK_CHECK_H

/* Reads JOB.json from standard input. Says on standard output, in one line, why the job cannot be
 * run. Returns the exit code: BASE_EXIT_USAGE where the job is at fault, BASE_EXIT_ERROR where this
 * host is. */
int rank_check_job(void);

#endif
