/* Gradients of weights. Their factors are deferred, so that the gradient is one product over the rows of several
 * batches, or stays factored until it is read. */
#include "compiler/gradients/rule.h"
#include "compiler/ir/compose.h"
#include "tape/backward/backward.h"
#include "tape/side_table.h"

#include <string.h>

enum {
    PIECES = 128,
    ROWS = 512,   /* limit of rows per product, exceeded by one batch at most */
    ENOUGH = 256, /* a batch with so many rows has a product of its own */
};

/* The sum of a[i], transposed, times g[i], or of its transpose. The matrices are references. */
struct tape_weight_product {
    tape_variable *weight;
    tape_weight_product *next;
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

bool tape_product_can_wait(const tape_backward_pass *pass, const tape_op_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    if ((!gemm && call->schema->opcode != XCVM_OP_MatMul) || !call->batch->operands[1].shared)
        return false;
    const tape_variable *weight = call->in[1], *g = call->out[0]->sum;
    const xcvm_Gemm_args *args = call->args;
    return weight->creator == NULL && tape_backward_reaches(pass, weight) && g != NULL && is_matrix(call->in[0]) &&
           is_matrix(weight) && is_matrix(g) && g->value.type.dims[0] < ENOUGH &&
           (!gemm || (args->transA == 0 && args->activation == XCVM_ACTIVATION_none));
}

static tape_weight_product **find_product(tape_backward_pass *pass, const tape_variable *weight, double factor,
                                          bool transposed)
{
    tape_weight_product **at = &pass->products;
    while (*at != NULL && ((*at)->weight != weight || (*at)->factor != factor || (*at)->transposed != transposed))
        at = &(*at)->next;
    return at;
}

static void release_pieces(tape_weight_product *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        tape_variable_release(p->a[i]);
        tape_variable_release(p->g[i]);
    }
    p->count = 0;
    p->rows = 0;
}

static xcc_value *join_pieces(tape_backward_pass *pass, tape_variable *const *pieces, uint32_t count)
{
    xcc_value *values[PIECES];
    for (uint32_t i = 0; i < count; i++)
        values[i] = (xcc_value *)(uintptr_t)&pieces[i]->value;
    return xcc_build_concat(&pass->builder, count, values, 0);
}

static xcvm_status sum_product(tape_backward_pass *pass, tape_weight_product *p)
{
    if (p->count == 0)
        return XCVM_OK;
    xcc_value *a = join_pieces(pass, p->a, p->count), *g = join_pieces(pass, p->g, p->count);
    xcc_value *product = NULL;
    if (a != NULL && g != NULL)
        product = xcc_apply(&pass->builder, Gemm, y, .a = XCC_IN(p->transposed ? g : a),
                            .b = XCC_IN(p->transposed ? a : g), .alpha = p->factor, .beta = 1, .transA = 1);
    release_pieces(p);
    return product != NULL ? tape_backward_accumulate(pass, p->weight, product, NULL)
                           : tape_backward_failure(pass, "a product");
}

xcvm_status tape_product_defer(tape_backward_pass *pass, const tape_op_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    const xcvm_Gemm_args *args = call->args;
    const double factor = gemm ? args->alpha : 1;
    const bool transposed = gemm && args->transB != 0;
    tape_weight_product **at = find_product(pass, call->in[1], factor, transposed), *p = *at;
    if (p == NULL) {
        if ((p = tape_allocate(pass->tape, sizeof *p)) == NULL)
            return pass->tape->error.status;
        *p = (tape_weight_product){.weight = call->in[1], .factor = factor, .transposed = transposed};
        *at = p;
    }
    p->a[p->count] = call->in[0];
    p->g[p->count] = call->out[0]->sum;
    p->a[p->count]->refs++;
    p->g[p->count]->refs++;
    p->rows += p->g[p->count]->value.type.dims[0];
    p->count++;
    return p->count == PIECES || p->rows >= ROWS ? sum_product(pass, p) : XCVM_OK;
}

static xcvm_status sum_products(tape_backward_pass *pass, tape_op_record *none)
{
    (void)none;
    for (tape_weight_product *p = pass->products; p != NULL; p = p->next)
        XCVM_TRY(sum_product(pass, p));
    return XCVM_OK;
}

xcvm_status tape_products_flush(tape_backward_pass *pass)
{
    return pass->products != NULL ? tape_backward_run_scoped(pass, NULL, sum_products) : XCVM_OK;
}

/* ---- Factored gradients ---- */

/* Least ratio of elements of gradient to factors. The factors may be copied at the end of the pass, and are read
 * once per block of weights. That must be cheap beside writing the gradient. */
enum { WORTH_LEAVING = 8 };

bool tape_product_stays_factored(const tape_backward_pass *pass, const tape_op_record *r)
{
    const xcvm_tape *t = pass->tape;
    const bool gemm = r->operation == NULL && r->schema->opcode == XCVM_OP_Gemm;
    if ((!gemm && (r->operation != NULL || r->schema->opcode != XCVM_OP_MatMul)) ||
        pass->request->kind != TAPE_BACKWARD || pass->request->create || tape_op_has_overwritten(r) ||
        t->batching.strategy != XCVM_BATCHING_NONE || t->tracer != NULL || t->observer.call != NULL || t->check_nan)
        return false;
    const tape_variable *weight = r->in[1], *x = r->in[0], *g = r->out[0]->sum;
    if (!weight->requires || weight->creator != NULL || tape_side(weight)->gradient != NULL ||
        tape_side(weight)->sparse_rows != NULL || tape_side(weight)->hooks != NULL || x == weight ||
        (weight->pass != NULL && (weight->pass != pass || weight->sum != NULL)) ||
        (weight->pass == pass && weight->factored))
        return false;
    const xcvm_value *type = &weight->value.type;
    const xcvm_Gemm_args *args = r->args;
    if ((type->dtype != XCVM_F32 && type->dtype != XCVM_F64) || !is_matrix(weight) || !is_matrix(x) || !is_matrix(g) ||
        (gemm && (args->transA != 0 || args->alpha != 1.0 || args->activation != XCVM_ACTIVATION_none)))
        return false;
    const int64_t terms = g->value.type.dims[0];
    return terms >= 1 && terms <= XCC_FEW_TERMS &&
           xcvm_element_count(type) >=
               WORTH_LEAVING * (xcvm_element_count(&x->value.type) + xcvm_element_count(&g->value.type));
}

static xcvm_status make_product(tape_backward_pass *pass, tape_weight_product *p)
{
    p->weight->factored = false;
    return sum_product(pass, p);
}

xcvm_status tape_product_compute(tape_backward_pass *pass, const tape_variable *v)
{
    for (tape_weight_product *p = pass->products; p != NULL; p = p->next)
        if (p->weight == v && p->count > 0)
            XCVM_TRY(make_product(pass, p));
    return XCVM_OK;
}

/* Replaces a factor that is shared by a copy. */
static xcvm_status own_factor(tape_backward_pass *pass, tape_variable **v)
{
    if (!tape_backward_is_shared(*v))
        return XCVM_OK;
    tape_variable *copy = tape_backward_copy_sum(pass->tape, *v);
    const xcvm_status status = tape_backward_hold(pass, v, copy != NULL ? &copy->value : NULL, "a factor");
    if (copy != NULL)
        tape_variable_unname(copy);
    return status;
}

static xcvm_status own_factors(tape_backward_pass *pass, tape_op_record *none)
{
    (void)none;
    for (tape_weight_product *p = pass->products; p != NULL; p = p->next) {
        if (p->count != 1 || !p->weight->factored) {
            XCVM_TRY(sum_product(pass, p));
            continue;
        }
        if (tape_side_reserve(p->weight) == NULL)
            return pass->tape->error.status;
        XCVM_TRY(own_factor(pass, &p->a[0]));
        XCVM_TRY(own_factor(pass, &p->g[0]));
    }
    return XCVM_OK;
}

xcvm_status tape_products_own(tape_backward_pass *pass)
{
    return pass->products != NULL ? tape_backward_run_scoped(pass, NULL, own_factors) : XCVM_OK;
}

void tape_products_commit(tape_backward_pass *pass)
{
    for (tape_weight_product *p = pass->products; p != NULL; p = p->next)
        if (p->count == 1)
            tape_variable_set_factors(p->weight, p->transposed ? p->g[0] : p->a[0], p->transposed ? p->a[0] : p->g[0]);
}

void tape_products_release(tape_backward_pass *pass)
{
    while (pass->products != NULL) {
        tape_weight_product *p = pass->products;
        pass->products = p->next;
        release_pieces(p);
        tape_free(pass->tape, p, sizeof *p);
    }
}
