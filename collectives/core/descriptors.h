/* Whether a rank has the file descriptors that connecting takes. A rank that runs out of them while
 * it connects cannot tell those who wait for it. So it looks before the exchange, where it can. */
#ifndef COLL_SRC_DESCRIPTORS_H
#define COLL_SRC_DESCRIPTORS_H

#include "coll/coll.h"

/* Opens so many, and closes them again. COLL_ERR_IO: the system gives fewer; the message has the
 * numbers, and `what` needs them. */
COLL_MUST_CHECK coll_status coll_descriptors_check(const char *what, int count, coll_error *reterr);

#endif
