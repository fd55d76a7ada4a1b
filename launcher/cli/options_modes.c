/* Refuses flags that the job's mode does not use. The tables of options say by marks who uses a
 * flag. Called by options.c. */
#include "cli/options_modes.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { USERS_BYTES = 256 };

/* The modes that a mark stands for. */
static const struct {
    unsigned mark;
    const char *modes;
} kinds[] = {
    {PROTO_FIELD_TRAINS, "modes that train"},
    {PROTO_FIELD_DATA_PARALLEL, "data parallel modes"},
    {PROTO_FIELD_ANSWERS, "modes that answer"},
    {PROTO_FIELD_ANSWERS_ON_CPUS, "modes on CPUs that answer"},
    {PROTO_FIELD_TENSOR_PARALLEL, "tensor parallel modes"},
    {PROTO_FIELD_GPUS, "modes on GPUs"},
    {PROTO_FIELD_TRACE, "modes whose steps are traced"},
    {PROTO_FIELD_RECORDS, "modes that leave a record"},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static bool stands_for(unsigned mark, const proto_mode_row *mode)
{
    return mark == PROTO_FIELD_TRAINS            ? mode->trains
           : mark == PROTO_FIELD_DATA_PARALLEL   ? mode->trains && !mode->pipelined
           : mark == PROTO_FIELD_ANSWERS         ? mode->answers
           : mark == PROTO_FIELD_ANSWERS_ON_CPUS ? mode->answers && !mode->on_gpus
           : mark == PROTO_FIELD_TENSOR_PARALLEL ? mode->tensor_parallel
           : mark == PROTO_FIELD_GPUS            ? mode->on_gpus
           : mark == PROTO_FIELD_TRACE           ? mode->trace > 0
                                                 : mode->record != PROTO_RECORD_NONE;
}

static bool is_used(const base_field *row, const proto_job *job)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    bool for_all = (row->marks & PROTO_FIELD_EVALUATES) == 0;
    for (size_t i = 0; i < KINDS; i++) {
        const bool marked = (row->marks & kinds[i].mark) != 0;
        if (marked && stands_for(kinds[i].mark, mode)) {
            return true;
        }
        for_all = for_all && !marked;
    }
    /* several pipelines are replicas, too, and one is not */
    if ((row->marks & PROTO_FIELD_BUCKETS) != 0 && mode->pipelined && proto_job_copies(job) > 1) {
        return true;
    }
    return for_all || ((row->marks & PROTO_FIELD_EVALUATES) != 0 && job->infer.eval);
}

static void add(char users[USERS_BYTES], const char *between, const char *text)
{
    base_text_append(users, USERS_BYTES, "%s%s", between, text);
}

/* "modes that answer (generate, tp-cpu, tp-nccl), or with --eval" */
static void describe_users(const base_field *row, char users[USERS_BYTES])
{
    users[0] = '\0';
    for (size_t i = 0; i < KINDS; i++) {
        const char *between = " (";
        if ((row->marks & kinds[i].mark) == 0) {
            continue;
        }
        add(users, users[0] != '\0' ? ", or with " : "", kinds[i].modes);
        for (int mode = 0; mode < PROTO_MODE_COUNT; mode++) {
            if (stands_for(kinds[i].mark, proto_mode_get((proto_mode)mode))) {
                add(users, between, proto_mode_name(mode));
                between = ", ";
            }
        }
        add(users, "", ")");
    }
    if ((row->marks & PROTO_FIELD_BUCKETS) != 0) {
        add(users, ", or with ", "several pipelines (pp-cpu)");
    }
    if ((row->marks & PROTO_FIELD_EVALUATES) != 0) {
        add(users, users[0] != '\0' ? ", or with " : "", "--eval");
    }
}

bool launch_options_given(const launch_options *options, const char *option)
{
    for (int i = 0; i < options->given_count; i++) {
        if (strcmp(options->given[i]->option, option) == 0) {
            return true;
        }
    }
    return false;
}

base_status launch_options_check_modes(const launch_options *options, base_error *reterr)
{
    for (int i = 0; i < options->given_count; i++) {
        const base_field *row = options->given[i];
        char users[USERS_BYTES];
        if (!is_used(row, &options->job)) {
            describe_users(row, users);
            return base_fail(reterr, BASE_ERR_INVALID, "--%s goes with %s", row->option, users);
        }
    }
    return BASE_OK;
}
