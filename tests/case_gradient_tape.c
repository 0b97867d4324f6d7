/* The program of a text case called on a tape, and its gradients there. */
#include "tape/side_table.h"
#include "tests/case_gradient_parts.h"
#include "tests/case_host.h"

#include <math.h>
#include <string.h>

static bool call_program(case_checking *c, const case_form *f, xcvm_tape *t, tape_variable **literals,
                         tape_variable **loss)
{
    xcc_graph *g = t->module.graph;
    xcc_builder b = {.graph = g, .name = "case", .origin = "case"};
    xcc_value **constants = xcc_alloc(&t->module, (c->image.constant_count + 1) * sizeof *constants),
              *registers[CASE_REGISTERS] = {NULL};
    for (size_t i = 0, k = 0; i < c->image.constant_count; i++) {
        const xcvm_value *literal = &c->image.constants[i].value;
        const bool changes = k < c->count && c->literals[k] == i;
        const xcvm_dtype dtype = changes ? f->dtype : (xcvm_dtype)literal->dtype;
        constants[i] = !changes ? xcc_constant(g, NULL, dtype, literal->rank, literal->dims, literal->data, false)
                                : &tape_tensor(t, dtype, literal->rank, literal->dims, NULL)->value;
        if (constants[i] == NULL)
            return false;
        if (!changes)
            continue;
        literals[k] = tape_variable_of(constants[i]);
        tape_variable_require(literals[k++], true);
        xcvm_store_f64(dtype, constants[i]->type.data, 0, xcvm_element_count(literal), literal->data, false);
    }
    /* The case names results of calls. Handles of operands are released, so elements that no rule reads are freed. */
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    for (size_t i = 0, k = 0; i < c->image.constant_count && k < c->count; i++)
        if (c->literals[k] == i) {
            constants[i] = xcc_build_unary(&b, XCVM_OP_Identity, constants[i]);
            k++;
        }
    *loss = case_gradient_append(c, &b, constants, registers) ? tape_variable_of(case_gradient_loss(c, &b, registers))
                                                              : NULL;
    const xcvm_var result = *loss != NULL ? tape_handle(*loss) : XCVM_ABSENT;
    xcvm_tape_scope_end(t, scope, *loss != NULL, &result);
    return *loss != NULL;
}

static bool compare_called(const case_checking *c, const case_form *f, xcvm_tape *t, tape_variable *const *literals,
                           xcvm_value *const *expected)
{
    bool good = true;
    for (size_t i = 0; good && i < c->count; i++) {
        const case_tolerance tolerance = {f->rtol, f->atol * fmax(1, case_gradient_greatest(expected[i]))};
        const tape_variable *gradient = tape_side(literals[i])->gradient;
        xcvm_value *zeros = NULL;
        xcvm_error error;
        if (gradient == NULL) { /* zero by structure */
            good = xcvm_tensor_create(NULL, f->dtype, expected[i]->rank, expected[i]->dims, &zeros, &error) == XCVM_OK;
            memset(xcvm_value_data(zeros), 0, xcvm_value_bytes(zeros));
        }
        const xcvm_value *got = gradient != NULL ? &gradient->value.type : zeros;
        good = good && ((got->dtype == f->dtype && xcvm_same_shape(got, expected[i])) ||
                        case_fail(c->why, "gradient, tape, %s: that of literal %zu has another type", f->name, i));
        good = good && case_gradient_compare(c, f, i, got, expected[i], tolerance);
        xcvm_value_release(zeros);
        xcvm_var_clear_gradient(t, tape_handle(literals[i]));
    }
    return good;
}

bool case_gradient_called(case_checking *c, const case_form *f, xcvm_value *const *expected)
{
    const xcvm_tape_options options = {.size = sizeof options,
                                       .threads = 1,
                                       .functions = case_host_functions,
                                       .function_count = case_host_function_count};
    xcvm_tape *t;
    tape_variable *literals[CASE_LITERALS], *loss;
    if ((f->dtype != XCVM_F64 && c->gradient->only_f64) || f->open || f->optimization < 0)
        return true;
    if (xcvm_tape_create(&options, &t, &c->error) != XCVM_OK)
        return case_fail(c->why, "gradient, tape: %s", c->error.message);
    bool good = true;
    const bool made = call_program(c, f, t, literals, &loss);
    if (!made && f->dtype == XCVM_F64) {
        xcvm_tape_status(t, &c->error);
        good = case_fail(c->why, "gradient, tape: %s: %s", c->error.instruction, c->error.message);
    }
    for (int create = 1; good && made && create >= 0; create--) {
        const xcvm_backward_options how = {.size = sizeof how, .create_graph = create == 1};
        const xcvm_status status = loss->requires ? xcvm_tape_backward(t, tape_handle(loss), &how, &c->error) : XCVM_OK;
        /* Refused are functions of the host, whose products are options of the compiler's, and what needs a loop. */
        if (status == XCVM_UNSUPPORTED)
            break;
        good = status == XCVM_OK ||
               case_fail(c->why, "gradient, tape, %s: %s: %s", f->name, c->error.instruction, c->error.message);
        good = good && compare_called(c, f, t, literals, expected);
    }
    xcvm_tape_destroy(t);
    return good;
}
