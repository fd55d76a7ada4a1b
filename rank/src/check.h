/* rank --check: whether a rank would refuse the job that the launcher is about to start. Private to
 * the program. */
#ifndef RANK_CHECK_H
#define RANK_CHECK_H

/* Reads JOB.json from standard input. If the job cannot be run, prints the reason on standard
 * output, in one line. Returns the exit code: BASE_EXIT_USAGE if the job is at fault,
 * BASE_EXIT_NO_GPU if the job is good and this host has no driver or no plugin for it,
 * BASE_EXIT_ERROR if this host is at fault otherwise. Loads no library. */
int rank_check_job(void);

#endif
