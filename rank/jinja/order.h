/* Sorting, by which equal items stay in their order. */
#ifndef RANK_JINJA_ORDER_H
#define RANK_JINJA_ORDER_H

#include "value.h"

/* A copy of the pairs by their keys. Fails if two keys have no order. */
jinja_pair *jinja_sort_pairs(jinja_work *work, const jinja_dict *dict);

/* Sorts (count) values by the pairs' keys. reverse: the greatest first; those that are equal stay in their order. */
void jinja_sort(jinja_work *work, jinja_pair *pairs, size_t count, bool reverse);

#endif
