/* Mixtures of experts: the arguments of the operations that route rows to experts and bring their
 * results together. Included by backend.h and by the CPU's kernels.
 *
 * E = experts, K = experts that each row goes to. A row's choices are its K experts in ascending
 * order. A place is one row at one of its experts: there are rows · K of them, sorted by expert and
 * then by row. So an expert's rows stand together, and one product takes them all. */
#ifndef RANK_BACKEND_EXPERTS_H
#define RANK_BACKEND_EXPERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANK_EXPERTS_MAX = 512 };

/* Which rows go where: what route makes. The host reads `begins`. */
typedef struct rank_routing {
    float *scores;    /* (rows, E): the router's logits, then their softmax */
    float *weights;   /* (rows, K): of the choices' results in the row's */
    int32_t *choices; /* (rows, K): experts */
    int32_t *places;  /* (rows, K): where each choice stands */
    int32_t *at;      /* (rows · K): the choice at each place, row · K + number of the choice */
    int32_t *begins;  /* (E + 1): the first place of each expert; the last: rows · K */
} rank_routing;

/* From logits in `scores` to all of a routing. The K largest logits of a row are its choices; among
 * equal ones the lower expert comes first. */
typedef struct rank_route {
    size_t rows;
    size_t experts;
    size_t chosen;
    bool normed; /* a row's weights are divided by their sum */
    const rank_routing *routing;
} rank_route;

/* dlogits (rows, E) = the gradient of the router's logits. */
typedef struct rank_route_grad {
    size_t rows;
    size_t experts;
    size_t chosen;
    bool normed;
    const rank_routing *routing;
    const float *dweights; /* (rows, K) */
    const float *dscores;  /* (E): added to the gradient of each row's softmax; NULL: nothing is */
    float *dlogits;
} rank_route_grad;

/* to (count, width) = the rows of `from` at the places that `at` begins with. */
typedef struct rank_take_places {
    size_t count;
    size_t width;
    size_t chosen;
    const int32_t *at; /* of a routing, from some place on */
    const float *from; /* (rows, width) */
    float *to;
} rank_take_places;

/* to (rows, width) = the sum over a row's choices, in their order, of weight · its place's row. */
typedef struct rank_add_places {
    size_t rows;
    size_t width;
    size_t chosen;
    const int32_t *places;
    const float *weights; /* (rows, K); NULL: ones */
    const float *from;    /* (rows · K, width) */
    float *to;
} rank_add_places;

/* products[choice] = the product of the place's rows of a and b: a balanced tree over equal leaves
 * of the width. */
typedef struct rank_dot_places {
    size_t count;
    size_t width;
    int leaves; /* a power of two up to RANK_LEAVES_MAX that divides width */
    const int32_t *at;
    const float *a;
    const float *b;
    float *products; /* (rows, K) */
} rank_dot_places;

/* Each place's row is multiplied by its choice's weight. */
typedef struct rank_weigh_places {
    size_t count;
    size_t width;
    const int32_t *at;
    const float *weights; /* (rows, K) */
    float *rows;          /* (count, width) */
} rank_weigh_places;

/* One expert's share of one layer's rows. */
typedef struct rank_load {
    double rows;   /* that chose it */
    double scores; /* the sum of all rows' */
} rank_load;

typedef struct rank_measure_loads {
    size_t rows;
    size_t experts;
    const rank_routing *routing;
    rank_load *loads; /* (E), written */
} rank_measure_loads;

/* The loss that spreads rows evenly (Fedus et al. 2021, equations 4 to 6), over some layers that have routed
 * `rows` rows together: *loss = targets · E · Σ of (an expert's rows / rows) · (its scores / rows). dscores
 * (E) = factor · its gradient by a score. */
typedef struct rank_router_loss {
    size_t layers;
    size_t experts;
    size_t rows;
    size_t targets;
    double factor;
    const rank_load *loads; /* (layers, E) */
    double *loss;
    float *dscores;
} rank_router_loss;

#endif
