/* Random graphs give the same results however far they are optimized. */
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

enum { POOL = 40, SEEDS = 300 };

static uint32_t state, graph_seed;

static uint32_t below(uint32_t n) { return test_random_below(&state, n); }

typedef struct pool {
    xcc_value *at[POOL];
    size_t count;
} pool;

static xcc_value *pick(const pool *p) { return p->at[below((uint32_t)p->count)]; }

static void add_to_pool(pool *p, xcc_value *v)
{
    if (p->count < POOL && v->type.rank >= 0 && v->type.rank <= 4)
        p->at[p->count++] = v;
}

static xcc_value *random_number(xcc_builder *b)
{
    static const double numbers[] = {0, -0.0, 1, -1, 2, 0.5, 3, 6, 1.0 / 6, 0.25};
    double n = numbers[below(sizeof numbers / sizeof *numbers)];
    return below(2) ? number(b, n) : floats(b, 1, DIMS(1), FLOATS((float)n));
}

/* Operations that keep numbers small, so that rounding stays small. */
static xcc_value *random_unary(xcc_builder *b, xcc_value *x)
{
    switch (below(11)) {
    case 0:
        return APPLY(Neg, y, .x = XCC_IN(x));
    case 1:
        return APPLY(Tanh, y, .x = XCC_IN(x));
    case 2:
        return APPLY(Sigmoid, y, .x = XCC_IN(x));
    case 3:
        return APPLY(Relu, y, .x = XCC_IN(x));
    case 4:
        return APPLY(Identity, y, .x = XCC_IN(x));
    case 5:
        return APPLY(Cast, y, .x = XCC_IN(x), .to = XCVM_F32, .saturate = 1);
    case 6:
        return APPLY(Clip, y, .x = XCC_IN(x), .min = XCC_IN(below(2) ? number(b, -1) : NULL),
                     .max = XCC_IN(below(2) ? number(b, 2) : NULL));
    case 7:
        return APPLY(HardSigmoid, y, .x = XCC_IN(x), .alpha = 1.0 / 6, .beta = 0.5);
    case 8:
        return APPLY(LeakyRelu, y, .x = XCC_IN(x), .alpha = 0.25);
    case 9:
        return APPLY(Pow, y, .a = XCC_IN(APPLY(Tanh, y, .x = XCC_IN(x))), .b = XCC_IN(number(b, 1 + below(3))));
    default:
        return APPLY(Abs, y, .x = XCC_IN(x));
    }
}

static bool broadcasts(const xcc_value *x, const xcc_value *z)
{
    for (int i = 1; i <= x->type.rank && i <= z->type.rank; i++) {
        int64_t p = x->type.dims[x->type.rank - i], q = z->type.dims[z->type.rank - i];
        if (p != q && p != 1 && q != 1)
            return false;
    }
    return true;
}

static xcc_value *random_binary(xcc_builder *b, xcc_value *x, xcc_value *z)
{
    if (below(2))
        z = random_number(b);
    if (!broadcasts(x, z))
        return x;
    bool swap = below(2) != 0;
    xcc_value *p = swap ? z : x, *q = swap ? x : z;
    switch (below(6)) {
    case 0:
        return APPLY(Add, y, .a = XCC_IN(p), .b = XCC_IN(q));
    case 1:
        return APPLY(Sub, y, .a = XCC_IN(p), .b = XCC_IN(q));
    case 2:
        return APPLY(Mul, y, .a = XCC_IN(APPLY(Tanh, y, .x = XCC_IN(p))), .b = XCC_IN(q));
    case 3:
        return APPLY(Max, y, .a = XCC_IN(p), .b = XCC_IN(q));
    case 4:
        return APPLY(Min, y, .a = XCC_IN(p), .b = XCC_IN(q));
    default:
        return APPLY(Div, y, .a = XCC_IN(p), .b = XCC_IN(number(b, 4)));
    }
}

static xcc_value *random_view(xcc_builder *b, xcc_value *x)
{
    int64_t perm[XCVM_MAX_RANK] = {0};
    int rank = x->type.rank;
    switch (below(6)) {
    case 0:
        for (int i = 0; i < rank; i++)
            perm[i] = rank - 1 - i;
        return APPLY(Transpose, y, .x = XCC_IN(x), .perm = {perm, (size_t)rank});
    case 1:
        return rank > 0 ? APPLY(Flatten, y, .x = XCC_IN(x), .axis = below((uint32_t)rank + 1)) : x;
    case 2:
        return rank < 4
                   ? APPLY(Unsqueeze, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 1, DIMS(below((uint32_t)rank + 1)))))
                   : x;
    case 3:
        return APPLY(Squeeze, y, .x = XCC_IN(x));
    case 4:
        return APPLY(Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, 1, DIMS(-1))));
    default: {
        xcc_value *shape = APPLY(Shape, y, .x = XCC_IN(x), .end = INT64_MAX);
        xcc_value *last =
            APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(shape), XCC_IN(ints(b, 1, DIMS(1)))}, 2});
        return rank < 4 ? APPLY(Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(last)) : x;
    }
    }
}

static xcc_value *random_other(xcc_builder *b, xcc_value *x)
{
    int rank = x->type.rank;
    int64_t last = rank > 0 ? x->type.dims[rank - 1] : -1;
    if (rank == 0)
        return x;
    switch (below(6)) {
    case 0:
        return APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 1, DIMS(-1))), .keepdims = below(2));
    case 1:
        return last > 0 && rank > 1 ? APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 2, DIMS(last, 3)))) : x;
    case 2:
        return last > 0 && rank > 1
                   ? APPLY(Add, y,
                           .a = XCC_IN(APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 2, DIMS(last, 2))))),
                           .b = XCC_IN(weights(b, 1, DIMS(2))))
                   : x;
    case 3:
        return APPLY(Slice, y, .x = XCC_IN(x), .starts = XCC_IN(ints(b, 1, DIMS(0))),
                     .ends = XCC_IN(ints(b, 1, DIMS(INT64_MAX))), .axes = XCC_IN(ints(b, 1, DIMS(-1))));
    case 4:
        return APPLY(Softmax, y, .x = XCC_IN(x), .axis = -1);
    default:
        return APPLY(Expand, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, 1, DIMS(1))));
    }
}

static void random_nodes(xcc_builder *b, pool *p, xcc_value *cond, int count, int depth);

static void random_if(xcc_builder *b, pool *p, xcc_value *cond, int depth)
{
    xcc_value *out[2];
    for (int i = 0; i < 2; i++)
        out[i] = must(b, xcc_value_create(b->graph, NULL));
    if (below(4) == 0)
        cond = must(b, xcc_scalar(b->graph, XCVM_BOOL, below(2)));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 2, out, 2);
    ck_assert_ptr_nonnull(n);
    for (int i = 0; i < 2; i++) {
        xcc_builder branch = {.graph = n->bodies[i]};
        pool inner = *p;
        random_nodes(&branch, &inner, cond, 4, depth - 1);
        output(&branch, pick(&inner));
        output(&branch, pick(&inner));
    }
    ok(b->graph->module, xcc_node_infer(n));
    for (int i = 0; i < 2; i++)
        add_to_pool(p, out[i]);
}

/* States keep their shapes: each is the last one, bounded, or another of the same shape. */
static void random_loop(xcc_builder *b, pool *p, xcc_value *cond, int depth)
{
    xcc_value *x = pick(p), *out[3];
    for (int i = 0; i < 3; i++)
        out[i] = must(b, xcc_value_create(b->graph, NULL));
    xcc_value *in[4] = {must(b, xcc_scalar_i64(b->graph, below(4))), below(2) ? cond : NULL, x, x};
    xcc_node *n = xcc_append_control(b, XCC_LOOP, 4, in, 3, out, 1);
    ck_assert_ptr_nonnull(n);
    xcc_builder body = {.graph = n->bodies[0]};
    input(&body, "i", XCVM_I64, 0, NULL);
    xcc_value *go = input(&body, "go", XCVM_BOOL, 0, NULL), *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = must(b, xcc_value_create(body.graph, "s"));
        xcvm_value_set_tensor(&s[i]->type, XCVM_F32, x->type.rank, x->type.dims);
    }
    xcc_value *parameters[4] = {body.graph->inputs[0], go, s[0], s[1]};
    ok(b->graph->module, xcc_graph_set_inputs(body.graph, 4, parameters));
    pool inner = *p;
    add_to_pool(&inner, s[0]);
    add_to_pool(&inner, s[1]);
    random_nodes(&body, &inner, cond, 4, depth - 1);
    output(&body, go);
    for (int i = 0; i < 2; i++) {
        xcc_value *next = pick(&inner);
        bool same = next->type.rank == x->type.rank && xcvm_same_shape(&next->type, &x->type);
        output(&body, same ? next : s[1 - i]);
    }
    output(&body, pick(&inner));
    ok(b->graph->module, xcc_loop_infer_body(n));
    ok(b->graph->module, xcc_node_infer(n));
    /* Without a trip, dimensions of scans that are not known are 0, and more of them are known after optimization. */
    int64_t trips;
    for (int i = 0; i < (xcc_loop_trips(n, &trips) && trips > 0 ? 3 : 2); i++)
        add_to_pool(p, out[i]);
}

static void random_nodes(xcc_builder *b, pool *p, xcc_value *cond, int count, int depth)
{
    for (int i = 0; i < count; i++) {
        xcc_value *x = pick(p);
        switch (below(depth > 0 ? 12 : 10)) {
        case 0:
        case 1:
        case 2:
            add_to_pool(p, random_unary(b, x));
            break;
        case 3:
        case 4:
        case 5:
            add_to_pool(p, random_binary(b, x, pick(p)));
            break;
        case 6:
        case 7:
            add_to_pool(p, random_view(b, x));
            break;
        case 8:
        case 9:
            add_to_pool(p, random_other(b, x));
            break;
        case 10:
            random_if(b, p, cond, depth);
            break;
        default:
            random_loop(b, p, cond, depth);
            break;
        }
    }
}

static void make_random(xcc_builder *b)
{
    pool p = {.count = 0};
    state = graph_seed * 2654435761u + 1;
    add_to_pool(&p, input(b, "x", XCVM_F32, 2, DIMS(2, 3)));
    add_to_pool(&p, input(b, "z", XCVM_F32, 2, DIMS(-1, 3)));
    xcc_value *cond = input(b, "cond", XCVM_BOOL, 0, NULL);
    random_nodes(b, &p, cond, 16, 3);
    for (int i = 0; i < 4; i++)
        output(b, p.at[p.count - 1 - below((uint32_t)p.count / 2 + 1)]);
}

START_TEST(random_graphs)
{
    compilation c;
    graph_seed = (uint32_t)_i;
    check_same_results(make_random, &c);
    finish(&c);
}
END_TEST

Suite *suite_compiler_random(void)
{
    Suite *suite = suite_create("compiler/random");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, random_graphs, 0, SEEDS);
    suite_add_tcase(suite, tests);
    return suite;
}
