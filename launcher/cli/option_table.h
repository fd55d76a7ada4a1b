/* The launcher's own options. Those of the job's fields are proto_job_fields. */
#ifndef LAUNCH_OPTION_TABLE_H
#define LAUNCH_OPTION_TABLE_H

#include "proto/job.h"

/* Bits of base_field.marks. They follow those of proto_job_fields, which are used here as well. */
enum {
    LAUNCH_MARK_BUDGET = PROTO_FIELDS_FREE,     /* for a mode that may cost money */
    LAUNCH_MARK_JOB = PROTO_FIELDS_FREE << 1,   /* sets a field of JOB.json */
    LAUNCH_MARK_HOSTS = PROTO_FIELDS_FREE << 2, /* for several hosts */
};

/* The options of launch_options. */
extern const base_fields launch_option_fields;

#endif
