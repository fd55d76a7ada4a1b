/* Jobs of several launchers on the hosts of hosts.h. Used by the integration and fault tests. */
#ifndef TEST_SEVERAL_H
#define TEST_SEVERAL_H

#include "hosts.h"
#include "training.h"

enum { SEVERAL_FLAGS_MAX = 56, SEVERAL_PATH_BYTES = 512 };

/* What all launchers of a job have in common. */
typedef struct several {
    const char *rendezvous;
    const char *nodes;
    const char *hosts_file;               /* /etc/hosts; NULL: the machine's */
    const char *flags[SEVERAL_FLAGS_MAX]; /* of the job, at the head */
} several;

/* A job at several_address, with these flags; NULL: none. */
#define SEVERAL(nodes_as_text, ...)                                                                \
    {                                                                                              \
        several_address, nodes_as_text, NULL,                                                      \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }

/* The launchers that were started last, by node. */
extern training_run several_runs[TEST_HOSTS_MAX];

/* The programs that are started, by node; NULL: LAUNCHER_PATH. */
extern const char *several_launchers[TEST_HOSTS_MAX];

/* The key file that launchers are started with. */
extern char several_key[SEVERAL_PATH_BYTES];

/* Where node 0 listens. */
extern const char several_address[];

extern const char *const several_no_flags[];

/* Makes a job key, with which launchers are started from now on. */
void several_make_key(const char *name);

/* Appends to the job's flags. */
void several_add(several *job, const char *flag, const char *value);

void several_start(int node, const several *job, const char *const *flags);

/* Starts node 0 with a small model, its record in NAME. */
void several_start_head(const several *job, const char *name);

/* training_wait_checkpoint of node 0. */
void several_wait_checkpoint(uint64_t step);

/* The same, and the other launchers, which have no flags of their own. */
void several_start_hosts(const char *name, const several *job);

/* The same with a new key. */
void several_start_all(const char *name, const several *job);

/* The same of a training that saves, and waits for its checkpoint of 10 steps. */
void several_start_saving(const char *name, const several *job);

/* The same of one that waits at its checkpoint of `step` steps (training_gate_at). */
void several_start_gated(const char *name, const several *job, uint64_t step);

pid_t several_pid(int node);

/* Kills a launcher by SIGKILL. */
void several_kill(int node);

/* Waits for a launcher's end; its output is shown if it does not end with `exit_code`. */
void several_expect(int node, int exit_code);

/* The same of the first `nodes` launchers. */
void several_expect_all(int nodes, int exit_code);

/* The pid of a launcher's only rank, as soon as it runs. */
pid_t several_only_child(pid_t launcher);

/* The pid of a rank of that launcher, and not of what makes the host, nor of one that has ended and is not waited
 * for yet. 0: none runs now. */
pid_t several_find_rank(int node);

/* What a launcher has said on stderr. */
void several_assert_says(int node, const char *text);
void several_wait_says(int node, const char *text);

/* Runs a program here, and takes its exit code. */
void several_run_quietly(const char *const *arguments, int exit_code);

#endif
