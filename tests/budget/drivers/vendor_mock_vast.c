/* Vast.ai's API, as its documentation has it: offers and instances. Called by vendor_mock.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor_mock.h"

/* Most offers are there to be passed over: the search ignores its filters here, which is the worst it could do. */
static const struct {
    int id, gpus;
    const char *gpu, *verification;
    bool rentable, bid, storage_in_total;
    double base, storage;
} offers[] = {
    {101, 1, "RTX 4090", "verified", true, false, true, 0.40, 0.18},
    {102, 1, "RTX 4090", "unverified", true, false, true, 0.10, 0.18},
    {103, 1, "RTX 4090", "verified", false, false, true, 0.10, 0.18},
    {104, 1, "RTX 4090", "verified", true, true, true, 0.10, 0.18},
    {105, 2, "RTX 4090", "verified", true, false, true, 0.20, 0.18},
    {106, 1, "RTX 3090", "verified", true, false, true, 0.15, 0.18},
    {107, 1, "RTX 4090", "verified", true, false, false, 0.29, 3.6},
    {108, 1, "RTX 4090", "verified", true, false, true, 0.30, 0.18},
};
enum { OFFERS = sizeof offers / sizeof offers[0] };

mock_answer mock_vast_error(unsigned status, const char *error, const char *message)
{
    return (mock_answer){
        status, json_pack("{s:b, s:s, s:s}", "success", 0, "error", error, "msg", message)};
}

static double total_usd(int i, double disk)
{
    return offers[i].base + (offers[i].storage_in_total ? offers[i].storage * disk / 720 : 0);
}

static mock_answer search(const mock_request *request)
{
    const double disk = json_number_value(json_object_get(request->body, "allocated_storage"));
    if (json_object_get(request->body, "order") == NULL) {
        return mock_vast_error(400, "invalid_request", "order is missing");
    }
    json_t *list = json_array();
    for (int i = 0; i < OFFERS; i++) {
        json_array_append_new(
            list, json_pack("{s:i, s:i, s:s, s:s, s:b, s:b, s:f, s:f, s:f}", "id", offers[i].id,
                            "num_gpus", offers[i].gpus, "gpu_name", offers[i].gpu, "verification",
                            offers[i].verification, "rentable", offers[i].rentable, "is_bid",
                            offers[i].bid, "dph_base", offers[i].base, "storage_cost",
                            offers[i].storage, "dph_total", total_usd(i, disk)));
    }
    return (mock_answer){200, json_pack("{s:o}", "offers", list)};
}

json_t *mock_vast_instance(int id, const char *label, double usd)
{
    return json_pack("{s:I, s:s, s:n, s:s, s:s, s:i, s:s, s:{}, s:f}", "id", (json_int_t)id,
                     "label", label, "actual_status", "intended_status", "running", "ssh_host",
                     "ssh5.vast.ai", "ssh_port", 10882, "public_ipaddr", "203.0.113.9 \n", "ports",
                     "dph_total", usd);
}

json_t *mock_vast_running(void)
{
    return json_pack("{s:s, s:{s:[{s:s, s:s}]}}", "actual_status", "running", "ports", "22/tcp",
                     "HostIp", "0.0.0.0", "HostPort", "20022");
}

static mock_answer create(mock_account *account, const mock_request *request)
{
    const int id = mock_after(request->path, "/api/v0/asks/");
    const char *image;
    const char *label;
    double disk;
    if (json_unpack((json_t *)request->body, "{s:s, s:s, s:F}", "image", &image, "label", &label,
                    "disk", &disk) != 0) {
        return mock_vast_error(400, "invalid_args", "image, label and disk are wanted");
    }
    for (int i = 0; i < OFFERS; i++) {
        if (offers[i].id == id) {
            const mock_instance *made = mock_add(
                account, mock_vast_instance(account->last_id + 1, label, total_usd(i, disk)),
                mock_vast_running());
            return (mock_answer){200, json_pack("{s:b, s:I}", "success", 1, "new_contract",
                                                (json_int_t)(made == NULL ? 0 : made->id))};
        }
    }
    return mock_vast_error(404, "no_such_ask", "Instance type by this id is not available");
}

static mock_answer list(const mock_account *account, const mock_request *request)
{
    const char *limit = request->argument(request->connection, "limit");
    const char *after = request->argument(request->connection, "after_token");
    const int page = limit == NULL || mock_number(limit) > 25 ? 25 : mock_number(limit);
    const int from = after == NULL ? 0 : mock_number(after + 1);
    if (after != NULL && (after[0] != '=' || from <= 0)) {
        return mock_vast_error(400, "invalid_token", "an invalid token");
    }
    json_t *instances = json_array();
    for (int i = from; i < from + page && i < account->count; i++) {
        json_array_append(instances, account->instances[i].shown);
    }
    char next[16];
    (void)snprintf(next, sizeof next, "=%d", from + page);
    return (mock_answer){200, json_pack("{s:b, s:o, s:s?}", "success", 1, "instances", instances,
                                        "next_token", from + page < account->count ? next : NULL)};
}

mock_answer mock_vast(mock_account *account, const mock_request *request)
{
    if (strcmp(request->path, "/api/v0/bundles/") == 0) {
        return search(request);
    }
    if (strncmp(request->path, "/api/v0/asks/", strlen("/api/v0/asks/")) == 0) {
        return create(account, request);
    }
    if (strcmp(request->path, "/api/v0/users/current/") == 0) {
        return (mock_answer){200,
                             json_pack("{s:i, s:i, s:f}", "id", 123, "key_id", 9, "balance", 4.5)};
    }
    if (strcmp(request->path, "/api/v1/instances/") == 0) {
        return list(account, request);
    }
    mock_instance *found = mock_find(account, mock_after(request->path, "/api/v0/instances/"));
    if (strcmp(request->method, "GET") == 0) { /* what is gone is null, and no 404 */
        return (mock_answer){
            200, json_pack("{s:o?}", "instances", found == NULL ? NULL : mock_describe(found))};
    }
    if (found == NULL) {
        return mock_vast_error(404, "not_found", "Instance not found");
    }
    if (strcmp(request->method, "DELETE") == 0) {
        mock_remove(account, found);
    }
    return (mock_answer){200, json_pack("{s:b}", "success", 1)};
}
