/* The instances of one label that are known. Plain data; pure but for the clock of the cost. */
#ifndef RENT_HELD_H
#define RENT_HELD_H

#include <stdbool.h>

#include "budget/claims.h"
#include "instance.h"

typedef struct rent_held {
    rent_instance items[BUDGET_INSTANCES_MAX];
    int64_t gone_at_s[BUDGET_INSTANCES_MAX]; /* when the vendor said that it is gone; 0: not yet */
    int count;
} rent_held;

/* Adds an instance that is not known, or what is said of a known one. False: there is no room. */
bool rent_hold(rent_held *held, const rent_instance *instance);

/* NULL: it is not known. */
rent_instance *rent_held_find(rent_held *held, const char *id);

/* Takes one off that is no instance of the label. */
void rent_held_drop(rent_held *held, rent_instance *instance);

/* Price × time of each instance, from began_s on until it was gone, in micro-dollars; the granted price where the
 * vendor has said none. Negative: not known, because an order may have made one that nobody has seen. */
int64_t rent_held_cost(const rent_held *held, int64_t ordered, int64_t price_micro_per_hour,
                       int64_t began_s);

#endif
