/* Options of `xcvm compile` that pair two names. */
#include "commands/name_pairs.h"
#include "cli/memory.h"

#include <stdlib.h>
#include <string.h>

bool state_pairs_parse(const struct text_list *texts, xcc_state_pair **pairs)
{
    *pairs = memory_take(texts->count, sizeof **pairs);
    for (size_t i = 0; i < texts->count; i++) {
        size_t colons = 0;
        for (const char *at = texts->items[i]; *at != '\0'; at++)
            colons += *at == ':';
        char *text = memory_text(texts->items[i]), *middle = text;
        (*pairs)[i].output = text;
        for (size_t k = 0; k < colons / 2 + 1 && middle != NULL; k++)
            middle = strchr(middle + (k > 0), ':');
        if (colons % 2 == 0 || middle == text || middle[1] == '\0')
            return false;
        *middle = '\0';
        (*pairs)[i].input = middle + 1;
    }
    return true;
}

void state_pairs_release(xcc_state_pair *pairs, size_t count)
{
    for (size_t i = 0; pairs != NULL && i < count; i++)
        free((char *)(uintptr_t)pairs[i].output);
    free(pairs);
}

bool vjps_parse(const struct text_list *texts, xcc_vjp_function **vjps)
{
    *vjps = memory_take(texts->count + 1, sizeof **vjps);
    for (size_t i = 0; i < texts->count; i++) {
        const char *equal = strchr(texts->items[i], '=');
        if (equal == NULL || equal == texts->items[i] || equal[1] == '\0')
            return false;
        (*vjps)[i].function = memory_text_n(texts->items[i], (size_t)(equal - texts->items[i]));
        (*vjps)[i].vjp = equal + 1;
    }
    return true;
}

void vjps_release(xcc_vjp_function *vjps, size_t count)
{
    for (size_t i = 0; vjps != NULL && i < count; i++)
        free((char *)(uintptr_t)vjps[i].function);
    free(vjps);
}
