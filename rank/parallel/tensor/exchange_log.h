/* When one rank entered and left each exchange with the ranks that share a model with it.
 *
 * Caller's storage. The log drops what does not fit, and says so. One thread. */
#ifndef RANK_PARALLEL_TENSOR_EXCHANGE_LOG_H
#define RANK_PARALLEL_TENSOR_EXCHANGE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By base_now_ns: ranks of one host share that clock. */
typedef struct rank_span {
    int64_t begin_ns;
    int64_t end_ns;
} rank_span;

typedef struct rank_exchange_log {
    rank_span *spans; /* (capacity) */
    size_t capacity;
    size_t count;
    bool overflowed; /* some did not fit */
} rank_exchange_log;

static inline void rank_exchange_log_add(rank_exchange_log *log, rank_span span)
{
    if (log->count < log->capacity) {
        log->spans[log->count++] = span;
    } else {
        log->overflowed = true;
    }
}

#endif
