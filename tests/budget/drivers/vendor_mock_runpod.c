/* RunPod's REST API v2, as its documentation has it: the catalog, and pods. Called by vendor_mock.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor_mock.h"

/* The API cuts pages as it likes, whatever the limit is. */
enum { PAGE = 100 };

static const struct {
    const char *id, *name, *availability;
    double secure, community;
} gpus[] = {
    {"NVIDIA A40", "A40", "HIGH", 0.44, 0.34},
    {"NVIDIA L4", "L4", "LOW", 0.43, 0},
    {"NVIDIA RTX A5000", "RTX A5000", "NONE", 0.27, 0.16},
    {"NVIDIA H200", "H200", "HIGH", 3.99, 3.59},
};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

mock_answer mock_runpod_error(unsigned status, const char *detail)
{
    return (mock_answer){status, json_pack("{s:s, s:i, s:s}", "title", "Error", "status",
                                           (int)status, "detail", detail)};
}

static mock_answer catalog(const mock_request *request)
{
    const char *include = request->argument(request->connection, "include");
    const char *product = request->argument(request->connection, "product");
    if (include == NULL || strcmp(include, "AVAILABILITY") != 0 || product == NULL ||
        strcmp(product, "POD") != 0) {
        return mock_runpod_error(400, "include and product belong together");
    }
    json_t *list = json_array();
    for (int i = 0; i < GPUS; i++) {
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:b, s:{s:f, s:f}, s:s}", "id", gpus[i].id, "name",
                            gpus[i].name, "secure", gpus[i].secure > 0, "community",
                            gpus[i].community > 0, "price", "secure", gpus[i].secure, "community",
                            gpus[i].community, "availability", gpus[i].availability));
    }
    return (mock_answer){200, json_pack("{s:o}", "gpus", list)};
}

json_t *mock_runpod_pod(int id, const char *name, const char *gpu, int gpu_count)
{
    char text[32];
    (void)snprintf(text, sizeof text, "pod%d", id);
    double price = 1.0;
    for (int i = 0; i < GPUS; i++) {
        price = strcmp(gpus[i].id, gpu) == 0 ? gpus[i].secure : price;
    }
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:i}, s:f, s:i, s:{s:n, s:n}, s:n}", "id", text,
                     "name", name, "status", "PROVISIONING", "gpu", "id", gpu, "count", gpu_count,
                     "cost", price * gpu_count, "disk", 40, "ssh", "proxy", "direct", "runtime");
}

json_t *mock_runpod_running(void)
{
    return json_pack("{s:s, s:{s:n, s:{s:s, s:i, s:s, s:s}}}", "status", "RUNNING", "ssh", "proxy",
                     "direct", "host", "203.0.113.7", "port", 34446, "username", "root", "command",
                     "ssh root@203.0.113.7 -p 34446");
}

/* The schema has no other properties, and answers 422 to any. */
static mock_answer create(mock_account *account, const mock_request *request)
{
    static const char *const known[] = {"name", "image", "cloud", "gpu",
                                        "disk", "ports", "env",   "startSsh"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)request->body, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            found = found || strcmp(key, known[i]) == 0;
        }
        if (!found) {
            return mock_runpod_error(422, "additional properties are not allowed");
        }
    }
    const char *name;
    const char *image;
    const char *gpu;
    int count;
    if (json_unpack((json_t *)request->body, "{s:s, s:s, s:{s:s, s:i}}", "name", &name, "image",
                    &image, "gpu", "id", &gpu, "count", &count) != 0) {
        return mock_runpod_error(422, "name, image and gpu are required");
    }
    if (count > 8) {
        return mock_runpod_error(400, "There are no longer any instances available");
    }
    const mock_instance *made = mock_add(
        account, mock_runpod_pod(account->last_id + 1, name, gpu, count), mock_runpod_running());
    return made == NULL ? mock_runpod_error(400, "no capacity")
                        : (mock_answer){201, json_deep_copy(made->shown)};
}

static mock_answer list(const mock_account *account, const mock_request *request)
{
    const char *cursor = request->argument(request->connection, "cursor");
    const int from = cursor == NULL ? 0 : mock_number(cursor + 1);
    if (cursor != NULL && (cursor[0] != '=' || from <= 0)) {
        return mock_runpod_error(422, "a malformed cursor");
    }
    json_t *pods = json_array();
    for (int i = from; i < from + PAGE && i < account->count; i++) {
        json_array_append(pods, account->instances[i].shown);
    }
    const bool more = from + PAGE < account->count;
    char next[16];
    (void)snprintf(next, sizeof next, "=%d", from + PAGE);
    return (mock_answer){200, json_pack("{s:o, s:{s:b, s:s?}}", "pods", pods, "pagination",
                                        "hasNextPage", more, "nextCursor", more ? next : NULL)};
}

/* A pod's two hours and another's one. From year 2025 on the total has one more. */
static mock_answer bill(const mock_request *request)
{
    const char *from = request->argument(request->connection, "startTime");
    const char *to = request->argument(request->connection, "endTime");
    const char *bucket = request->argument(request->connection, "bucketSize");
    if (from == NULL || to == NULL || bucket == NULL || strcmp(bucket, "hour") != 0) {
        return mock_runpod_error(400, "startTime, endTime and bucketSize are wanted");
    }
    static const struct {
        const char *pod, *start, *end;
        double usd;
    } hours[] = {
        {"pod1", "2024-11-20T00:00:00Z", "2024-11-20T01:00:00Z", 0.44},
        {"pod1", "2024-11-20T01:00:00Z", "2024-11-20T02:00:00Z", 0.1},
        {"pod2", "2024-11-20T00:00:00Z", "2024-11-20T01:00:00Z", 0.2},
    };
    json_t *records = json_array();
    double total = mock_number(from) >= 2025 ? 0.01 : 0;
    for (size_t i = 0; i < sizeof hours / sizeof hours[0]; i++) {
        json_array_append_new(records,
                              json_pack("{s:s, s:s, s:s, s:f, s:f}", "podId", hours[i].pod,
                                        "startTime", hours[i].start, "endTime", hours[i].end,
                                        "totalAmount", hours[i].usd, "gpuAmount", hours[i].usd));
        total += hours[i].usd;
    }
    return (mock_answer){200, json_pack("{s:o, s:{s:{s:f}}}", "records", records, "metadata",
                                        "totals", "totalAmount", total)};
}

mock_answer mock_runpod(mock_account *account, const mock_request *request)
{
    if (strcmp(request->path, "/v2/catalog/gpus") == 0) {
        return catalog(request);
    }
    if (strcmp(request->path, "/v2/account") == 0) {
        return (mock_answer){
            200, json_pack("{s:s, s:s}", "id", "user_2abc", "email", "dev@example.com")};
    }
    if (strcmp(request->path, "/v2/billing/pods") == 0) {
        return bill(request);
    }
    if (strcmp(request->path, "/v2/pods") == 0) {
        return strcmp(request->method, "POST") == 0 ? create(account, request)
                                                    : list(account, request);
    }
    mock_instance *found = mock_find(account, mock_after(request->path, "/v2/pods/pod"));
    if (found == NULL) {
        return mock_runpod_error(404, "pod not found");
    }
    if (strcmp(request->method, "DELETE") == 0) {
        mock_remove(account, found);
        return (mock_answer){204, NULL};
    }
    return (mock_answer){200, mock_describe(found)};
}
