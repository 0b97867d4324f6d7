/* Options of a compilation, set by name. */
#include "web/src/compilation.h"
#include "web/src/exports.h"

#include <stdlib.h>
#include <string.h>

web_compilation *web_compilation_new(xcc_diagnostics diagnostics)
{
    web_compilation *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->options = (xcc_options){
        .size = sizeof c->options, .dims = c->dims, .default_inputs = c->default_inputs, .diagnostics = diagnostics};
    c->options.states.patterns = c->patterns;
    c->options.gradients.wrt = c->wrt;
    return c;
}

void WEB_EXPORT(web_compilation_destroy)(web_compilation *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->owned_count; i++)
        free(c->owned[i]);
    free(c);
}

static const char *keep(web_compilation *c, const char *text)
{
    char *copy = c->owned_count < sizeof c->owned / sizeof *c->owned ? strdup(text) : NULL;
    if (copy != NULL)
        c->owned[c->owned_count++] = copy;
    return copy;
}

static bool append(web_compilation *c, const char **list, size_t *count, const char *text)
{
    const char *copy = *count < WEB_MOST_NAMES ? keep(c, text) : NULL;
    if (copy != NULL)
        list[(*count)++] = copy;
    return copy != NULL;
}

int WEB_EXPORT(web_compilation_set)(web_compilation *c, const char *name, const char *text, double number)
{
    xcc_options *o = &c->options;
    const bool on = number != 0;
    if (strcmp(name, "optimization") == 0)
        return o->optimization = (int)number, 1;
    if (strcmp(name, "inference") == 0)
        return o->inference = on, 1;
    if (strcmp(name, "backprop") == 0)
        return o->backprop = on, 1;
    if (strcmp(name, "strip") == 0)
        return o->strip = on, 1;
    if (strcmp(name, "flushSubnormals") == 0)
        return o->flush_subnormals = on, 1;
    if (strcmp(name, "loss") == 0)
        return (o->loss = keep(c, text)) != NULL;
    if (strcmp(name, "train") == 0)
        return (o->train = keep(c, text)) != NULL;
    if (strcmp(name, "evaluate") == 0)
        return o->training.evaluate = on, 1;
    if (strcmp(name, "cacheRows") == 0)
        return o->states.cache_rows = (int64_t)number, 1;
    if (strcmp(name, "timeout") == 0)
        return o->limits.timeout_ns = web_nanoseconds(number), 1;
    if (strcmp(name, "memoryLimit") == 0)
        return o->limits.memory_bytes = number > 0 && number < (double)SIZE_MAX ? (size_t)number : 0, 1;
    if (strcmp(name, "states") == 0)
        return append(c, c->patterns, &o->states.pattern_count, text);
    if (strcmp(name, "wrt") == 0)
        return append(c, c->wrt, &o->gradients.wrt_count, text);
    if (strcmp(name, "defaultInputs") == 0)
        return append(c, c->default_inputs, &o->default_input_count, text);
    if (strcmp(name, "weights") == 0) {
        const xcvm_dtype dtype = xcvm_dtype_from_name(text);
        o->weights.blocks = strcmp(text, "q8") == 0    ? XCC_WEIGHTS_Q8
                            : strcmp(text, "q4") == 0  ? XCC_WEIGHTS_Q4
                            : strcmp(text, "q4a") == 0 ? XCC_WEIGHTS_Q4A
                                                       : XCC_WEIGHTS_PLAIN;
        o->weights.dtype = dtype;
        return dtype != XCVM_NO_DTYPE || o->weights.blocks != XCC_WEIGHTS_PLAIN;
    }
    if (strcmp(name, "dims") == 0) {
        const char *copy = o->dim_count < WEB_MOST_NAMES ? keep(c, text) : NULL;
        if (copy != NULL)
            c->dims[o->dim_count++] = (xcc_dim){copy, (int64_t)number};
        return copy != NULL;
    }
    return 0;
}
