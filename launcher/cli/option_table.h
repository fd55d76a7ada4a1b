/* The launcher's own options, beside those of the job's fields (proto_job_fields). */
#ifndef LAUNCH_OPTION_TABLE_H
#define LAUNCH_OPTION_TABLE_H

#include "base/options.h"
#include "proto/job.h"

/* Bits of base_field.marks, behind those of proto_job_fields, which count here as well. */
enum {
    LAUNCH_MARK_BUDGET = PROTO_FIELDS_FREE,   /* goes with a mode that may cost money */
    LAUNCH_MARK_JOB = PROTO_FIELDS_FREE << 1, /* says what stands in JOB.json */
};

/* Of launch_options. */
extern const base_fields launch_option_fields;

#endif
