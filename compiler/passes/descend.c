/* Steps of gradient descent that are written out: a state that is stored as itself, less a rate times a gradient.
 * Stored, it would be read from one buffer and written into another; an update writes it in place, once all that can
 * fail has been done. Where the gradient is a product of few terms, as that of a layer's weights for one example, the
 * update makes it element by element, and it is held nowhere. */
#include "compiler/passes/rewrite.h"

#include <stdlib.h>

/* Terms that a gradient's product has at most, to be computed where it is used: of more, blocks of the product that
 * stay in the cache take less time than reading and writing the gradient costs. */
enum { MOST_TERMS = 4 };

typedef struct step {
    size_t output; /* of the graph, which stores it */
    xcc_value *state, *rate, *gradient;
    const xcc_node *product; /* of few terms, that makes the gradient, and nothing else needs; NULL: there is none */
} step;

static bool is_real(const xcc_value *v) { return v->type.dtype == XCVM_F32 || v->type.dtype == XCVM_F64; }

static bool is_scalar(const xcc_value *v) { return v->type.rank == 0; }

static const xcc_node *product_of(const xcc_value *gradient)
{
    const xcc_node *n = xcc_sole_producer(gradient, XCVM_OP_Gemm);
    if (n == NULL || gradient->type.rank != 2)
        return NULL;
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, n);
    const int64_t terms = a->a->rank == 2 ? xcc_dim_of(xcc_value_of(a->a), 0) : XCVM_ANY_DIM;
    const bool plain = a->c == NULL && a->activation == XCVM_ACTIVATION_none && a->alpha == 1.0 && a->transA != 0 &&
                       a->transB == 0 && a->b->rank == 2;
    return plain && terms >= 1 && terms <= MOST_TERMS ? n : NULL;
}

/* Whether output `index` is a step, and nothing but the state needs what it makes. */
static bool find_step(const xcc_graph *g, size_t index, step *s)
{
    xcc_value *state = xcc_graph_output_state(g, index), *stored = g->outputs[index];
    const xcc_node *sub = state != NULL ? xcc_producer(stored, XCVM_OP_Sub) : NULL;
    if (sub == NULL || stored->users->next != NULL || xcc_node_input(sub, 0) != state || !is_real(state) ||
        !xcc_same_type(state, stored))
        return false;
    const xcc_node *mul = xcc_sole_producer(xcc_node_input(sub, 1), XCVM_OP_Mul);
    for (size_t i = 0; mul != NULL && i < 2; i++) {
        xcc_value *rate = xcc_node_input(mul, i), *gradient = xcc_node_input(mul, 1 - i);
        if (!is_scalar(rate) || !xcc_same_type(gradient, state))
            continue;
        *s = (step){index, state, rate, gradient, product_of(gradient)};
        return true;
    }
    return false;
}

typedef struct lists {
    const xcvm_value **first, **second, **parameters;
    size_t count;
} lists;

static bool make_lists(xcc_module *m, size_t most, lists *l)
{
    l->first = xcc_alloc(m, most * sizeof(xcvm_value *));
    l->second = xcc_alloc(m, most * sizeof(xcvm_value *));
    l->parameters = xcc_alloc(m, most * sizeof(xcvm_value *));
    return l->first != NULL && l->second != NULL && l->parameters != NULL;
}

/* One instruction for all products, and one for all other gradients, of steps of one rate. */
static xcvm_status append_updates(xcc_builder *b, const step *steps, size_t count)
{
    const xcc_value *rate = steps[0].rate;
    lists products = {0}, others = {0};
    if (!make_lists(b->graph->module, count, &products) || !make_lists(b->graph->module, count, &others))
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        lists *l = steps[i].product != NULL ? &products : &others;
        l->first[l->count] = steps[i].product != NULL ? XCC_ARGS(Gemm, steps[i].product)->a : XCC_IN(steps[i].gradient);
        l->second[l->count] = steps[i].product != NULL ? XCC_ARGS(Gemm, steps[i].product)->b : NULL;
        l->parameters[l->count++] = XCC_IN(steps[i].state);
    }
    if (products.count > 0 &&
        xcc_emit(b, RankUpdate, .a = {products.first, products.count}, .b = {products.second, products.count},
                 .rate = XCC_IN(rate), .parameters = {products.parameters, products.count}) == NULL)
        return b->graph->module->error->status;
    if (others.count > 0 && xcc_emit(b, SGD, .gradients = {others.first, others.count}, .rate = XCC_IN(rate),
                                     .parameters = {others.parameters, others.count}) == NULL)
        return b->graph->module->error->status;
    return XCVM_OK;
}

/* Steps of one rate side by side, in the order of the outputs. */
static int by_rate(const void *a, const void *b)
{
    const step *first = a, *second = b;
    if (first->rate != second->rate)
        return first->rate->id < second->rate->id ? -1 : 1;
    return first->output < second->output ? -1 : 1;
}

xcvm_status xcc_pass_descend(xcc_module *m)
{
    xcc_graph *g = m->graph;
    if (g->output_states == NULL)
        return XCVM_OK;
    step *steps = xcc_alloc(m, g->output_count * sizeof *steps);
    bool *removed = steps != NULL ? xcc_alloc(m, g->output_count * sizeof *removed) : NULL;
    if (removed == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < g->output_count; i++) {
        removed[i] = find_step(g, i, &steps[count]);
        count += removed[i];
    }
    if (count == 0)
        return XCVM_OK;
    qsort(steps, count, sizeof *steps, by_rate);
    xcc_builder b = {.graph = g, .name = "", .origin = ""};
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && steps[end].rate == steps[i].rate; end++)
            continue;
        XCVM_TRY(append_updates(&b, steps + i, end - i));
    }
    return xcc_graph_remove_outputs(g, removed);
}
