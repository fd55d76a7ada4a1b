/* The output directory. It is locked first. An older record in it is moved away or removed only
 * when the job has begun.
 *
 * So a job that fails while it starts leaves everything as it was. The job may read files in the
 * directory (a checkpoint, a tokenizer). They can be read under their names all the time: if the
 * older record is moved, links replace them until finish; if it is overwritten, they stay until a
 * new file takes their name. The lock is flock(2) on the directory itself, so it leaves nothing
 * behind, and it ends with the process. A directory is an older record if it has manifest.json,
 * timings.jsonl or checkpoints. */
#ifndef LAUNCH_OUT_DIRECTORY_H
#define LAUNCH_OUT_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

enum {
    LAUNCH_RECORDS_KEPT_MAX = 9999, /* OUT.1 … OUT.9999 */
    LAUNCH_INPUTS_MAX = 11,         /* files that a job reads */
};

typedef struct launch_out_options {
    const char *path;
    bool overwrite;
    bool
        goes_on; /* the older record is that of the same training: it stays, for clear is not called */
    bool needs_model;    /* what the job writes is of no use without the model that it reads */
    const char *log_dir; /* written before the job has begun; NULL: none */
    const char *const *inputs; /* (input_count) files that the job reads; some may not exist */
    int input_count;           /* LAUNCH_INPUTS_MAX at most */
} launch_out_options;

typedef struct launch_out_directory {
    int fd; /* holds the lock */
    bool overwrite;
    bool holds_record;  /* of an earlier run */
    size_t stood_bytes; /* the length of the part of path that existed before open */
    int input_count;    /* of the inputs that are in the directory */
    char path[BASE_PATH_BYTES];
    char moved_to[BASE_PATH_BYTES + 16]; /* where the older record is now; empty: there was none */
    char inputs[LAUNCH_INPUTS_MAX][BASE_PATH_BYTES]; /* below path */
} launch_out_directory;

/* Makes the directory at path if it is missing, and locks it until *fd is closed. BASE_ERR_BUSY
 * names the process that has it. */
BASE_MUST_CHECK base_status launch_out_directory_lock(const char *path, int *fd,
                                                      base_error *reterr);

/* Makes the directory if it is missing, and locks it, but changes nothing in it. BASE_ERR_BUSY
 * names the process that has it. BASE_ERR_INVALID if it holds other things than a record, or if the
 * job would overwrite what it reads or logs there. */
BASE_MUST_CHECK base_status launch_out_directory_open(const launch_out_options *options,
                                                      launch_out_directory *directory,
                                                      base_error *reterr);

/* What the job will write. */
typedef struct launch_out_need {
    uint64_t results_bytes;       /* at its end */
    uint64_t checkpoint_bytes;    /* of one */
    uint64_t checkpoints_written; /* in all */
    uint64_t checkpoints_kept;    /* at most */
    bool goes_on;                 /* its checkpoints so far are removed as others come */
} launch_out_need;

/* Whether the disk has room for what the job will write. BASE_ERR_LIMIT: it has not. */
BASE_MUST_CHECK base_status launch_out_directory_check_room(const launch_out_directory *directory,
                                                            const launch_out_need *need,
                                                            base_error *reterr);

/* A training goes on: removes the states of ranks that it has no more. */
BASE_MUST_CHECK base_status launch_out_directory_drop_states(const launch_out_directory *directory,
                                                             int world_size, base_error *reterr);

/* The job has begun. With overwrite, removes the files of an older record except the inputs, and
 * leaves everything else. Without, moves the directory to PATH.1, or the next free number, and
 * makes links to the inputs. */
BASE_MUST_CHECK base_status launch_out_directory_clear(launch_out_directory *directory,
                                                       base_error *reterr);

/* The job has ended. Removes the links that no new file has replaced. */
void launch_out_directory_finish(launch_out_directory *directory);

/* The job never began. Removes the directories that open has made, if they are empty. */
void launch_out_directory_discard(launch_out_directory *directory);

/* Releases the lock. */
void launch_out_directory_close(launch_out_directory *directory);

#endif
