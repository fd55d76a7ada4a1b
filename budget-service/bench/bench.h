/* What budget-bench measures; each benchmark prints its own lines. */
#ifndef BUDGET_BENCH_H
#define BUDGET_BENCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct budget_benchmark {
    const char *name;
    const char *what;
    int (*run)(void);    /* an exit code */
    int only_when_named; /* it takes minutes */
} budget_benchmark;

int bench_verify(void);
int bench_authorizations(void);
int bench_million(void);

#endif
