/* What this host's memory allows: the ceiling beside which coll-bench's figures stand. */
#ifndef COLL_BENCH_ROOFLINE_H
#define COLL_BENCH_ROOFLINE_H

#include "bench.h"

/* Takes about 0.3 s. Threads of its own, one to a processor, at most `processors_max` of them; all
 * have ended when it returns. Figures that could not be measured are 0. */
bench_roofline bench_roofline_measure(int processors_max);

#endif
