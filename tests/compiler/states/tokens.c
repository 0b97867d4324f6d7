/* What tests of key/value caches share. */
#include "tests/compiler/states/tokens.h"

#include <math.h>
#include <string.h>

const xcc_state_pair cache_pairs[2] = {{"present_key", "past_key"}, {"present_value", "past_value"}};

xcc_value *named(xcc_builder *b, xcc_value *v, const char *name)
{
    ok(b->graph->module, xcc_value_rename(must(b, v), name));
    return v;
}

float token_element(size_t operand, int64_t token, int64_t column)
{
    return sinf((float)(operand * 1000 + (size_t)token * 31 + (size_t)column * 7) * 0.7f);
}

void check_value_cache(const compiled_program *k, int64_t bound, int64_t width, int64_t first, int64_t count,
                       const void **memory)
{
    for (size_t i = 0; i < xcvm_program_state_count(k->program); i++)
        if (strcmp(xcvm_program_state_at(k->program, i)->name, "past_value") == 0) {
            const float *now = xcvm_value_data(xcvm_session_get_state(k->session, i));
            ck_assert(*memory == NULL || *memory == now);
            *memory = now;
            ck_assert_float_eq(now[(bound + first) * width + 2], token_element(2, first, width + 2));
            ck_assert_float_eq(now[(first + count) * width], 0);
        }
}
