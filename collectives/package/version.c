#include "version.h"

const char *coll_version(void)
{
    return RINGFENCE_VERSION;
}
