/* Generates pairwise combinations of factors. test_grid.c takes its cases from it. */
#include "grid_pairs.h"

#include <stdint.h>
#include <string.h>

#include "random.h"

enum { CANDIDATES = 20 };

typedef struct generator {
    const int *level_counts;
    int factors;
    pair_allowed allowed;
    uint64_t random;
    bool met[PAIR_FACTORS_MAX][PAIR_LEVELS_MAX][PAIR_FACTORS_MAX][PAIR_LEVELS_MAX];
} generator;

static int draw(generator *g, int below)
{
    return (int)test_random_below(&g->random, (uint32_t)below);
}

/* Pairs not met yet that this level would make with what is chosen. */
static int gain(const generator *g, const pair_row *row, int factor, int level)
{
    int count = 0;
    for (int f = 0; f < g->factors; f++) {
        if (f != factor && row->levels[f] >= 0) {
            count += !g->met[factor][level][f][row->levels[f]];
        }
    }
    return count;
}

/* Fills what is open, each factor with the level that gains most; false if none is allowed. */
static bool complete(generator *g, pair_row *row)
{
    const int first = draw(g, g->factors);
    for (int i = 0; i < g->factors; i++) {
        const int factor = (first + i) % g->factors;
        const int count = g->level_counts[factor];
        int best = -1;
        int best_gain = -1;
        if (row->levels[factor] >= 0) {
            continue;
        }
        const int offset = draw(g, count);
        for (int l = 0; l < count; l++) {
            pair_row tried = *row;
            tried.levels[factor] = (offset + l) % count;
            const int gained = gain(g, row, factor, tried.levels[factor]);
            if (gained > best_gain && g->allowed(&tried, g->factors)) {
                best = tried.levels[factor];
                best_gain = gained;
            }
        }
        if (best < 0) {
            return false;
        }
        row->levels[factor] = best;
    }
    return true;
}

static int total_gain(const generator *g, const pair_row *row)
{
    int sum = 0;
    for (int f = 0; f < g->factors; f++) {
        sum += gain(g, row, f, row->levels[f]);
    }
    return sum;
}

static void meet(generator *g, const pair_row *row)
{
    for (int a = 0; a < g->factors; a++) {
        for (int b = 0; b < g->factors; b++) {
            g->met[a][row->levels[a]][b][row->levels[b]] = true;
        }
    }
}

/* The best of some rows that begin with the pair; false if the pair may not be. */
static bool row_for(generator *g, int a, int level_a, int b, int level_b, pair_row *best)
{
    int best_gain = -1;
    for (int i = 0; i < CANDIDATES; i++) {
        pair_row row;
        memset(&row, 0xff, sizeof row);
        row.levels[a] = level_a;
        row.levels[b] = level_b;
        if (!g->allowed(&row, g->factors) || !complete(g, &row)) {
            return best_gain >= 0;
        }
        const int gained = total_gain(g, &row);
        if (gained > best_gain) {
            best_gain = gained;
            *best = row;
        }
    }
    return true;
}

size_t grid_pairs(const int *level_counts, int factors, pair_allowed allowed, pair_row *rows,
                  size_t rows_max)
{
    static generator g;
    size_t count = 0;
    g = (generator){.level_counts = level_counts,
                    .factors = factors,
                    .allowed = allowed,
                    .random = UINT64_C(35000)};
    for (int a = 0; a < factors; a++) {
        for (int b = a + 1; b < factors; b++) {
            for (int pair = 0; pair < level_counts[a] * level_counts[b]; pair++) {
                const int level_a = pair / level_counts[b];
                const int level_b = pair % level_counts[b];
                pair_row row;
                if (g.met[a][level_a][b][level_b] || !row_for(&g, a, level_a, b, level_b, &row)) {
                    continue;
                }
                if (count == rows_max) {
                    return rows_max + 1;
                }
                meet(&g, &row);
                rows[count++] = row;
            }
        }
    }
    return count;
}
