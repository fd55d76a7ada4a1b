/* The output directory: taken with a lock first, and only once the job has begun is an older record
 * in it moved away or removed.
 *
 * So a job that fails while it starts leaves everything as it was. What the job itself reads out of
 * the directory (a checkpoint, a tokenizer) can be read at its place all the while: where the older
 * record is moved, links stand in for it until settle; where it is overwritten, it stays until a
 * new file takes its name. The lock is flock(2) on the directory itself, so nothing is left behind,
 * and it ends with the process. An older record is a directory with manifest.json or timings.jsonl
 * in it. */
#ifndef LAUNCH_OUT_DIRECTORY_H
#define LAUNCH_OUT_DIRECTORY_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/status.h"

enum {
    LAUNCH_RECORDS_KEPT_MAX = 9999, /* OUT.1 … OUT.9999 */
    LAUNCH_INPUTS_MAX = 8,          /* files that a job reads */
};

typedef struct launch_out_options {
    const char *path;
    bool overwrite;
    const char *log_dir; /* written to before the job has begun; NULL: none */
    const char *const
        *inputs;     /* (input_count) files that the job reads; not all need to be there */
    int input_count; /* LAUNCH_INPUTS_MAX at most */
} launch_out_options;

typedef struct launch_out_directory {
    int fd; /* holds the lock */
    bool overwrite;
    bool holds_record;  /* an older one */
    size_t stood_bytes; /* so much of path was there before open */
    int input_count;    /* of the inputs that lie in the directory */
    char path[BASE_PATH_BYTES];
    char moved_to[BASE_PATH_BYTES + 16]; /* where the older record is now; empty: there was none */
    char inputs[LAUNCH_INPUTS_MAX][BASE_PATH_BYTES]; /* below path */
} launch_out_directory;

/* Makes the directory where it is missing and takes it; changes nothing in it. BASE_ERR_BUSY names
 * the process that has it; BASE_ERR_INVALID when it holds other things than a record, or when the
 * job would write over what it reads or logs there. */
BASE_MUST_CHECK base_status launch_out_directory_open(const launch_out_options *options,
                                                      launch_out_directory *directory,
                                                      base_error *reterr);

/* The job has begun: with overwrite, the files of an older record are removed, but for the inputs,
 * and what else lies there stays; without, the directory is moved to PATH.1, or the next number
 * that is free, and links to the inputs are left. */
BASE_MUST_CHECK base_status launch_out_directory_make_way(launch_out_directory *directory,
                                                          base_error *reterr);

/* The job has ended: removes the links that no new file has replaced. */
void launch_out_directory_settle(launch_out_directory *directory);

/* The job never began: removes the directories that open has made, where nothing was put into
 * them. */
void launch_out_directory_discard(launch_out_directory *directory);

/* Releases the lock. */
void launch_out_directory_close(launch_out_directory *directory);

/* path/name in the caller's buffer. */
void launch_out_directory_path(const launch_out_directory *directory, const char *name,
                               char path[BASE_PATH_BYTES + 64]);

#endif
