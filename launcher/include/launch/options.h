/* The command line. launch_options_parse reads only the command line. launch_options_complete looks
 * at files (the tokenizer, a checkpoint) and completes the job. launch_options_check checks the
 * completed values together. So complete refuses what is wrong with a file, and the other two
 * refuse what is wrong with a flag. */
#ifndef LAUNCH_OPTIONS_H
#define LAUNCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/options.h"
#include "base/status.h"
#include "launch/hosts.h"
#include "launch/limits.h"
#include "proto/job.h"

typedef enum launch_action {
    LAUNCH_ACTION_RUN = 0,
    LAUNCH_ACTION_HELP,
    LAUNCH_ACTION_VERSION,
    LAUNCH_ACTION_COMPARE,
    LAUNCH_ACTION_GPUS,
    LAUNCH_ACTION_JOB_KEY,
} launch_action;

enum {
    LAUNCH_BUDGET_NAME_BYTES = 128,
    LAUNCH_SERVE_TEXT_BYTES = 300,
    LAUNCH_SERVE_NAME_BYTES = 128
};

/* What --prompts - prints. */
typedef enum launch_stream { LAUNCH_STREAM_TEXT, LAUNCH_STREAM_JSON } launch_stream;

/* The options of modes that may cost money. Texts that were not given are empty, and numbers 0. */
typedef struct launch_budget_options {
    char token[BASE_PATH_BYTES];
    char authorize[LAUNCH_BUDGET_NAME_BYTES]; /* dollars, or "local" */
    char account[LAUNCH_BUDGET_NAME_BYTES];
    char label[LAUNCH_BUDGET_NAME_BYTES];
    char dir[BASE_PATH_BYTES];     /* of the service; empty: its default */
    char key[BASE_PATH_BYTES];     /* the client's; empty: DIR's request key */
    char keyring[BASE_PATH_BYTES]; /* to verify with */
    char receipts[BASE_PATH_BYTES];
    char vendor[LAUNCH_BUDGET_NAME_BYTES];
    char instance_type[LAUNCH_BUDGET_NAME_BYTES];
    char tier[LAUNCH_BUDGET_NAME_BYTES];
    int64_t instances;
    int64_t gpus;
    int64_t max_price_usd_micro; /* per hour and instance */
    int64_t max_seconds;
} launch_budget_options;

typedef struct launch_options {
    launch_action action;
    proto_job job;
    const char *compare[2];  /* of the command line */
    const char *new_job_key; /* make-job-key: the file to write */
    launch_hosts_options hosts;
    char *const *program;            /* behind "--", ended by NULL; NULL: the rank program runs */
    char log_dir[BASE_PATH_BYTES];   /* absolute; empty: none */
    char root[BASE_PATH_BYTES];      /* --root: of the job's relative paths; empty: none */
    char write_job[BASE_PATH_BYTES]; /* absolute; empty: none */
    char job_file[BASE_PATH_BYTES];  /* --job: the whole configuration; empty: the flags' */
    launch_budget_options budget;
    const char *prompts[LAUNCH_PROMPTS_MAX]; /* of --prompt, each; of the command line */
    int prompt_count;
    launch_stream stream;
    bool standard_input;                 /* --prompts - */
    char serve[LAUNCH_SERVE_TEXT_BYTES]; /* --serve HOST:PORT; empty: not given */
    char serve_key_file[BASE_PATH_BYTES];
    bool serve_open;
    char serve_origin[LAUNCH_SERVE_TEXT_BYTES];      /* empty: not given */
    char served_model_name[LAUNCH_SERVE_NAME_BYTES]; /* empty: the last part of a path */
    int64_t serve_drain_ms;                          /* 0: not given */
    const base_field *given[BASE_OPTIONS_MAX]; /* the options of the command line, each once */
    int given_count;
    const char *budget_flag; /* the first of its flags that was given; NULL: none */
    const char *field_flag;  /* the first flag given that sets a field of the job */
    const char *hosts_flag;  /* the first flag given that goes with several hosts only */
    const char *job_flag;    /* the first flag given that an agent leaves to the head */
    int64_t max_restarts;
    bool json; /* of gpus */
    bool dry_run;
    bool quiet;
    bool bind;
    bool overwrite;
    bool scaling;      /* false: --no-scaling */
    int scaling_count; /* of --scaling; 0: not given */
    int scaling_ranks[LAUNCH_SCALING_POINTS_MAX];
    const char *not_for_programs; /* the first flag given that only our own modes know */
    bool ranks_given;             /* --ranks */
    bool seed_given;              /* --seed */
    bool buckets_given;           /* --bucket-bytes */
    bool trace_given;             /* --trace */
    bool mode_given;              /* --mode */
    bool shape_given;             /* --width, --layers or --heads */
    bool context_given;           /* --context */
    char shape_differs[256];      /* how the checkpoint's shape differs from what these flags say */
    bool installed_data;          /* training data and tokenizer are the installed ones */
} launch_options;

/* Sets the values that hold without any flag. */
void launch_options_defaults(launch_options *options);

/* If anything is wrong, BASE_ERR_INVALID with one line for the user. */
BASE_MUST_CHECK base_status launch_options_parse(int argc, char **argv, launch_options *options,
                                                 base_error *reterr);

/* Fills in default files, the vocabulary's size from the tokenizer, and the model's shape from a
 * checkpoint. Makes --out a path without links, "." and "..". Checks that the files that the job
 * reads exist. */
BASE_MUST_CHECK base_status launch_options_complete(launch_options *options, base_error *reterr);

/* Whether the completed job's values go together. BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_options_check(const launch_options *options, base_error *reterr);

void launch_options_help(FILE *stream);

#endif
