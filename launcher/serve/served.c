/* Names what the server answers with. Called by server.c, routes.c and completion_body.c. */
#include "serve/served.h"

#include <stdio.h>
#include <string.h>

#include "proto/envelope.h"

static void last_part(const char *path, char name[LAUNCH_SERVE_MODEL_BYTES])
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/') {
        bytes--;
    }
    size_t begin = bytes;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    (void)snprintf(name, LAUNCH_SERVE_MODEL_BYTES, "%.*s", (int)(bytes - begin), path + begin);
    proto_text_tame(name);
}

void launch_served_name(const proto_job *job, launch_served *served)
{
    const bool adapted = job->model.adapter[0] != '\0';
    *served = (launch_served){.base = ""};
    last_part(adapted ? job->model.adapter : job->model.checkpoint, served->name);
    if (adapted) {
        last_part(job->model.checkpoint, served->base);
    }
}

bool launch_served_has(const launch_served *served, const char *name)
{
    return strcmp(name, served->name) == 0 ||
           (served->base[0] != '\0' && strcmp(name, served->base) == 0);
}
