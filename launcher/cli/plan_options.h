/* The command line of `launcher plan`. */
#ifndef LAUNCH_PLAN_OPTIONS_H
#define LAUNCH_PLAN_OPTIONS_H

#include <stdio.h>

#include "plan/plan.h"

typedef struct launch_plan_options {
    launch_ask ask;
    int model;                        /* of launch_model_name */
    int device;                       /* of launch_device_name */
    launch_model model_of;            /* what --layers … say; 0: as the model has */
    char checkpoint[BASE_PATH_BYTES]; /* whose shape it is; empty: the model's */
    double teraflops;                 /* 0: as the device has */
    double memory_gigabytes;
    double memory_gigabytes_per_s;
    coll_tp_link inside;
    coll_tp_link between;
    int64_t host_ranks;
    int64_t ranks;
    launch_layout layout; /* 0: any */
    char lora_targets[PROTO_LORA_TARGETS_BYTES];
    int64_t price_micro_per_hour;
    int64_t steps;
    int64_t granularity_s;
    char picture[BASE_PATH_BYTES];
    bool json;
    bool help;
    struct { /* which options were given */
        bool model;
        bool schedule;
        bool global_batch;
    } given;
} launch_plan_options;

/* Reads the arguments behind "plan", argv[0], and completes `ask` from them. */
BASE_MUST_CHECK base_status launch_plan_options_parse(int argc, char **argv,
                                                      launch_plan_options *options,
                                                      base_error *reterr);
void launch_plan_options_help(FILE *stream);

#endif
