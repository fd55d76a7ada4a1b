/* Reads a range of ports. Used by the launcher for --listen-ports, and by libcoll for its environment. */
#include "base/ports.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { PORT_MAX = 65535 };

bool base_ports_parse(const char *text, base_ports *ports)
{
    char low_text[BASE_PORTS_BYTES];
    int64_t low = 0;
    int64_t high = 0;
    const char *dash = strchr(text, '-');
    if (text[0] == '\0') {
        *ports = (base_ports){.low = 0};
        return true;
    }
    if (dash == NULL || strlen(text) >= sizeof low_text) {
        return false;
    }
    (void)snprintf(low_text, sizeof low_text, "%.*s", (int)(dash - text), text);
    if (!base_parse_int(low_text, 1, PORT_MAX, &low) ||
        !base_parse_int(dash + 1, low, PORT_MAX, &high)) {
        return false;
    }
    *ports = (base_ports){.low = (int)low, .high = (int)high};
    return true;
}
