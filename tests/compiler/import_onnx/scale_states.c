/* Models whose inputs and outputs become states of the session, for tests of scaling. */
#include "tests/compiler/import_onnx/scale_kinds.h"

#include <stdlib.h>

void scale_make_kept(model_writer *m, size_t size)
{
    char from[32], to[32];
    for (size_t i = 0; i < size; i++) {
        input(m, name_of(from, "s", i), DTYPE_FLOAT, 1, four);
        unary_in(m, &m->graph, "Sigmoid", from, name_of(to, "r", i));
        output(m, to, DTYPE_FLOAT);
    }
}

/* An Attention per two caches with an unknown number of tokens, so that each counts its rows separately. */
void scale_make_caches(model_writer *m, size_t size)
{
    static const int64_t fresh[] = {1, 1, -1, 4};
    char text[32], length[32];
    m->newest = 23;
    for (size_t i = 0; i + 1 < size; i += 2) {
        value_in(m, &m->graph, GRAPH_INPUT, name_of(text, "x", i), DTYPE_FLOAT, 4, fresh, name_of(length, "n", i));
        for (size_t k = 0; k < 2; k++)
            value_in(m, &m->graph, GRAPH_INPUT, name_of(text, "s", i + k), DTYPE_FLOAT, 4, fresh,
                     name_of(length, "p", i));
        begin_node(m, "Attention");
        attribute_int(m, "is_causal", 1);
        for (size_t k = 0; k < 3; k++)
            operand_of(m, "x", i);
        operand(m, "");
        operand_of(m, "s", i);
        operand_of(m, "s", i + 1);
        result_of(m, "y", i);
        result_of(m, "r", i);
        result_of(m, "r", i + 1);
        end_node(m);
        output_of(m, "y", i);
        output_of(m, "r", i);
        output_of(m, "r", i + 1);
    }
}

xcc_state_pair *scale_state_pairs(scale_kind kind, size_t size, size_t *count)
{
    enum { ROOM = 32 };
    *count = kind == SCALE_kept ? size : kind == SCALE_caches ? size / 2 * 2 : 0;
    if (*count == 0)
        return NULL;
    /* The names follow the pairs. */
    xcc_state_pair *pairs = malloc(*count * (sizeof *pairs + 2 * ROOM));
    if (pairs == NULL)
        abort();
    char *names = (char *)(pairs + *count);
    for (size_t i = 0; i < *count; i++, names += 2 * ROOM)
        pairs[i] = (xcc_state_pair){name_of(names, "r", i), name_of(names + ROOM, "s", i)};
    return pairs;
}
