/* Tests of initializers: distributions and seeds. */
#include "tests/tape/learning.h"

static void moments_of(xcvm_initializer init, double *mean, double *deviation, double *most)
{
    xcvm_tape *t = open_tape();
    xcvm_layer_options o = plain();
    o.weight = init;
    o.dtype = XCVM_F64;
    xcvm_layer *l = xcvm_layer_create_convolution(t, 50, 40, XCVM_INTS(3, 3), &o); /* fans 450 and 360 */
    const xcvm_value *v = value_of(t, xcvm_layer_get_parameter(l, "W"));
    const size_t count = xcvm_value_count(v);
    *mean = *deviation = *most = 0;
    for (size_t i = 0; i < count; i++) {
        const double x = ((const double *)v->data)[i];
        *mean += x / (double)count;
        *deviation += x * x / (double)count;
        *most = fmax(*most, fabs(x));
    }
    *deviation = sqrt(*deviation);
    close_with(t, l);
}

START_TEST(c4_2_initializers)
{
    static const struct {
        xcvm_initializer_kind kind;
        double scale, deviation, most; /* most 0: a normal distribution */
    } kinds[] = {{XCVM_INIT_ZERO, 0, 0, 1e-300},
                 {XCVM_INIT_ONE, 0, 1, 1},
                 {XCVM_INIT_CONSTANT, -2, 2, 2},
                 {XCVM_INIT_NORMAL, 0.5, 0.5, 0},
                 {XCVM_INIT_UNIFORM, 0.3, 0.1732, 0.3},
                 {XCVM_INIT_DEFAULT, 0, 0.04714, 0},
                 {XCVM_INIT_LECUN_NORMAL, 2, 0.09428, 0},
                 {XCVM_INIT_GLOROT_NORMAL, 0, 0.04969, 0},
                 {XCVM_INIT_GLOROT_UNIFORM, 0, 0.04969, 0.08607},
                 {XCVM_INIT_HE_NORMAL, 0, 0.06667, 0},
                 {XCVM_INIT_HE_UNIFORM, 0, 0.06667, 0.11547}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        double mean, deviation, most;
        moments_of((xcvm_initializer){.kind = kinds[i].kind, .scale = kinds[i].scale}, &mean, &deviation, &most);
        ck_assert_msg(fabs(deviation - kinds[i].deviation) < 0.02 * kinds[i].deviation + 1e-12, "%zu: %g", i,
                      deviation);
        if (kinds[i].most > 0)
            ck_assert_double_le(most, kinds[i].most * 1.0001);
        else
            ck_assert_double_gt(most, 3 * deviation);
    }
    /* Orthogonal: W W^T is the scaled identity. */
    xcvm_tape *t = open_tape();
    xcvm_layer_options o = plain();
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_ORTHOGONAL, .scale = 2};
    xcvm_layer *l = xcvm_layer_create_linear(t, 7, 4, &o);
    const xcvm_var w = xcvm_layer_get_parameter(l, "W"), square = xcvm_Gemm(t, w, w, .transB = 1);
    CHECK_F32(t, square, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0, 4);
    xcvm_layer_destroy(l);
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_IDENTITY};
    l = xcvm_layer_create_linear(t, 2, 2, &o);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "W"), 1, 0, 0, 1);
    xcvm_layer_destroy(l);
    ck_assert_ptr_null(xcvm_layer_create_linear(t, 2, 3, &o));
    check_failed(t, XCVM_SHAPE_MISMATCH, "only a square matrix");
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_DATA};
    ck_assert_ptr_null(xcvm_layer_create_linear(t, 2, 3, &o));
    check_failed(t, XCVM_INVALID_ARGUMENT, "its data is NULL");
    close_with(t, NULL);
}
END_TEST

/* Equal tape seeds or own seeds give equal numbers; later draws differ. */
START_TEST(seeds)
{
    float first[3][6];
    for (int i = 0; i < 2; i++) {
        xcvm_tape *t = open_tape();
        xcvm_layer_options o = plain();
        xcvm_layer *net = xcvm_layer_create_chain(t);
        xcvm_layer_add(net, "a", xcvm_layer_create_linear(t, 3, 2, &o));
        xcvm_layer_add(net, "b", xcvm_layer_create_linear(t, 3, 2, &o));
        o.weight = (xcvm_initializer){.kind = XCVM_INIT_NORMAL, .seed = 3};
        xcvm_layer_add(net, "c", xcvm_layer_create_linear(t, 3, 2, &o));
        xcvm_layer_add(net, "d", xcvm_layer_create_linear(t, 3, 2, &o));
        const void *a = value_of(t, xcvm_layer_get_parameter(net, "a/W"))->data,
                   *b = value_of(t, xcvm_layer_get_parameter(net, "b/W"))->data,
                   *c = value_of(t, xcvm_layer_get_parameter(net, "c/W"))->data,
                   *d = value_of(t, xcvm_layer_get_parameter(net, "d/W"))->data;
        ck_assert_mem_ne(a, b, sizeof first[0]);
        ck_assert_mem_eq(c, d, sizeof first[0]);
        memcpy(first[i], a, sizeof first[i]);
        close_with(t, net);
    }
    ck_assert_mem_eq(first[0], first[1], sizeof first[0]);
}
END_TEST

Suite *suite_tape_initializers(void);
Suite *suite_tape_initializers(void) { return SUITE_OF("tape_initializers", c4_2_initializers, seeds); }
