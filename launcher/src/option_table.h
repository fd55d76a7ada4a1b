/* Every flag of the launcher in one table: parsing and --help both come from it. */
#ifndef LAUNCH_OPTION_TABLE_H
#define LAUNCH_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { LAUNCH_FLAGS_MAX = 96 };

typedef enum launch_flag_kind {
    LAUNCH_KIND_SWITCH,  /* no value */
    LAUNCH_KIND_FIELD,   /* a field of the job, by its key */
    LAUNCH_KIND_PATH,    /* the same, made an absolute path */
    LAUNCH_KIND_SECONDS, /* the same, in milliseconds */
    LAUNCH_KIND_PROMPT,
    LAUNCH_KIND_SCALING,
    LAUNCH_KIND_LOG_DIR,
    LAUNCH_KIND_WRITE_JOB,
    LAUNCH_KIND_JOB,
    LAUNCH_KIND_RESTARTS,
    LAUNCH_KIND_BUDGET_PATH, /* a member of launch_budget_options, by offset and size */
    LAUNCH_KIND_BUDGET_TEXT,
    LAUNCH_KIND_BUDGET_COUNT,
    LAUNCH_KIND_BUDGET_PRICE,
    LAUNCH_KIND_BUDGET_HOURS,
    LAUNCH_KIND_BUDGET_REDEEM,
} launch_flag_kind;

/* Which switch; or a mark of a field. */
typedef enum launch_flag_what {
    LAUNCH_FLAG_NONE = 0,
    LAUNCH_FLAG_DRY_RUN,
    LAUNCH_FLAG_QUIET,
    LAUNCH_FLAG_NO_BIND,
    LAUNCH_FLAG_OVERWRITE,
    LAUNCH_FLAG_NO_PLOTS,
    LAUNCH_FLAG_NO_SCALING,
    LAUNCH_FLAG_EVAL,
    LAUNCH_FLAG_HELP,
    LAUNCH_FLAG_VERSION,
    LAUNCH_FLAG_SHAPE, /* of the model: a checkpoint has its own */
} launch_flag_what;

typedef struct launch_flag {
    const char *name;
    launch_flag_kind kind;
    launch_flag_what what;
    const char *key; /* of proto_job */
    size_t offset;   /* of a budget flag's member */
    size_t size_bytes;
    const char *value; /* its name in --help; NULL: none */
    const char *help;
    const char *group; /* set on the first of a group */
    bool for_programs; /* also with "-- PROGRAM" */
} launch_flag;

const launch_flag *launch_flags(int *count);

#endif
