/* coll-bench's results as JSON; docs/BENCHMARKS.md describes the object. */
#ifndef COLL_BENCH_JSON_H
#define COLL_BENCH_JSON_H

#include "bench.h"

/* Whether the results could be written there. COLL_ERR_UNSUPPORTED: this build writes no JSON. */
COLL_MUST_CHECK coll_status bench_json_check(const char *path, coll_error *reterr);

/* Makes path hold the results, whole or not at all. COLL_ERR_IO, COLL_ERR_MEMORY. */
COLL_MUST_CHECK coll_status bench_json_write(const char *path, const bench_options *options,
                                             const bench_shared *shared,
                                             const bench_roofline *roofline, coll_error *reterr);

#endif
