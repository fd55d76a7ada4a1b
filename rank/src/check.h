/* rank --check: whether a rank would refuse the job that the launcher is about to start. rank
 * --check-model: whether it would refuse a checkpoint. Private to the program. */
#ifndef RANK_CHECK_H
#define RANK_CHECK_H

/* Reads JOB.json from standard input. If the job cannot be run, prints the reason on standard
 * output, in one line. Returns the exit code: BASE_EXIT_USAGE if the job is at fault,
 * BASE_EXIT_NO_GPU if the job is good and this host has no driver or no plugin for it,
 * BASE_EXIT_ERROR if this host is at fault otherwise. Loads no library. */
int rank_check_job(void);

/* Reads config.json in that directory, and nothing else. If no mode takes that model, prints the reason
 * in the same way, and returns BASE_EXIT_USAGE; BASE_EXIT_ERROR if the file cannot be read. */
int rank_check_model(const char *directory);

#endif
