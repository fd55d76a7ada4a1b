/* The members of a run of rank_generate. Shared by generate.c, generate_report.c and serve.c. */
#ifndef RANK_GENERATE_GENERATION_H
#define RANK_GENERATE_GENERATION_H

#include "generate/engine.h"
#include "generate/generate.h"
#include "generate/work.h"
#include "proto/limits.h"

/* When a request's tokens were there, by this rank's clock. */
typedef struct pace {
    uint64_t request_id;
    int64_t began_ns; /* the first step began that computes for it */
    int64_t first_ns;
    int64_t last_ns;
    uint64_t drawn;
} pace;

struct rank_serving; /* serve.h */

typedef struct generation {
    const rank_generate_options *options;
    bool decides;     /* this is rank 0 */
    size_t count;     /* of prompts so far; 0 on other ranks */
    rank_work *works; /* (works_room): prompt i is works[i], or where serve.c put it */
    size_t works_room;
    uint64_t first_id; /* earlier ids are warm-up: request first_id + i is prompt i */
    pace *paces; /* (pace_room): on every rank, of the last PROTO_PROMPTS_MAX requests at most */
    size_t pace_room;
    size_t pace_count; /* requests that have begun */
    bool no_memory;
    rank_step_trace *trace; /* NULL: none */
    bool warm;
    rank_engine_costs cold; /* the costs of warm-up */
    size_t submitted;
    size_t answered;
    int64_t step_began_ns;
    rank_engine *engine;
    struct rank_serving *serving; /* of requests that come meanwhile; NULL: none do */
} generation;

/* ---- generate.c ---- */

/* Submits the work of the next prompt. The texts end as the options say, and by the request's own
 * stop tokens. */
BASE_MUST_CHECK base_status generation_submit(generation *g, const rank_work *work,
                                              rank_request *request, base_error *reterr);

/* The stop tokens of the checkpoint, and the work's own. */
void generation_add_stops(const rank_generate_options *options, const rank_work *work,
                          rank_request *request);

/* ---- generate_report.c ---- */

/* What it took so far, without warm-up. */
void generation_write_memory(const generation *g, rank_generate_report *report);

/* The same with the times. */
void generation_write_report(const generation *g, rank_generate_report *report);

#endif
