/* Products with weights in the walk back: what a weight's gradient is made of is kept, and is one product over the rows
 * of several batches (the steps of a recurrent network), which adds up in fewer sums of the weight's size. */
#include "compiler/gradients/rule.h"
#include "proto/arguments.h"
#include "tape/walk.h"

#include <string.h>

enum {
    PIECES = 128,
    ROWS = 512,   /* are added up together at the most, and one batch more */
    ENOUGH = 256, /* of one batch are worth a product of their own */
};

/* One weight's: a[i], transposed, times g[i] is added up, or that transposed; both matrices, held. */
struct tape_product {
    tape_variable *weight;
    tape_product *next;
    double factor;
    bool transposed;
    int64_t rows;
    uint32_t count;
    tape_variable *a[PIECES], *g[PIECES];
};

static bool is_matrix(const tape_variable *v)
{
    return v->value.type.kind == XCVM_KIND_TENSOR && v->value.type.rank == 2;
}

bool tape_product_waits(const tape_walk *w, const tape_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    if ((!gemm && call->schema->opcode != XCVM_OP_MatMul) || !call->batch->operands[1].shared)
        return false;
    const tape_variable *weight = call->in[1], *g = call->out[0]->sum;
    const xcvm_Gemm_args *args = call->args;
    return weight->creator == NULL && tape_walk_reaches(w, weight) && g != NULL && is_matrix(call->in[0]) &&
           is_matrix(weight) && is_matrix(g) && g->value.type.dims[0] < ENOUGH &&
           (!gemm || (args->transA == 0 && args->activation == XCVM_ACTIVATION_none));
}

static tape_product **find(tape_walk *w, const tape_variable *weight, double factor, bool transposed)
{
    tape_product **at = &w->products;
    while (*at != NULL && ((*at)->weight != weight || (*at)->factor != factor || (*at)->transposed != transposed))
        at = &(*at)->next;
    return at;
}

static void drop(tape_product *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        tape_variable_release(p->a[i]);
        tape_variable_release(p->g[i]);
    }
    p->count = 0;
    p->rows = 0;
}

static xcc_value *joined(tape_walk *w, tape_variable *const *pieces, uint32_t count)
{
    xcc_value *values[PIECES];
    for (uint32_t i = 0; i < count; i++)
        values[i] = (xcc_value *)(uintptr_t)&pieces[i]->value;
    return xcc_build_concat(&w->builder, count, values, 0);
}

static xcvm_status add_up(tape_walk *w, tape_product *p)
{
    if (p->count == 0)
        return XCVM_OK;
    xcc_value *a = joined(w, p->a, p->count), *g = joined(w, p->g, p->count);
    xcc_value *product = NULL;
    if (a != NULL && g != NULL)
        product = xcc_apply(&w->builder, Gemm, y, .a = XCC_IN(p->transposed ? g : a),
                            .b = XCC_IN(p->transposed ? a : g), .alpha = p->factor, .beta = 1, .transA = 1);
    drop(p);
    return product != NULL ? tape_walk_add(w, p->weight, product, NULL) : tape_walk_failure(w, "a product");
}

xcvm_status tape_product_wait(tape_walk *w, const tape_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    const xcvm_Gemm_args *args = call->args;
    const double factor = gemm ? args->alpha : 1;
    const bool transposed = gemm && args->transB != 0;
    tape_product **at = find(w, call->in[1], factor, transposed), *p = *at;
    if (p == NULL) {
        if ((p = tape_take(w->tape, sizeof *p)) == NULL)
            return w->tape->error.status;
        *p = (tape_product){.weight = call->in[1], .factor = factor, .transposed = transposed};
        *at = p;
    }
    p->a[p->count] = call->in[0];
    p->g[p->count] = call->out[0]->sum;
    p->a[p->count]->refs++;
    p->g[p->count]->refs++;
    p->rows += p->g[p->count]->value.type.dims[0];
    p->count++;
    return p->count == PIECES || p->rows >= ROWS ? add_up(w, p) : XCVM_OK;
}

static xcvm_status add_all(tape_walk *w, tape_record *none)
{
    (void)none;
    for (tape_product *p = w->products; p != NULL; p = p->next)
        XCVM_TRY(add_up(w, p));
    return XCVM_OK;
}

xcvm_status tape_products_add(tape_walk *w) { return w->products != NULL ? tape_walk_run(w, NULL, add_all) : XCVM_OK; }

void tape_products_drop(tape_walk *w)
{
    while (w->products != NULL) {
        tape_product *p = w->products;
        w->products = p->next;
        drop(p);
        tape_give_back(w->tape, p, sizeof *p);
    }
}
