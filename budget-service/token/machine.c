/* Reads the id of this machine from /etc/machine-id, else the boot id. Called for vendor "local":
 * by `authorize`, by the launcher's lease, and by the gate. */
#include "budget/machine.h"

#include <stdbool.h>
#include <string.h>

#include "base/kernel_file.h"

static bool read_word(const char *path, char *word, size_t word_bytes)
{
    return base_kernel_line(word, word_bytes, "%s", path) &&
           budget_name_ok(word, word_bytes, false);
}

base_status budget_machine_id(char id[BUDGET_NAME_BYTES], base_error *reterr)
{
    static const char prefix[] = "boot-";
    if (read_word("/etc/machine-id", id, BUDGET_NAME_BYTES)) {
        return BASE_OK;
    }
    memcpy(id, prefix, sizeof prefix);
    if (read_word("/proc/sys/kernel/random/boot_id", id + sizeof prefix - 1,
                  BUDGET_NAME_BYTES - (sizeof prefix - 1))) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_IO,
                     "neither /etc/machine-id nor the kernel's boot id can be read");
}
