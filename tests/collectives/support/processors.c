/* Replaces the number of CPUs that ranks believe in (--wrap=coll_identity_cpus). Used by tests that
 * need both answers. */
#include "processors.h"

#include "core/identity.h"

static int claimed;

int __real_coll_identity_cpus(const coll_identity *all, int count, const coll_identity *mine);
int __wrap_coll_identity_cpus(const coll_identity *all, int count, const coll_identity *mine);

int __wrap_coll_identity_cpus(const coll_identity *all, int count, const coll_identity *mine)
{
    return claimed > 0 ? claimed : __real_coll_identity_cpus(all, count, mine);
}

void test_processors_claim(int count)
{
    claimed = count;
}
