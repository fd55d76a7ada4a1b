/* Keeps the instances of a label, and says what they cost. Called by rent.c, end.c, directory.c and cli/rent.c. */
#include "held.h"

#include <string.h>

#include "budget/money.h"
#include "clock.h"

rent_instance *rent_held_find(rent_held *held, const char *id)
{
    for (int i = 0; i < held->count; i++) {
        if (strcmp(held->items[i].id, id) == 0) {
            return &held->items[i];
        }
    }
    return NULL;
}

bool rent_hold(rent_held *held, const rent_instance *instance)
{
    rent_instance *known = rent_held_find(held, instance->id);
    if (known == NULL && held->count == BUDGET_INSTANCES_MAX) {
        return false;
    }
    if (known == NULL) {
        held->gone_at_s[held->count] = 0;
        held->items[held->count++] = *instance;
    } else if (instance->shown) {
        rent_instance_show(known, instance);
    } else if (known->name[0] == '\0') {
        memcpy(known->name, instance->name, sizeof known->name);
    }
    return true;
}

void rent_held_drop(rent_held *held, rent_instance *instance)
{
    held->count--;
    memmove(instance, instance + 1,
            (size_t)(held->items + held->count - instance) * sizeof *instance);
}

int64_t rent_held_cost(const rent_held *held, int64_t ordered, int64_t price_micro_per_hour,
                       int64_t began_s)
{
    int64_t sum = 0;
    if (held->count < ordered) {
        return -1;
    }
    for (int i = 0; i < held->count; i++) {
        int64_t micro = 0;
        const int64_t said = held->items[i].price_usd_micro;
        const int64_t gone_s = held->gone_at_s[i] != 0 ? held->gone_at_s[i] : rent_time_s();
        if (!budget_money_cost(said >= 0 ? said : price_micro_per_hour, 1, gone_s - began_s,
                               &micro)) {
            return -1;
        }
        sum += micro;
    }
    return sum;
}
