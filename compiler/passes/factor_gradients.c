/* Low-rank gradients: a gradient that is a product of few terms is passed to the optimizer as its factors, if it has no
 * other users. An example is the gradient of a layer's weights for one training example. The optimizer computes its
 * elements while it updates the weights, so the gradient is never stored. */
#include "compiler/ir/compose.h"
#include "compiler/passes/rewrite.h"
#include "ops/optimizer/factors.h"

#include <string.h>

/* An optimizer's lists. Those of the states are as long as that of the parameters. */
typedef struct optimizer {
    xcc_node *node;
    const xcvm_inputs *gradients;
    size_t count;
    bool *product; /* for each gradient: it is a product without other users */
    size_t products;
} optimizer;

static xcvm_inputs *list_at(const void *args, const xcvm_field *f)
{
    return (xcvm_inputs *)(void *)((char *)(uintptr_t)args + f->offset);
}

/* Returns true if the node is an optimizer with such gradients, none of which are factors yet. */
static bool find_products(xcc_module *m, xcc_node *n, optimizer *o)
{
    if (n->kind != XCC_INSTRUCTION || !xcvm_schema_has_class(n->schema, XCVM_CLASS_optimizer))
        return false;
    const xcvm_inputs *parameters = xcvm_optimizer_parameters(n->schema, n->args);
    *o = (optimizer){.node = n, .gradients = xcvm_optimizer_gradients(n->schema, n->args)};
    if (xcvm_gradients_are_factors(o->gradients, parameters))
        return false;
    o->count = o->gradients->count;
    o->product = xcc_alloc(m, o->count * sizeof *o->product);
    for (size_t i = 0; o->product != NULL && i < o->count; i++) {
        const xcvm_value *a, *b;
        const xcc_value *gradient = xcc_value_of(o->gradients->at[i]);
        /* A half-precision parameter may have an f32 gradient, which cannot be factors. */
        o->product[i] = xcc_used_once(gradient) && gradient->type.dtype == parameters->at[i]->dtype &&
                        xcc_is_low_rank_product(gradient, &a, &b);
        o->products += o->product[i];
    }
    return o->products > 0;
}

/* Selects the entries of a list whose gradients are products, or are not. */
static bool pick(xcc_module *m, const optimizer *o, bool product, bool factors, xcvm_inputs *list)
{
    const size_t count = product ? o->products : o->count - o->products;
    const xcvm_value **at = xcc_alloc(m, (factors ? 2 : 1) * count * sizeof *at);
    size_t next = 0;
    for (size_t i = 0; at != NULL && i < o->count; i++) {
        if (o->product[i] != product)
            continue;
        if (factors && xcc_is_low_rank_product(xcc_value_of(list->at[i]), &at[next], &at[next + 1]))
            next += 2;
        else
            at[next++] = list->at[i];
    }
    *list = (xcvm_inputs){at, next};
    return at != NULL;
}

/* Inserts an instruction for the gradients that are products, or for the others, before the original one. */
static xcvm_status append_part(xcc_module *m, const optimizer *o, bool product)
{
    const xcvm_schema *schema = o->node->schema;
    char *args = xcc_alloc(m, schema->args_size);
    if (args == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(args, o->node->args, schema->args_size);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        const bool is_gradients = i == 0;
        if ((is_gradients || (f->role == XCVM_ROLE_IN_STATE && xcvm_field_is_list(f))) && list_at(args, f)->count > 0 &&
            !pick(m, o, product, is_gradients && product, list_at(args, f)))
            return XCVM_OUT_OF_MEMORY;
    }
    xcc_builder b = xcc_builder_before(o->node);
    return xcc_append(&b, schema->opcode, args) != NULL ? XCVM_OK : m->error->status;
}

xcvm_status xcc_pass_factor_gradients(xcc_module *m)
{
    for (xcc_node *n = m->graph->first, *next; n != NULL; n = next) {
        optimizer o;
        next = n->next;
        if (!find_products(m, n, &o))
            continue;
        XCVM_TRY(append_part(m, &o, true));
        if (o.products < o.count)
            XCVM_TRY(append_part(m, &o, false));
        xcc_node_remove(n);
        for (size_t i = 0; i < o.count; i++)
            if (o.product[i])
                xcc_rewrite_sweep(xcc_value_of(o.gradients->at[i])->producer);
    }
    return XCVM_OK;
}
