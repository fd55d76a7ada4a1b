/* Reads and writes the cached costs of the cost model, with a key that says which machine they are
 * of. Called by tune.c. */
#include "calibrate/tune_file.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "core/comm.h"
#include "kernels/kernels.h"
#include "ringfence/coll_error.h"

enum { FILE_BYTES_MAX = 4096 };

static const char first_line[] = "# libcoll costs 1\n";

/* In the order of coll_costs. */
static const char *const names[COLL_TUNE_FIGURES] = {
    "inside_latency_us",  "inside_message_us", "inside_byte_ns", "between_latency_us",
    "between_message_us", "between_byte_ns",   "reduce_byte_ns", "start_us",
};

void coll_tune_key(const coll_comm *comm, const coll_context_options *options,
                   char key[COLL_TUNE_KEY_BYTES])
{
    const coll_context *context = comm->context;
    (void)snprintf(key, COLL_TUNE_KEY_BYTES,
                   "transport=%s ranks=%d hosts=%d kernels=%s auth=%s interface=%.63s host=%.63s",
                   coll_transport_name(context->transport), comm->size, comm->hosts.count,
                   coll_kernel_isa(), coll_tcp_auth_name(options->tcp_auth),
                   options->interface != NULL ? options->interface : "-",
                   context->identities[context->rank].host);
}

/* Moves *at past one line that must be `line`; false if it is not. */
static bool skip_line(const char **at, const char *begin, const char *line)
{
    const size_t begin_bytes = strlen(begin);
    const size_t line_bytes = strlen(line);
    if (strncmp(*at, begin, begin_bytes) != 0 ||
        strncmp(*at + begin_bytes, line, line_bytes) != 0 ||
        (*at)[begin_bytes + line_bytes] != '\n') {
        return false;
    }
    *at += begin_bytes + line_bytes + 1;
    return true;
}

/* A file is good for programs of all languages: its figures have a point. NULL: no memory. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* "NAME VALUE\n" */
static bool read_figure(const char **at, const char *name, locale_t plain, double *value)
{
    const size_t name_bytes = strlen(name);
    if (strncmp(*at, name, name_bytes) != 0 || (*at)[name_bytes] != ' ') {
        return false;
    }
    const char *number = *at + name_bytes + 1;
    char *rest = NULL;
    *value = strtod_l(number, &rest, plain);
    if (*number < '0' || *number > '9' || *rest != '\n' || !isfinite(*value) || *value < 0 ||
        *value > 1e12) {
        return false;
    }
    *at = rest + 1;
    return true;
}

coll_status coll_tune_file_parse(const char *text, const char *key, coll_costs *costs, bool *found,
                                 coll_error *reterr)
{
    const char *at = text + strlen(first_line);
    double values[COLL_TUNE_FIGURES];
    *found = false;
    if (strncmp(text, first_line, strlen(first_line)) != 0) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "not a file of costs (its first line is not '%.*s')",
                         (int)strlen(first_line) - 1, first_line);
    }
    if (!skip_line(&at, "key ", key)) {
        return COLL_OK; /* measured somewhere else */
    }
    const locale_t plain = plain_locale();
    if (plain == (locale_t)0) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory to read costs");
    }
    int read = 0;
    while (read < COLL_TUNE_FIGURES && read_figure(&at, names[read], plain, &values[read])) {
        read++;
    }
    freelocale(plain);
    if (read < COLL_TUNE_FIGURES) {
        return coll_fail(reterr, COLL_ERR_INVALID, "no line '%s NUMBER' where it should be",
                         names[read]);
    }
    memcpy(costs, values, sizeof *costs);
    *found = true;
    return COLL_OK;
}

coll_status coll_tune_file_read(const char *path, const char *key, coll_costs *costs, bool *found,
                                coll_error *reterr)
{
    void *text = NULL;
    size_t size_bytes = 0;
    *found = false;
    const base_status read =
        base_file_read_regular(path, FILE_BYTES_MAX, &text, &size_bytes, base_error_of(reterr));
    if (read == BASE_ERR_NOTFOUND) {
        return COLL_OK;
    }
    coll_status status = (coll_status)read;
    if (status == COLL_OK) {
        status = coll_tune_file_parse(text, key, costs, found, reterr);
        free(text);
        status = status == COLL_OK ? status : coll_error_prepend(reterr, status, "%s", path);
    }
    return status;
}

coll_status coll_tune_file_write(const char *path, const char *key, const coll_costs *costs,
                                 coll_error *reterr)
{
    double values[COLL_TUNE_FIGURES];
    char text[FILE_BYTES_MAX];
    const locale_t plain = plain_locale();
    if (plain == (locale_t)0) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory to write %s", path);
    }
    memcpy(values, costs, sizeof values);
    const locale_t before = uselocale(plain);
    int used = snprintf(text, sizeof text, "%skey %s\n", first_line, key);
    for (int i = 0; i < COLL_TUNE_FIGURES; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %.6g\n", names[i], values[i]);
    }
    (void)uselocale(before);
    freelocale(plain);
    return (coll_status)base_file_write(path, text, (size_t)used, base_error_of(reterr));
}
