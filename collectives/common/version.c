/* The version of libcoll. Called by programs that are linked with it. */
#include "coll/version.h"

const char *coll_version(void)
{
    return RINGFENCE_VERSION;
}
