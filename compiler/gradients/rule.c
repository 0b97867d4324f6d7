/* The table of rules, from the gradient column of the op definitions, and functions shared by all rules. */
#include "compiler/gradients/copying.h"
#include "compiler/gradients/rule.h"

#include <stdarg.h>
#include <stdio.h>

/* A rule that several op definitions name is declared for each. */
#define GRAD(rule, reads) XCC_DECLARE_GRADIENT(rule)
#define GRAD_STEP(rule) GRAD(rule, BOTH)
#define GRAD_ZERO
#define GRAD_NONE
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary) gradient
#include "ops/instructions.def"
#undef GRAD
#undef GRAD_ZERO
#undef GRAD_NONE

#define GRAD(rule, reads) xcc_gradient_##rule
#define GRAD_ZERO NULL
#define GRAD_NONE NULL

xcc_gradient_rule xcc_gradient_rule_of(xcvm_opcode opcode)
{
    static const xcc_gradient_rule rules[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary) [number] = gradient,
#include "ops/instructions.def"
    };
    return opcode > 0 && (int)opcode < XCVM_OPCODE_LIMIT ? rules[opcode] : NULL;
}

bool xcc_is_differentiable(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR && xcvm_dtype_is_float((xcvm_dtype)v->type.dtype);
}

/* ---- Results ---- */

xcc_value *xcc_extra_result(xcc_vjp *d, size_t i)
{
    xcc_recorder *recorder = d->b->graph->module->recorder;
    if (recorder != NULL && xcc_node_output(d->node, i) == NULL)
        return recorder->extra_result(recorder, d->node, i);
    return xcc_result_made(d->node, i);
}

void xcc_refuse(xcc_vjp *d, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(d->refused, sizeof d->refused, format, arguments);
    va_end(arguments);
}

bool xcc_vjp_need_count(xcc_vjp *d, int64_t count, int64_t most, const char *what)
{
    const xcc_graph *top = d->b->graph->module->graph;
    const char *name = count < 0 ? xcc_symbol_name(d->b->graph->module, count) : NULL;
    char names[160] = "";
    if (count >= 0 && count <= most)
        return true;
    if (count > most) {
        xcc_refuse(d, "has a gradient that supports at most %lld %s, not %lld", (long long)most, what,
                   (long long)count);
        return false;
    }
    /* An unnamed size follows from the sizes of inputs. */
    for (size_t i = 0; name == NULL && i < top->input_count; i++)
        for (int k = 0; k < top->inputs[i]->type.rank; k++) {
            const char *other = xcc_symbol_name(d->b->graph->module, top->inputs[i]->type.dims[k]);
            const size_t length = strlen(names);
            if (other != NULL && strstr(names, other) == NULL)
                (void)snprintf(names + length, sizeof names - length, "%s%.30s", length > 0 ? ", " : "", other);
        }
    if (name != NULL)
        xcc_refuse(
            d, "has a gradient that needs the number of %s, up to %lld, to be known; fix it with --dim %.60s=NUMBER",
            what, (long long)most, name);
    else if (names[0] != '\0')
        xcc_refuse(d,
                   "has a gradient that needs the number of %s, up to %lld, to be known; fix the dimensions that it "
                   "depends on with "
                   "--dim NAME=SIZE (open are %s)",
                   what, (long long)most, names);
    else
        xcc_refuse(
            d,
            "has a gradient that needs the number of %s, up to %lld, to be known; export the model with a fixed size",
            what, (long long)most);
    return false;
}

bool xcc_vjp_need_rank(xcc_vjp *d, size_t i)
{
    const bool known = xcc_in(d, i)->type.rank >= 0;
    if (!known)
        xcc_refuse(d, "has a gradient that needs the rank of operand %zu, which is not known", i);
    return known;
}

bool xcc_vjp_need_sizes(xcc_vjp *d, const xcc_value *v, const char *what)
{
    const bool known = v->type.rank >= 0 && xcvm_dims_known(&v->type);
    if (!known)
        xcc_refuse(d, "has a gradient that needs the sizes of %s, which are not all known", what);
    return known;
}

/* ---- Gradients ---- */

void xcc_set_gradient(xcc_vjp *d, size_t i, xcc_value *gradient)
{
    d->failed = d->failed || gradient == NULL;
    d->operands[i] = gradient;
    d->operand_masks[i] = NULL;
}

/* The mask of operand i, which is broadcast: nonzero if it is for any copy. */
static xcc_value *any_copy(xcc_vjp *d, xcc_value *mask, size_t i)
{
    xcc_value *each = xcc_build_cast(d->b, xcc_expand_like(d->b, mask, xcc_out(d, 0)), XCVM_I32);
    xcc_value *count = xcc_sum_to(d->b, each, xcc_in(d, i));
    return xcc_op2(d, XCVM_OP_Greater, count, xcc_num(d, count, 0));
}

static void set_each(xcc_vjp *d, size_t i, xcc_value *gradient, xcc_value *mask)
{
    xcc_value *sum = xcc_sum_to(d->b, gradient, xcc_in(d, i));
    xcc_set_gradient(d, i, sum);
    d->operand_masks[i] = sum != gradient && mask != NULL ? any_copy(d, mask, i) : mask;
    d->failed = d->failed || (mask != NULL && d->operand_masks[i] == NULL);
}

void xcc_set_gradient_each(xcc_vjp *d, size_t i, xcc_value *gradient) { set_each(d, i, gradient, d->masks[0]); }

/* `product` where the gradient of the first result is not a structural zero. */
static void set_masked(xcc_vjp *d, size_t i, xcc_value *product)
{
    xcc_value *mask = d->masks[0];
    set_each(d, i, mask != NULL ? xcc_where(d, mask, product, xcc_num(d, product, 0)) : product, mask);
}

void xcc_set_gradient_times(xcc_vjp *d, size_t i, xcc_value *factor) { set_masked(d, i, xcc_mul(d, xcc_g(d), factor)); }

void xcc_set_gradient_over(xcc_vjp *d, size_t i, xcc_value *divisor)
{
    set_masked(d, i, xcc_div(d, xcc_g(d), divisor));
}

void xcc_set_gradient_where(xcc_vjp *d, size_t i, xcc_value *condition)
{
    xcc_value *mask = d->masks[0], *g = xcc_g(d);
    xcc_value *both = mask == NULL ? condition : xcc_op2(d, XCVM_OP_And, mask, condition);
    set_each(d, i, xcc_where(d, condition, g, xcc_num(d, g, 0)), both);
}

/* ---- Formulas ---- */

static xcc_value *alias_of(xcc_vjp *d, xcc_value *x)
{
    xcc_recorder *recorder = d->b->graph->module->recorder;
    return recorder != NULL ? recorder->alias(recorder, x) : xcc_apply(d->b, Identity, y, .x = XCC_IN(x));
}

bool xcc_formula_begin(xcc_vjp *d, xcc_formula *f)
{
    *f = (xcc_formula){.behind = d->b->graph->last, .count = xcc_node_input_count(d->node)};
    f->operands = xcc_alloc(d->b->graph->module, f->count * sizeof *f->operands);
    d->failed = f->operands == NULL;
    for (size_t i = 0; i < f->count && !d->failed; i++) {
        f->operands[i] = xcc_in(d, i);
        if (!d->wanted[i])
            continue;
        f->operands[i] = alias_of(d, xcc_in(d, i));
        d->failed = f->operands[i] == NULL;
    }
    return !d->failed;
}

void xcc_formula_end(xcc_vjp *d, const xcc_formula *f, xcc_value *const *results)
{
    xcc_module *m = d->b->graph->module;
    const size_t outs = xcc_node_output_count(d->node);
    xcc_seed *seeds = xcc_alloc(m, outs * sizeof *seeds);
    xcc_value **wrt = xcc_alloc(m, 2 * f->count * sizeof *wrt), **gradients = wrt != NULL ? wrt + f->count : NULL;
    size_t seed_count = 0, count = 0;
    d->failed = d->failed || seeds == NULL || wrt == NULL;
    for (size_t i = 0; i < outs && !d->failed; i++) {
        if (d->results[i] == NULL)
            continue;
        seeds[seed_count++] = (xcc_seed){results[i], d->results[i]};
        d->failed = results[i] == NULL;
    }
    for (size_t i = 0; i < f->count && !d->failed; i++)
        if (d->wanted[i])
            wrt[count++] = f->operands[i];
    d->failed = d->failed || xcc_differentiate(d->b, d->b->graph, f->behind, seeds, seed_count, wrt, count, false,
                                               gradients) != XCVM_OK;
    for (size_t i = f->count; i-- > 0 && !d->failed;)
        if (d->wanted[i] && gradients[--count] != NULL)
            xcc_set_gradient(d, i, gradients[count]);
}
