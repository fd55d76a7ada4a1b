/* RunPod's bills: the answer of /v1/billing/pods with grouping=podId, of /v2/billing/pods, or of
 * the driver's call `bill`. bill.c has its row.
 *
 * Each has one record of a pod and period, without an id. So they say the same of the same hour, in
 * other words. */
#include "bills/json.h"

static base_status runpod_line(const json_t *object, bill_line *line, bool *wanted,
                               base_error *reterr)
{
    (void)reterr;
    *wanted = true;
    line->line_id = BILL_FIRST(object, "id", "lineId");
    line->label = BILL_FIRST(object, "label", "podName", "name");
    line->instance_id = BILL_FIRST(object, "podId", "endpointId", "networkVolumeId");
    line->cost = BILL_FIRST(object, "amount", "totalAmount", "total");
    line->time = BILL_FIRST(object, "time", "startTime");
    line->until = BILL_FIRST(object, "endTime");
    line->about[0] = BILL_FIRST(object, "gpuTypeId", "gpuId");
    line->about[1] = BILL_FIRST(object, "endpointId");
    line->sole = line->instance_id != NULL;
    return BASE_OK;
}

static base_status read_runpod(char *text, bill_charges *charges, base_error *reterr)
{
    return bill_read_json(text, runpod_line, charges, reterr);
}

const budget_bill_format bill_runpod = {.name = "runpod-json",
                                        .vendor = "runpod",
                                        .is_json = true,
                                        .marks = {"\"podId\""},
                                        .read = read_runpod};
