/* The table of handshakes under way. Called by links.c. */
#include "transport/tcp/handshakes.h"

#include <unistd.h>

void coll_handshake_drop(coll_handshake *g)
{
    if (g->stage != COLL_HANDSHAKE_FREE && g->stage != COLL_HANDSHAKE_PAUSE) {
        (void)close(g->fd);
    }
    g->stage = COLL_HANDSHAKE_FREE;
}

coll_handshake *coll_handshakes_drop_oldest(coll_handshakes *all)
{
    coll_handshake *oldest = NULL;
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        coll_handshake *g = &all->all[i];
        if (g->stage == COLL_HANDSHAKE_HELLO && (oldest == NULL || g->arrival < oldest->arrival)) {
            oldest = g;
        }
    }
    if (oldest != NULL) {
        coll_handshake_drop(oldest);
    }
    return oldest;
}

coll_handshake *coll_handshakes_place(coll_handshakes *all)
{
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        if (all->all[i].stage == COLL_HANDSHAKE_FREE) {
            return &all->all[i];
        }
    }
    return coll_handshakes_drop_oldest(all);
}

void coll_handshakes_drop_earlier(coll_handshakes *all, int peer)
{
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        coll_handshake *g = &all->all[i];
        if (g->stage == COLL_HANDSHAKE_PROOF && g->peer == peer) {
            coll_handshake_drop(g);
        }
    }
}
