/* Tests of optimizers against PyTorch. */
#define OPTIMIZER_VALUES
#include "tests/tape/learning.h"
#include "xcvm/tape_static.h"

typedef struct learning {
    xcvm_tape *tape;
    xcvm_var w, b;
    xcvm_optimizer *optimizer;
} learning;

static void begin_on(learning *l, xcvm_tape *t, const char *text, const xcvm_optimizer_options *options)
{
    xcvm_error error = {0};
    l->tape = t;
    l->w = wave_parameter(t, 1, 2, DIMS(3, 4));
    l->b = wave_parameter(t, 2, 1, DIMS(3));
    must(xcvm_optimizer_create(t, text, options, &l->optimizer, &error), &error);
    must(xcvm_optimizer_add(l->optimizer, "w", l->w, &error), &error);
    must(xcvm_optimizer_add(l->optimizer, "b", l->b, &error), &error);
    must(xcvm_optimizer_add(l->optimizer, "again", l->w, &error), &error); /* exists already */
}

static learning begin(const char *text, const xcvm_optimizer_options *options)
{
    learning l;
    begin_on(&l, open_tape(), text, options);
    return l;
}

static void one_step(learning *l, int s)
{
    xcvm_error error = {0};
    add_gradient(l->tape, l->w, 10 + s);
    if (s != SKIPPED)
        add_gradient(l->tape, l->b, 20 + s);
    must(xcvm_optimizer_step(l->optimizer, &error), &error);
    xcvm_optimizer_clear_gradients(l->optimizer);
    ck_assert_ptr_null(xcvm_var_get_gradient(l->tape, l->w).at);
    xcvm_tape_reset(l->tape);
}

static void check_after(learning *l, const float *after)
{
    check_f32(l->tape, l->w, 12, after);
    check_f32(l->tape, l->b, 3, after + 12);
}

static void end(learning *l)
{
    xcvm_optimizer_destroy(l->optimizer);
    xcvm_var_release(l->tape, l->w);
    xcvm_var_release(l->tape, l->b);
    check_empty(l->tape);
    close_tape(l->tape);
}

/* Every optimizer, with steps in which a parameter has no gradient. */
START_TEST(c4_9_optimizers)
{
    learning l = begin(optimizers[_i].text, NULL);
    for (int s = 0; s < STEPS; s++)
        one_step(&l, s);
    check_after(&l, optimizers[_i].after);
    end(&l);
}
END_TEST

/* Each step reads the rate. Gradients are scaled. Half precision trains on f32. */
START_TEST(rates_and_types)
{
    learning l = begin("sgd:lr=7", NULL);
    const xcvm_dtype types[] = {XCVM_F64, XCVM_BF16, XCVM_F16};
    xcvm_error error = {0};
    xcvm_var others[3];
    ck_assert_double_eq(xcvm_optimizer_get_rate(l.optimizer), 7);
    for (int i = 0; i < 3; i++) {
        others[i] = xcvm_tape_parameter(l.tape, types[i], 1, DIMS(2), NULL);
        must(xcvm_optimizer_add(l.optimizer, i == 0 ? "f64" : i == 1 ? "bf16" : "f16", others[i], &error), &error);
    }
    xcvm_optimizer_set_gradient_scale(l.optimizer, 0.5);
    for (int s = 0; s < STEPS; s++) {
        xcvm_optimizer_set_rate(l.optimizer, 0.2);
        for (int i = 0; i < 3; i++)
            add_gradient(l.tape, others[i], 0.25);
        one_step(&l, s);
    }
    check_after(&l, after_sgd);
    for (int i = 0; i < 3; i++) {
        const float x = (float)(-0.5 * sin(0.25) / 2), y = (float)(-0.5 * sin(0.62) / 2);
        const xcvm_value *v = value_of(l.tape, xcvm_Cast(l.tape, others[i], .to = XCVM_F32));
        ck_assert_float_eq_tol(((const float *)v->data)[0], x, i == 0 ? 1e-7f : 4e-4f);
        ck_assert_float_eq_tol(((const float *)v->data)[1], y, i == 0 ? 1e-7f : 1e-3f);
        xcvm_var_release(l.tape, others[i]);
    }
    xcvm_tape_reset(l.tape);
    end(&l);
}
END_TEST

/* An f32 master moves where half precision would not, and follows values that the host sets. */
START_TEST(masters)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    const uint16_t one = 0x3f80;
    const xcvm_var p = xcvm_tape_parameter(t, XCVM_BF16, 0, NULL, &one);
    xcvm_optimizer *o;
    must(xcvm_optimizer_create(t, "sgd:lr=0.001", NULL, &o, &error), &error);
    must(xcvm_optimizer_add(o, "p", p, &error), &error);
    for (int i = 0; i < 8; i++) {
        backward(t, p);
        must(xcvm_optimizer_step(o, &error), &error);
        xcvm_optimizer_clear_gradients(o);
    }
    ck_assert_double_eq_tol(xcvm_var_get_number(t, p), 0.992, 2e-3);
    const uint16_t two = 0x4000;
    must(xcvm_var_set_data(t, p, &two, sizeof two, &error), &error);
    backward(t, p);
    must(xcvm_optimizer_step(o, &error), &error);
    ck_assert_double_eq_tol(xcvm_var_get_number(t, p), 2, 1e-2);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

START_TEST(c4_9_clipping)
{
    learning l =
        begin("sgd:lr=0.1", &(xcvm_optimizer_options){.size = sizeof(xcvm_optimizer_options), .clip_norm = 0.7});
    for (int s = 0; s < STEPS; s++)
        one_step(&l, s);
    ck_assert_double_gt(xcvm_optimizer_gradient_norm(l.optimizer), 0.7);
    check_after(&l, after_clip_norm);
    end(&l);
    l = begin("sgd:lr=0.1", &(xcvm_optimizer_options){.size = sizeof(xcvm_optimizer_options), .clip_value = 0.2});
    for (int s = 0; s < STEPS; s++)
        one_step(&l, s);
    ck_assert(isnan(xcvm_optimizer_gradient_norm(l.optimizer)));
    check_after(&l, after_clip_value);
    end(&l);
}
END_TEST

static xcvm_var check_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    int *count = user;
    ck_assert(strcmp(update->name, "w") == 0 || strcmp(update->name, "b") == 0);
    ck_assert_uint_eq(update->step, (uint64_t)*count / 2 + 1);
    ck_assert(!xcvm_var_requires_gradient(t, update->parameter));
    ++*count;
    return XCVM_ABSENT;
}

START_TEST(c2_5_update_hooks)
{
    static const struct {
        xcvm_var (*hook)(void *user, xcvm_tape *tape, const xcvm_update *update);
        double number;
        const float *after;
    } hooks[] = {{xcvm_hook_weight_decay, 0.3, after_decay},
                 {xcvm_hook_lasso, 0.3, after_lasso},
                 {xcvm_hook_clip, 0.2, after_clip_value}};
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        learning l = begin("sgd:lr=0.1", NULL);
        double number = hooks[i].number;
        xcvm_error error = {0};
        int count = 0;
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){check_hook, &count}, &error), &error);
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){hooks[i].hook, &number}, &error), &error);
        one_step(&l, 0);
        one_step(&l, 1);
        ck_assert_int_eq(count, 4);
        end(&l);
        l = begin("sgd:lr=0.1", NULL);
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){hooks[i].hook, &number}, &error), &error);
        for (int s = 0; s < STEPS; s++)
            one_step(&l, s);
        check_after(&l, hooks[i].after);
        end(&l);
    }
}
END_TEST

/* The norm of one parameter's gradient; noise that depends on the tape's seed. */
START_TEST(c2_5_norms_and_noise)
{
    float w[2][12];
    for (int round = 0; round < 2; round++) {
        learning l = begin("sgd:lr=1", NULL);
        xcvm_error error = {0};
        double limit = 0.1, variance = 0.01;
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){xcvm_hook_clip_norm, &limit}, &error), &error);
        float before[12], first[WAVE_ROOM];
        memcpy(before, value_of(l.tape, l.w)->data, sizeof before);
        one_step(&l, 0);
        double norm = 0;
        wave(1, first);
        for (int i = 0; i < 12; i++)
            norm += pow((double)(((float *)value_of(l.tape, l.w)->data)[i] - before[i]), 2);
        ck_assert_double_eq_tol(sqrt(norm), 0.1, 1e-6);
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){xcvm_hook_noise, &variance}, &error), &error);
        memcpy(before, value_of(l.tape, l.w)->data, sizeof before);
        one_step(&l, 1);
        memcpy(w[round], value_of(l.tape, l.w)->data, sizeof before);
        norm = 0;
        for (int i = 0; i < 12; i++)
            norm += pow((double)(w[round][i] - before[i]), 2);
        ck_assert_double_gt(sqrt(norm), 0.11);
        end(&l);
    }
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
}
END_TEST

static xcvm_var wrong_shape(void *user, xcvm_tape *t, const xcvm_update *update)
{
    (void)user;
    return strcmp(update->name, "b") == 0 ? xcvm_tape_scalar(t, XCVM_F32, 1) : XCVM_ABSENT;
}

static xcvm_var failing(void *user, xcvm_tape *t, const xcvm_update *update)
{
    (void)user;
    return xcvm_Add(t, update->gradient, xcvm_tape_scalar(t, XCVM_F64, 1));
}

/* A failure changes nothing. */
START_TEST(c2_6_hooks_that_fail)
{
    const struct {
        xcvm_var (*hook)(void *user, xcvm_tape *tape, const xcvm_update *update);
        xcvm_status status;
        const char *message;
    } hooks[] = {{wrong_shape, XCVM_SHAPE_MISMATCH, "an update hook returned f32[] for the gradient of \"b\", f32[3]"},
                 {failing, XCVM_TYPE_MISMATCH, ""}};
    for (size_t i = 0; i < 2; i++) {
        learning l = begin("adam", NULL);
        xcvm_error error = {0};
        float before[12];
        memcpy(before, value_of(l.tape, l.w)->data, sizeof before);
        must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){hooks[i].hook, NULL}, &error), &error);
        add_gradient(l.tape, l.w, 1);
        add_gradient(l.tape, l.b, 1);
        check_status(xcvm_optimizer_step(l.optimizer, &error), hooks[i].status, &error, hooks[i].message);
        ck_assert_mem_eq(before, value_of(l.tape, l.w)->data, sizeof before);
        xcvm_tape_reset(l.tape);
        end(&l);
    }
}
END_TEST

/* Ops recorded before a step need the old parameters. */
START_TEST(c2_5_updates_are_noticed)
{
    learning l = begin("sgd", NULL);
    xcvm_error error = {0};
    add_gradient(l.tape, l.w, 1);
    const xcvm_var y = xcvm_ReduceSum(l.tape, xcvm_Mul(l.tape, l.w, l.w), .keepdims = 0);
    must(xcvm_optimizer_step(l.optimizer, &error), &error);
    check_status(xcvm_tape_backward(l.tape, y, NULL, &error), XCVM_INVALID_ARGUMENT, &error, "has overwritten");
    xcvm_tape_reset(l.tape);
    end(&l);
}
END_TEST

START_TEST(c4_2_updated_flags_and_averages)
{
    learning l = begin("sgd:lr=0.1", &(xcvm_optimizer_options){.size = sizeof(xcvm_optimizer_options), .average = 0.9});
    xcvm_error error = {0};
    for (int s = 0; s < STEPS; s++)
        one_step(&l, s);
    check_after(&l, after_sgd);
    check_f32(l.tape, xcvm_optimizer_get_average(l.optimizer, l.w), 12, averages);
    must(xcvm_optimizer_swap_averages(l.optimizer, &error), &error);
    check_after(&l, averages);
    must(xcvm_optimizer_swap_averages(l.optimizer, &error), &error);
    check_after(&l, after_sgd);
    must(xcvm_optimizer_set_updated(l.optimizer, l.w, false, &error), &error);
    must(xcvm_var_set_requires_gradient(l.tape, l.b, false, &error), &error);
    add_gradient(l.tape, l.w, 3);
    must(xcvm_optimizer_step(l.optimizer, &error), &error);
    check_after(&l, after_sgd);
    xcvm_tape_reset(l.tape);
    end(&l);
}
END_TEST

/* Restoring gives the same bits: moments, steps, masters, rate and generator. */
START_TEST(c2_5_saved_and_restored)
{
    const xcvm_optimizer_options options = {.size = sizeof options, .average = 0.5};
    for (int format = XCVM_SAFETENSORS; format <= XCVM_NPZ; format++) {
        test_bytes file = {0};
        xcvm_error error = {0};
        double variance = 1e-3;
        float straight[12], resumed[12];
        for (int round = 0; round < 2; round++) {
            learning l = begin("adam:lr=0.01,amsgrad=true", &options);
            must(xcvm_optimizer_add_hook(l.optimizer, (xcvm_update_hook){xcvm_hook_noise, &variance}, &error), &error);
            for (int s = 0; round == 0 && s < SKIPPED + 1; s++)
                one_step(&l, s);
            if (round == 0) {
                xcvm_optimizer_set_rate(l.optimizer, 0.03);
                must(xcvm_optimizer_save(l.optimizer, (xcvm_tensor_format)format, (xcvm_sink){test_bytes_sink, &file},
                                         &error),
                     &error);
            } else {
                must(xcvm_optimizer_load(l.optimizer, file.at, file.length, &error), &error);
            }
            for (int s = SKIPPED + 1; s < STEPS; s++)
                one_step(&l, s);
            memcpy(round == 0 ? straight : resumed, value_of(l.tape, l.w)->data, sizeof straight);
            end(&l);
        }
        ck_assert_mem_eq(straight, resumed, sizeof straight);
        learning l = begin("rmsprop", NULL);
        check_status(xcvm_optimizer_load(l.optimizer, file.at, file.length, &error), XCVM_SHAPE_MISMATCH, &error,
                     "\"optimizer@w.square_avg\" is missing; \"optimizer@b.square_avg\" is missing");
        for (size_t cut = 0; cut < file.length; cut += 97)
            ck_assert_int_ne(xcvm_optimizer_load(l.optimizer, file.at, cut, &error), XCVM_OK);
        end(&l);
        test_bytes_free(&file);
    }
}
END_TEST

/* ---- Tables ---- */

/* A row-sparse gradient of repeated rows equals the dense one. */
static void learn_table(const char *text, bool sparse, const float *after)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    const xcvm_var table = wave_parameter(t, 3, 2, DIMS(6, 2));
    xcvm_optimizer *o;
    must(xcvm_var_set_sparse_gradient(t, table, sparse, &error), &error);
    must(xcvm_optimizer_create(t, text, NULL, &o, &error), &error);
    must(xcvm_optimizer_add(o, "table", table, &error), &error);
    for (int s = 0; s < STEPS; s++) {
        int64_t rows[] = {1, 4, 1, 3, 1, 5};
        for (int i = 0; i < 6; i++)
            rows[i] = (rows[i] + s) % 6 - (i % 2 == 0 ? 6 : 0); /* some count from the end */
        const xcvm_var x = xcvm_Gather(t, table, xcvm_tape_constant(t, XCVM_I64, 2, DIMS(2, 3), rows));
        backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, x, wave_constant(t, 30 + s, 3, DIMS(2, 3, 2))), .keepdims = 0));
        ck_assert_int_eq(xcvm_var_get_gradient(t, table).at == NULL, sparse);
        must(xcvm_optimizer_step(o, &error), &error);
        xcvm_optimizer_clear_gradients(o);
        xcvm_tape_reset(t);
    }
    check_f32(t, table, 12, after);
    xcvm_optimizer_destroy(o);
    xcvm_var_release(t, table);
    check_empty(t);
    close_tape(t);
}

START_TEST(c4_4_sparse_updates)
{
    learn_table("sgd:lr=0.1", true, table_sgd);
    learn_table("sgd:lr=0.1", false, table_sgd);
    learn_table("adagrad:lr=0.1", true, table_adagrad);
    learn_table("adagrad:lr=0.1", false, table_adagrad);
}
END_TEST

START_TEST(c4_4_sparse_gradients)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    const xcvm_var table = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(4, 2), F32S(1, 2, 3, 4, 5, 6, 7, 8));
    xcvm_var rows, gradients;
    must(xcvm_var_set_sparse_gradient(t, table, true, &error), &error);
    must(xcvm_var_get_gradient_rows(t, table, &rows, &gradients, &error), &error);
    ck_assert_ptr_null(rows.at);
    /* Over two passes; a dense use gives a dense gradient. */
    const xcvm_var first = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(3), DIMS(3, -4, 3)),
                   second = xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(1));
    backward(t, xcvm_ReduceSum(t, xcvm_Gather(t, table, first), .keepdims = 0));
    backward(t, xcvm_ReduceSum(t, xcvm_Gather(t, table, second), .keepdims = 0));
    must(xcvm_var_get_gradient_rows(t, table, &rows, &gradients, &error), &error);
    const xcvm_value *v = value_of(t, rows);
    ck_assert_uint_eq(xcvm_value_count(v), 3);
    const int64_t used[] = {0, 1, 3};
    ck_assert_mem_eq(v->data, used, sizeof used);
    CHECK_F32(t, gradients, 1, 1, 1, 1, 2, 2);
    backward(t, xcvm_ReduceSum(t, table, .keepdims = 0));
    CHECK_F32(t, xcvm_var_get_gradient(t, table), 1, 1, 1, 1, 1, 1, 1, 1);
    xcvm_optimizer *o;
    must(xcvm_optimizer_create(t, "sgd:lr=1", NULL, &o, &error), &error);
    must(xcvm_optimizer_add(o, "table", table, &error), &error);
    must(xcvm_optimizer_step(o, &error), &error);
    CHECK_F32(t, table, -1, 0, 1, 2, 4, 5, 4, 5);
    xcvm_var_clear_gradient(t, table);
    must(xcvm_var_get_gradient_rows(t, table, &rows, &gradients, &error), &error);
    ck_assert_ptr_null(rows.at);
    /* A failed pass leaves none. */
    const xcvm_var y = xcvm_Gather(t, table, first), bad = xcvm_Det(t, xcvm_Exp(t, y));
    check_failed(t, XCVM_SHAPE_MISMATCH, "");
    (void)bad;
    const xcvm_var indices = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2));
    const xcvm_var z = xcvm_ReduceSum(t, xcvm_Gather(t, table, indices), .keepdims = 0);
    must(xcvm_var_set_data(t, indices, DIMS(3), sizeof(int64_t), &error), &error);
    check_status(xcvm_tape_backward(t, z, NULL, &error), XCVM_INVALID_ARGUMENT, &error, "has overwritten");
    must(xcvm_var_get_gradient_rows(t, table, &rows, &gradients, &error), &error);
    ck_assert_ptr_null(rows.at);
    /* A differentiable gradient, or one along other axes, is dense. */
    const xcvm_var columns = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0));
    backward(t, xcvm_ReduceSum(t, xcvm_Gather(t, table, columns, .axis = 1), .keepdims = 0));
    CHECK_F32(t, xcvm_var_get_gradient(t, table), 1, 0, 1, 0, 1, 0, 1, 0);
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    backward_with(t, xcvm_ReduceSum(t, xcvm_Gather(t, table, columns), .keepdims = 0), &create);
    CHECK_F32(t, xcvm_var_get_gradient(t, table), 2, 1, 1, 0, 1, 0, 1, 0);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

/* ---- Bad input, memory ---- */

START_TEST(refused)
{
    xcvm_tape *t = open_tape(), *other = open_tape();
    xcvm_error error = {0};
    xcvm_optimizer *o;
    check_status(xcvm_optimizer_create(t, "sdg", NULL, &o, &error), XCVM_INVALID_ARGUMENT, &error,
                 "there is no optimizer 'sdg'");
    check_status(xcvm_optimizer_create(t, "adam:lr=x", NULL, &o, &error), XCVM_INVALID_ARGUMENT, &error,
                 "lr cannot be");
    const xcvm_optimizer_options bad = {.size = sizeof bad, .average = 1};
    check_status(xcvm_optimizer_create(t, "adam", &bad, &o, &error), XCVM_INVALID_ARGUMENT, &error, "average");
    must(xcvm_optimizer_create(t, "adam", NULL, &o, &error), &error);
    const xcvm_var p = parameter(t, 1), ints = xcvm_tape_constant(t, XCVM_I64, 0, NULL, NULL);
    check_status(xcvm_optimizer_add(o, "i", ints, &error), XCVM_TYPE_MISMATCH, &error, "\"i\" is i64");
    check_status(xcvm_optimizer_add(o, "y", xcvm_Exp(t, p), &error), XCVM_INVALID_ARGUMENT, &error, "a call made");
    check_status(xcvm_optimizer_add(o, "o", parameter(other, 1), &error), XCVM_INVALID_ARGUMENT, &error,
                 "another tape");
    must(xcvm_optimizer_add(o, "p", p, &error), &error);
    check_status(xcvm_optimizer_add(o, "p", parameter(t, 2), &error), XCVM_INVALID_ARGUMENT, &error, "two parameters");
    check_status(xcvm_optimizer_set_updated(o, parameter(t, 2), false, &error), XCVM_INVALID_ARGUMENT, &error,
                 "no parameter of the optimizer");
    check_status(xcvm_optimizer_swap_averages(o, &error), XCVM_INVALID_ARGUMENT, &error, "keeps no averages");
    must(xcvm_optimizer_step(o, &error), &error); /* nothing has a gradient */
    xcvm_optimizer_destroy(o);
    xcvm_optimizer_destroy(NULL);
    close_tape(t);
    close_tape(other);
}
END_TEST

static xcvm_status everything(xcvm_tape *t, xcvm_error *error)
{
    const xcvm_optimizer_options options = {.size = sizeof options, .average = 0.5, .clip_norm = 1};
    xcvm_optimizer *o = NULL;
    double number = 0.1;
    test_bytes file = {0};
    const xcvm_var p = parameter(t, 2), table = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), NULL);
    xcvm_status status = xcvm_var_set_sparse_gradient(t, table, true, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_create(t, "adam", &options, &o, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_add(o, "p", p, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_add(o, "table", table, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_add_hook(o, (xcvm_update_hook){xcvm_hook_weight_decay, &number}, error);
    if (status == XCVM_OK) {
        const xcvm_var rows = xcvm_Gather(t, table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, 1)));
        status = xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, rows, p), .keepdims = 0), NULL, error);
    }
    if (status == XCVM_OK)
        status = xcvm_optimizer_step(o, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_save(o, XCVM_NPZ, (xcvm_sink){test_bytes_sink, &file}, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_load(o, file.at, file.length, error);
    xcvm_optimizer_destroy(o);
    test_bytes_free(&file);
    xcvm_var_release(t, p);
    xcvm_var_release(t, table);
    xcvm_tape_reset(t);
    (void)xcvm_tape_status(t, status == XCVM_OK ? error : NULL);
    return status;
}

/* Ops of a lazy tape that were called before a step read the old elements. */
START_TEST(steps_on_lazy_tapes)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = XCVM_TAPE_LAZY};
    xcvm_tape *t;
    xcvm_error error = {0};
    xcvm_optimizer *o;
    double factor = 1;
    must(xcvm_tape_create(&options, &t, &error), &error);
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2));
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &o, &error), &error);
    must(xcvm_optimizer_add(o, "w", w, &error), &error);
    must(xcvm_optimizer_add_hook(o, (xcvm_update_hook){xcvm_hook_weight_decay, &factor}, &error), &error);
    const xcvm_var before = xcvm_Neg(t, w);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, w, w)));
    must(xcvm_optimizer_step(o, &error), &error);
    CHECK_F32(t, w, -0.5f, -1); /* w - (2 w + w) / 2 */
    CHECK_F32(t, before, -1, -2);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

typedef struct static_step {
    xcvm_var w;
    xcvm_optimizer *optimizer;
    int runs;
} static_step;

static xcvm_status step_within(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    static_step *s = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    s->runs++;
    out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, s->w, in[0]));
    xcvm_status status = xcvm_tape_backward(t, out[0], NULL, &error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_step(s->optimizer, &error);
    xcvm_optimizer_clear_gradients(s->optimizer);
    return status;
}

/* A step in a static function is taken in each call, by the schedule. */
START_TEST(steps_within_static_functions)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    static_step s = {.w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2))};
    const xcvm_var x = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, 1, DIMS(2), F32S(1, 1)));
    xcvm_static *schedule;
    xcvm_var loss;
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &s.optimizer, &error), &error);
    must(xcvm_optimizer_add(s.optimizer, "w", s.w, &error), &error);
    must(xcvm_static_create(t, (xcvm_static_function){step_within, &s}, NULL, &schedule, &error), &error);
    for (int i = 0; i < 4; i++) {
        xcvm_static_call(schedule, 1, &x, 1, &loss);
        xcvm_tape_reset(t);
    }
    CHECK_F32(t, s.w, -1, 0);
    ck_assert_int_eq(s.runs, 1);
    xcvm_static_destroy(schedule);
    xcvm_optimizer_destroy(s.optimizer);
    close_tape(t);
}
END_TEST

START_TEST(out_of_memory_anywhere) { starve(&(starvation){.work = everything, .least = 30}); }
END_TEST

Suite *suite_tape_optimizers(void);
Suite *suite_tape_optimizers(void)
{
    Suite *suite =
        SUITE_OF("tape_optimizers", rates_and_types, masters, c4_9_clipping, c2_5_update_hooks, c2_5_norms_and_noise,
                 c2_6_hooks_that_fail, c2_5_updates_are_noticed, c4_2_updated_flags_and_averages,
                 c2_5_saved_and_restored, c4_4_sparse_updates, c4_4_sparse_gradients, refused, steps_on_lazy_tapes,
                 steps_within_static_functions, out_of_memory_anywhere);
    TCase *tcase = tcase_create("rules");
    tcase_add_loop_test(tcase, c4_9_optimizers, 0, (int)(sizeof optimizers / sizeof *optimizers));
    suite_add_tcase(suite, tcase);
    return suite;
}
