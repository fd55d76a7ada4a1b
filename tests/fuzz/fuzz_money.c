/* Any bytes are an amount or refused; what is read is in range and reads back. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "budget/money.h"
#include "budget/time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_amount(const char *text, size_t text_bytes)
{
    int64_t micro = -1;
    int64_t bill = -1;
    int64_t again = -1;
    char shown[BUDGET_MONEY_BYTES];
    if (budget_money_parse(text, text_bytes, &micro, NULL) == BASE_OK) {
        BASE_ASSERT(micro >= 0);
        BASE_ASSERT(micro <= BUDGET_MONEY_MICRO_MAX);
        BASE_ASSERT(memchr(text, 'e', text_bytes) == NULL);
        budget_money_format(micro, shown);
        BASE_ASSERT(budget_money_parse(shown, strlen(shown), &again, NULL) == BASE_OK);
        BASE_ASSERT(again == micro);
        /* the looser reader agrees with the strict one */
        BASE_ASSERT(budget_money_parse_bill(text, text_bytes, &bill, NULL) == BASE_OK);
        BASE_ASSERT(bill == micro);
    }
    if (budget_money_parse_bill(text, text_bytes, &bill, NULL) == BASE_OK) {
        BASE_ASSERT(bill <= BUDGET_MONEY_MICRO_MAX);
        BASE_ASSERT(bill >= -BUDGET_MONEY_MICRO_MAX);
    }
}

static void check_time(const char *text, size_t text_bytes)
{
    int64_t time_s = -1;
    int64_t again = -1;
    char shown[BUDGET_TIME_BYTES];
    if (budget_time_parse(text, text_bytes, &time_s, NULL) == BASE_OK) {
        budget_time_format(time_s, shown);
        BASE_ASSERT(budget_time_parse(shown, strlen(shown), &again, NULL) == BASE_OK);
        BASE_ASSERT(again == time_s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char *text = malloc(size_bytes + 1); /* its own block, so that a read past the end is seen */
    BASE_ASSERT(text != NULL);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    check_amount(text, size_bytes);
    check_time(text, size_bytes);
    free(text);
    return 0;
}
