/* The matrix products of one training step, alone: the same shapes, chunks, transpositions and
 * number, on memory of the same size. Linear layers and logits by the same operations as the
 * model's; attention's by the model's own kernel, without softmax and without copying heads
 * together. */
#ifndef RANK_BENCH_PRODUCTS_H
#define RANK_BENCH_PRODUCTS_H

#include <stdint.h>

#include "base/status.h"
#include "rank/model.h"

typedef struct bench_products bench_products;

BASE_MUST_CHECK base_status bench_products_create(const rank_model_config *config,
                                                  const rank_device *device, int rows,
                                                  bench_products **products, base_error *reterr);
void bench_products_destroy(bench_products *products);

/* One step's products. *attention_ns: attention's part of the time. */
BASE_MUST_CHECK base_status bench_products_run(bench_products *products, int64_t *attention_ns,
                                               base_error *reterr);

/* Puts calm values back, so that results neither grow nor vanish over many runs. Not measured. */
void bench_products_reset(bench_products *products);

/* Floating-point operations of the linear layers and logits in one step. */
double bench_products_flop(const bench_products *products);

#endif
