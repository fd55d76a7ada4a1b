/* How ranks lie on hosts, as far as the cost model goes. Pure. */
#ifndef COLL_SRC_LAYOUT_H
#define COLL_SRC_LAYOUT_H

#include "coll/tune.h"
#include "plan/hosts.h"

void coll_cost_layout(const coll_hosts *hosts, coll_layout *layout);

#endif
