/* The launcher's modes, one row each: what a mode may do, and what it leaves behind.
 *
 * A mode's name becomes a proto_mode at the command line and in JOB.json. After that all code reads
 * the row, and none compares names. To add a mode: an enum value, its row in mode.c, and its
 * function in rank/src/modes.c.
 *
 * Pure; thread safe. */
#ifndef PROTO_MODE_H
#define PROTO_MODE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum proto_mode {
    PROTO_MODE_DDP_CPU,
    PROTO_MODE_GENERATE,
    PROTO_MODE_TP_CPU,
    PROTO_MODE_PROGRAM, /* a user's program, behind "--" */
    PROTO_MODE_GATE_CHECK,
    PROTO_MODE_DDP_NCCL,
    PROTO_MODE_TP_NCCL,
    PROTO_MODE_BENCH_NCCL,
    PROTO_MODE_PP_CPU,
    PROTO_MODE_COUNT,
} proto_mode;

/* The record that a job leaves in --out. */
typedef enum proto_record_kind {
    PROTO_RECORD_NONE,
    PROTO_RECORD_INFERENCE, /* results.json, written by rank 0 */
    PROTO_RECORD_TRAINING,  /* timings.jsonl, manifest.json, states, the model */
} proto_record_kind;

typedef struct proto_mode_row {
    const char *name;
    bool costs_money;         /* call proto_mode_costs_money instead, which checks more */
    bool trains;              /* reads data, reports Ready and each Step */
    bool answers;             /* takes prompts */
    bool on_gpus;             /* each rank computes on a GPU of its own; else on CPUs */
    bool measures;            /* takes coll-bench's flags */
    bool tensor_parallel;     /* all ranks hold one model together; false: each has its own */
    bool pipelined;           /* each rank holds some layers: a stage of one model that trains */
    bool may_restart;         /* --max-restarts: starting again loses nothing */
    proto_record_kind record; /* kept in --out; proto_job_record says whether a job keeps it */
    const char *lab;          /* "lab" in the record; NULL: the mode has no record */
    const char *out;          /* the default of --out; NULL: the mode reads and writes none */
    const char
        *checkpoint; /* the default of --checkpoint; NULL: none, or of a mode that answers --out */
    int64_t seed;    /* the default of --seed; 0: the job's (proto_job_defaults) */
    int64_t bucket_bytes; /* of --bucket-bytes; 0: the job's */
    int64_t trace;        /* of --trace; 0: the mode's steps are not traced */
    int ranks;            /* the default of --ranks */
    int ranks_min;        /* world sizes allowed */
    int ranks_max;
} proto_mode_row;

/* mode < PROTO_MODE_COUNT. */
const proto_mode_row *proto_mode_get(proto_mode mode);

/* NULL if mode is not in [0, PROTO_MODE_COUNT). Names of an enum field (base/fields.h). */
const char *proto_mode_name(int mode);

/* Whether a mode may cost money. If so, its ranks pass the gate (rank/gate.h) before anything else.
 *
 * A mode costs money if its row says so, if it has no row (NULL), or if its name ends in -nccl,
 * whatever the row says. */
bool proto_mode_costs_money(proto_mode mode);
bool proto_mode_row_costs_money(const proto_mode_row *row);

#endif
